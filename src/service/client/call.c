/* SPDX-License-Identifier: Apache-2.0 */
#include "service/client/call.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/memory/memory.h"
#include "service/memory/program.h"
#include "service/memory/stream.h"
#include "service/run/attend.h"
#include "service/run/carrier.h"
#include "service/run/closing.h"
#include "service/run/dispatch.h"
#include "service/run/watch.h"
#include "service/run/worker.h"
#include "service/server.h"
#include "wire/messages.h"

/* The serving thread polls for the answer if clients were silent no longer in recent calls. */
#define POLL_MAX_NS UINT64_C(300000)
#define POLL_MIN_NS UINT64_C(50000)

struct svc_call {
	LIST_ENTRY(svc_call) link; /* in session->calls; under server->lock */
	uint64_t number;
	struct svc_execution *execution; /* borrowed: which calls */
	const struct sal_call *call; /* borrowed: the serving thread's */
	uint64_t operand_bytes, result_bytes; /* with the gaps between arrays */

	pthread_mutex_t lock; /* taken after server->lock; guards the rest */
	pthread_cond_t changed;
	bool has_answer, has_ended; /* has_ended: the session is gone */
	uint64_t copy_request; /* the client wants the operands; 0: no, or done */
	void *copy_to; /* in the arena */
	int code; /* of the answer */
	void *tail; /* owned; the text, or small results */
	struct sal_place_in_arena place; /* size 0: the results are in the tail */
	const void *results; /* in the arena */
};

static uint64_t span_all(const struct sal_call_array *arrays, uint32_t count)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += sal_call_span(arrays[i].bytes);
	return bytes;
}

static void copy_operands(const struct sal_call *call, char *to)
{
	for (uint32_t i = 0; i < call->operand_count; i++) {
		const struct sal_call_array *a = &call->operands[i];

		if (a->bytes > 0)
			memcpy(to, a->data, a->bytes);
		to += sal_call_span(a->bytes);
	}
}

static void copy_results(const struct sal_call *call, const char *from)
{
	for (uint32_t i = 0; i < call->result_count; i++) {
		const struct sal_call_array *a = &call->results[i];

		if (a->bytes > 0)
			memcpy(a->data, from, a->bytes);
		from += sal_call_span(a->bytes);
	}
}

static void *write_shapes(void *at, const struct sal_call_array *arrays, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct sal_call_array *a = &arrays[i];
		struct sal_call_shape *shape = at;

		*shape = (struct sal_call_shape){ a->type, a->rank, a->bytes };
		if (a->rank > 0)
			memcpy(shape + 1, a->dims, a->rank * sizeof(int64_t));
		at = (int64_t *)(shape + 1) + a->rank;
	}
	return at;
}

static size_t shape_bytes(const struct sal_call_array *arrays, uint32_t count)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += sizeof(struct sal_call_shape) + arrays[i].rank * sizeof(int64_t);
	return bytes;
}

/* The record that calls the client. NULL for lack of memory, or if it would be too large. */
static struct sal_msg_call *make_record(const struct svc_call *c, uint64_t request)
{
	const struct sal_call *call = c->call;
	bool is_inline = c->operand_bytes <= SAL_INLINE_MAX;
	size_t size = sizeof(struct sal_msg_call) +
		      shape_bytes(call->operands, call->operand_count) +
		      shape_bytes(call->results, call->result_count) +
		      (is_inline ? (size_t)c->operand_bytes : 0);
	struct sal_msg_call *m = size <= SAL_RECORD_MAX ? calloc(1, size) : NULL;
	void *at;

	if (!m)
		return NULL;
	*m = (struct sal_msg_call){ .header = { .size = (uint32_t)size, .type = SAL_MSG_CALL },
				    .call = c->number,
				    .request = request,
				    .index = call->index,
				    .operand_bytes = c->operand_bytes,
				    .result_bytes = c->result_bytes,
				    .operand_count = call->operand_count,
				    .result_count = call->result_count };
	at = write_shapes(m + 1, call->operands, call->operand_count);
	at = write_shapes(at, call->results, call->result_count);
	if (is_inline)
		copy_operands(call, at);
	return m;
}

/* Give the large operands to the client. The place is checked; the lock is not held. */
static void give_operands(struct svc_call *c, struct svc_session *s)
{
	uint64_t request = c->copy_request;
	void *to = c->copy_to;

	c->copy_request = 0;
	(void)pthread_mutex_unlock(&c->lock);
	copy_operands(c->call, to);
	svc_outbox_done(&s->outbox, request, 0, NULL, 0);
	(void)pthread_mutex_lock(&c->lock);
}

static bool is_answered(struct svc_call *c)
{
	bool is_answered;

	(void)pthread_mutex_lock(&c->lock);
	is_answered = c->has_answer || c->has_ended;
	(void)pthread_mutex_unlock(&c->lock);
	return is_answered;
}

static bool is_over(struct svc_call *c)
{
	bool is_over;

	(void)pthread_mutex_lock(&c->lock);
	is_over = c->has_answer || c->has_ended || c->copy_request;
	(void)pthread_mutex_unlock(&c->lock);
	return is_over;
}

/* How long to poll: one and a half times as long as recent silences, or not at all. */
static uint64_t poll_budget(const struct svc_session *s) SVC_LOCKED
{
	uint64_t budget = s->call_ns + s->call_ns / 2;

	if (s->call_ns > POLL_MAX_NS)
		return 0;
	return budget < POLL_MIN_NS ? POLL_MIN_NS : budget;
}

bool svc_calls_are_quick(const struct svc_session *s)
{
	return s->call_ns <= POLL_MAX_NS;
}

/* Wait for a moment, then look for the answer. False: there is something for the worker. */
static bool look_for_answer(struct svc_call *c, struct svc_session *s, uint64_t until_ns) SVC_LOCKED
{
	bool is_worker = svc_worker_is_me(s->server);

	svc_unlock(s->server);
	do
		(void)sched_yield();
	while (!is_worker && sal_ring_next_type(&s->submit) == 0 && !is_over(c) &&
	       svc_now_ns() < until_ns);
	svc_lock(s->server);
	if (s->state != SVC_OPEN)
		return false;
	return is_worker ? svc_worker_serve(s) : svc_worker_take_answers(s);
}

/*
 * Poll the ring for the answer. Waking the worker, which would then wake this thread, takes longer
 * than a small function of Python. If this thread is the worker, it does the session's other work
 * meanwhile. If not, other records are the worker's: then stop.
 */
static void poll_for_answer(struct svc_call *c, struct svc_session *s)
{
	struct svc_server *server = s->server;
	uint64_t budget_ns;
	bool goes_on, wake = false;

	svc_lock(server);
	budget_ns = s->state == SVC_OPEN ? poll_budget(s) : 0;
	if (budget_ns > 0) {
		svc_attend_poll_begin(s);
		do
			goes_on = look_for_answer(c, s, s->attention.heard_ns + budget_ns);
		while (goes_on && !is_over(c) && svc_now_ns() < s->attention.heard_ns + budget_ns);
		wake = svc_attend_poll_end(s);
	}
	if (svc_worker_is_me(server) && !is_answered(c))
		svc_watch_leave(server);
	svc_unlock(server);
	if (wake)
		svc_worker_wake(server);
}

static void wait_for_answer(struct svc_call *c, struct svc_session *s)
{
	poll_for_answer(c, s);
	(void)pthread_mutex_lock(&c->lock);
	while (!c->has_answer && !c->has_ended) {
		if (c->copy_request)
			give_operands(c, s);
		else
			(void)pthread_cond_wait(&c->changed, &c->lock);
	}
	(void)pthread_mutex_unlock(&c->lock);
}

/* Use the answer. The first exception becomes the text of the iteration's failure. */
static int use_answer(struct svc_call *c, struct svc_execution *x, struct sal_err *err)
{
	if (!c->has_answer)
		return sal_err_set(err, SAL_CANCELLED, "the session has ended");
	if (c->code == 0) {
		copy_results(c->call, c->results ? c->results : c->tail);
		if (c->place.size > 0)
			svc_outbox_released(&x->session->outbox, &c->place);
		return SAL_OK;
	}
	(void)sal_err_set(err, (enum sal_code)c->code, "%s", (const char *)c->tail);
	svc_lock(x->session->server);
	if (!x->raised) {
		x->raised = c->tail;
		c->tail = NULL;
	}
	svc_unlock(x->session->server);
	return -err->code;
}

/* Announce the call: the client's answer finds it from now on. False: the session has ended. */
static bool begin(struct svc_call *c, struct svc_execution *x)
{
	struct svc_session *s = x->session;
	bool is_open, wake = false;

	svc_lock(s->server);
	is_open = s->state == SVC_OPEN;
	if (is_open) {
		c->number = ++s->call_count;
		svc_attend_silence_begin(s);
		svc_attend_if_ahead(s); /* from now on the ring is read */
		LIST_INSERT_HEAD(&s->calls, c, link);
		svc_unpark(s); /* what waits for the end of this iteration would wait for ever */
		wake = svc_errand_lend(s, &x->errand);
	}
	svc_unlock(s->server);
	if (wake)
		svc_worker_wake(s->server);
	return is_open;
}

static void end(struct svc_call *c, struct svc_session *s)
{
	uint64_t silence_ns;

	svc_lock(s->server);
	silence_ns = svc_attend_silence_end(s);
	if (silence_ns > 4 * POLL_MAX_NS)
		silence_ns = 4 * POLL_MAX_NS;
	s->call_ns = s->call_ns - s->call_ns / 4 + silence_ns / 4;
	LIST_REMOVE(c, link);
	svc_unlock(s->server);
}

static int serve(struct svc_call *c, struct svc_execution *x, struct sal_err *err)
{
	struct svc_session *s = x->session;
	struct sal_msg_call *record;
	int rc;

	if (!begin(c, x))
		return sal_err_set(err, SAL_CANCELLED, "the session has ended");
	record = make_record(c, x->request);
	if (record) {
		svc_outbox_call(&s->outbox, record);
		free(record);
		wait_for_answer(c, s);
	}
	end(c, s);
	rc = record ? use_answer(c, x, err)
		    : sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
				  "salusd: no memory for a Python callback");
	free(c->tail);
	return rc;
}

int svc_call_serve(void *ctx, const struct sal_call *call, struct sal_err *err)
{
	struct svc_call c = { .execution = ctx, .call = call };
	int rc;

	c.operand_bytes = span_all(call->operands, call->operand_count);
	c.result_bytes = span_all(call->results, call->result_count);
	(void)pthread_mutex_init(&c.lock, NULL);
	(void)pthread_cond_init(&c.changed, NULL);
	rc = serve(&c, ctx, err);
	(void)pthread_cond_destroy(&c.changed);
	(void)pthread_mutex_destroy(&c.lock);
	return rc;
}

static struct svc_call *find(struct svc_session *s, uint64_t number)
{
	struct svc_call *c;

	LIST_FOREACH(c, &s->calls, link)
		if (c->number == number)
			return c;
	return NULL;
}

enum svc_taken svc_take_operands(struct svc_session *s, const struct sal_msg_operands *m)
{
	struct svc_call *c = find(s, m->call);
	void *to = svc_session_place(s, &m->into);

	if (!to)
		return SVC_BROKEN;
	if (!c || m->into.size != c->operand_bytes) {
		svc_not_found(s, m->request, "call", m->call);
		return SVC_TAKEN;
	}
	(void)pthread_mutex_lock(&c->lock);
	c->copy_to = to;
	c->copy_request = m->request;
	(void)pthread_cond_signal(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
	return SVC_TAKEN;
}

/* The answer's own bytes: the text, with a NUL behind it, or the results. */
static void *copy_tail(const struct sal_msg_answer *m)
{
	char *tail = calloc(1, (size_t)m->tail_size + 1);

	if (tail && m->tail_size > 0)
		memcpy(tail, m + 1, m->tail_size);
	return tail;
}

static int known_code(int32_t code)
{
	return code > SAL_OK && code <= SAL_UNAUTHENTICATED ? code : SAL_UNKNOWN;
}

enum svc_taken svc_take_answer(struct svc_session *s, const struct sal_msg_answer *m)
{
	const void *results = m->results.size > 0 ? svc_session_place(s, &m->results) : NULL;
	struct svc_call *c = find(s, m->call);
	void *tail;

	if (m->results.size > 0 && !results)
		return SVC_BROKEN;
	if (!c || c->has_answer)
		return SVC_TAKEN;
	if (m->code == 0 && (results ? m->results.size : m->tail_size) != c->result_bytes)
		return SVC_BROKEN;
	tail = copy_tail(m);
	if (!tail)
		return SVC_NO_MEMORY;
	(void)pthread_mutex_lock(&c->lock);
	c->code = m->code ? known_code(m->code) : 0;
	c->tail = tail;
	c->place = m->results;
	c->results = results;
	c->has_answer = true;
	(void)pthread_cond_signal(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
	return SVC_TAKEN;
}

void svc_calls_end(struct svc_session *s)
{
	struct svc_call *c;

	LIST_FOREACH(c, &s->calls, link) {
		(void)pthread_mutex_lock(&c->lock);
		c->has_ended = true;
		(void)pthread_cond_signal(&c->changed);
		(void)pthread_mutex_unlock(&c->lock);
	}
}

bool svc_nested_is_open(const struct svc_session *s)
{
	return !LIST_EMPTY(&s->calls);
}

static uint64_t positive(int64_t bytes)
{
	return bytes > 0 ? (uint64_t)bytes : 0;
}

uint64_t svc_nested_bytes(const struct svc_shared_program *p)
{
	return (positive(p->facts->memory.output) + positive(p->facts->memory.temp)) *
	       p->facts->chip_count;
}

/* Lane, tier and stream follow those of the newest call: it is the innermost one. */
static bool enter(struct svc_execution *x) SVC_LOCKED
{
	const struct svc_execution *outer = LIST_FIRST(&x->session->calls)->execution;

	x->is_nested = true;
	x->lane = outer->lane;
	x->tier = outer->tier;
	x->stream = svc_stream_nested(outer->stream);
	return x->stream != UINT32_MAX;
}

static void launch_when_ready(struct svc_execution *x) SVC_LOCKED;

static void on_argument(struct svc_waiter *w) SVC_LOCKED
{
	struct svc_execution *x = SAL_CONTAINER_OF(w, struct svc_execution, nested_waiter);

	x->session->nested_waits--;
	launch_when_ready(x);
}

/* An argument may be the output of a nested execution that has not started, or that calls. */
static void launch_when_ready(struct svc_execution *x)
{
	size_t i;

	for (i = 0; i < x->arg_count; i++) {
		if (!svc_buffer_is_pending(x->args[i]))
			continue;
		x->nested_waiter.go = on_argument;
		x->session->nested_waits++;
		svc_buffer_wait(x->args[i], &x->nested_waiter);
		return;
	}
	svc_launch_init(x);
	svc_errand_post(x->session, &x->errand);
}

bool svc_nested_start(struct svc_execution *x)
{
	struct svc_session *s = x->session;
	bool is_too_deep;

	if (!svc_nested_is_open(s))
		return false;
	is_too_deep = !enter(x);
	x->shared = svc_shared_program_ref(x->program->shared);
	x->iteration.grow_bytes = svc_execution_growth(x);
	x->nested_bytes = svc_memory_round(s->server,
					   positive(x->shared->facts->memory.temp) * x->list_count);
	s->promised_bytes += x->iteration.grow_bytes + x->nested_bytes;
	svc_execution_move(x, SVC_QUEUED);
	svc_execution_move(x, SVC_GRANTED);
	TAILQ_INSERT_TAIL(&s->executions, x, link);
	x->start_ns = x->grant_ns = svc_now_ns();
	if (is_too_deep) {
		s->promised_bytes -= x->iteration.grow_bytes;
		svc_execution_fail(
			x, SAL_UNIMPLEMENTED,
			"salusd: Python callbacks that run programs are nested too deep");
		return true;
	}
	launch_when_ready(x);
	return true;
}

void svc_nested_account(struct svc_execution *x)
{
	struct svc_session *s = x->session;

	TAILQ_REMOVE(&s->executions, x, link);
	svc_execution_release(x);
	s->promised_bytes -= x->nested_bytes;
	svc_memory_settle(s);
	svc_session_try_end(s);
}
