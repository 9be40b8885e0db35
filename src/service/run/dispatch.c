/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/dispatch.h"

#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/log/log.h"
#include "core/engine.h"
#include "service/client/call.h"
#include "service/client/news.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/ledger.h"
#include "service/memory/buffer.h"
#include "service/memory/memory.h"
#include "service/memory/paging.h"
#include "service/memory/program.h"
#include "service/memory/stream.h"
#include "service/real/real.h"
#include "service/run/attend.h"
#include "service/run/carrier.h"
#include "service/run/closing.h"
#include "service/run/rest.h"
#include "service/run/worker.h"
#include "service/server.h"
#include "service/timing/gap.h"
#include "service/timing/nap.h"
#include "service/trace.h"

/*
 * In one report, a vendor's thread carries sessions of its lane so many times. The worker does the
 * rest.
 */
#define ROUNDS_IN_DONE 4
/* Decisions that are carried out in one go. */
#define DECISIONS_MAX 64

void svc_execution_move(struct svc_execution *x, enum svc_execution_state to)
{
	/* The states that may follow each state, as bits. */
	static const uint32_t steps[] = {
		[SVC_NEW] = 1u << SVC_QUEUED,
		[SVC_QUEUED] = 1u << SVC_GRANTED | 1u << SVC_ENDED,
		[SVC_GRANTED] = 1u << SVC_FETCHING | 1u << SVC_RUNNING | 1u << SVC_ENDED,
		[SVC_FETCHING] = 1u << SVC_RUNNING | 1u << SVC_ENDED,
		[SVC_RUNNING] = 1u << SVC_ENDED,
		[SVC_ENDED] = 1u << SVC_TOLD,
		[SVC_TOLD] = 0,
	};
	int from = atomic_load_explicit(&x->state, memory_order_relaxed);

	SAL_ASSERT(steps[from] & 1u << to);
	atomic_store_explicit(&x->state, to, memory_order_relaxed);
}

/* The outputs are computed: downloads need not wait any more. */
static void finish_outputs(struct svc_execution *x)
{
	size_t i;

	for (i = 0; i < x->output_count; i++)
		x->outputs[i]->producer = NULL;
}

void svc_execution_release(struct svc_execution *x)
{
	size_t i;

	finish_outputs(x);
	svc_launch_unpin(x);
	for (i = 0; i < x->arg_count; i++)
		svc_buffer_unref(x->args[i]);
	for (i = 0; i < x->output_count; i++)
		svc_buffer_unref(x->outputs[i]);
	x->arg_count = x->output_count = 0;
	svc_program_unref(x->program);
	x->program = NULL;
}

void svc_execution_free(struct svc_execution *x)
{
	struct svc_session *s = x->session;

	svc_execution_release(x);
	free(x->args);
	free(x->outputs);
	free(x->retained);
	free(x->is_retained);
	free(x->donated);
	free(x->donated_ids);
	free(x->device_args);
	free(x->device_outputs);
	free(x->text);
	free(x->raised);
	svc_shared_program_unref(s->server, x->shared);
	if (x->is_queue_counted)
		svc_limit_give(s, SVC_QUEUED_ITERATIONS, 1);
	svc_limit_give(s, SVC_QUEUED_BYTES, x->queued_bytes);
	svc_attend_if_ahead(s);
	s->queued_bytes -= x->queued_bytes;
	free(x);
	svc_session_unref(s);
}

void svc_execution_submit(struct svc_execution *x)
{
	struct svc_session *s = x->session;

	svc_assert_locked(s->server);
	x->shared = svc_shared_program_ref(x->program->shared);
	x->iteration.id = x->request;
	x->iteration.program = x->shared->number;
	x->iteration.pace = &x->shared->pace;
	x->expected_ns = x->iteration.expected_ns = x->program->mean_ns;
	svc_real_expect(x);
	x->iteration.grow_bytes = svc_execution_growth(x);
	if (x->iteration.needs.ephem_bytes - x->iteration.margin_bytes > s->temp_bytes)
		s->temp_bytes = x->iteration.needs.ephem_bytes - x->iteration.margin_bytes;
	svc_execution_move(x, SVC_QUEUED);
	TAILQ_INSERT_TAIL(&s->executions, x, link);
	svc_waiting_begin(s);
	s->queued_count++;
	s->queued_ns += x->expected_ns;
	s->server->queued++;
	svc_news_watch(s->server);
	sal_engine_submit(s->server->engine, svc_now_ns(), s->core, &x->iteration);
}

static void set_failure(struct svc_execution *x, int code, const char *text)
{
	x->code = code < 0 ? -code : code;
	free(x->text);
	x->text = text ? strndup(text, SAL_TEXT_MAX) : NULL;
}

void svc_execution_fail(struct svc_execution *x, int code, const char *text)
{
	size_t i;

	for (i = 0; i < x->output_count; i++)
		svc_buffer_fail(x->outputs[i], code, text);
	set_failure(x, code, text);
	if (!x->raised) /* else it had started */
		svc_execution_give_back(x);
	x->end_ns = svc_now_ns();
	svc_dispatch_push(x);
}

bool svc_execution_half(struct svc_execution *x)
{
	return atomic_fetch_sub(&x->halves, 1) == 1;
}

static void trace(struct svc_server *server, const struct sal_record *r,
		  const struct sal_session *core, struct sal_iteration *it)
{
	const struct svc_session *s = core ? sal_session_user(core) : NULL;
	const struct svc_execution *x = it ? svc_execution_of(it) : NULL;
	struct svc_trace_about about = {
		.session = core,
		.iteration = it,
		.name = s ? s->name : NULL,
	};

	if (x)
		about.span = (struct sal_trace_span){ x->start_ns, x->end_ns };
	svc_trace_put(&server->trace, server->engine, r, &about);
}

/* Queue a decision. A second decision about the same session or execution joins the first. */
static void note(struct svc_server *server, struct svc_decision *d, enum svc_verdict verdict)
{
	if (d->verdicts == 0)
		STAILQ_INSERT_TAIL(&server->decisions, d, link);
	d->verdicts |= verdict;
}

void svc_decision_drop(struct svc_server *server, struct svc_decision *d)
{
	if (d->verdicts)
		STAILQ_REMOVE(&server->decisions, d, svc_decision, link);
	d->verdicts = 0;
}

static void note_about_execution(struct svc_server *server, struct svc_execution *x,
				 const struct sal_record *r) SVC_LOCKED
{
	if (r->what == SAL_GRANT) {
		svc_execution_move(x, SVC_GRANTED);
		x->grant_ns = svc_now_ns();
		x->lane = r->lane;
		x->tier = (uint32_t)r->value;
		x->stream = svc_stream_index(x->session, x->lane, x->tier);
		x->session->tier = x->tier;
		x->session->promised_bytes += x->iteration.grow_bytes;
		note(server, &x->decision, SVC_VERDICT_GRANT);
	} else if (r->what == SAL_REFUSE) {
		svc_execution_move(x, SVC_ENDED);
		x->decision.refusal = *r;
		note(server, &x->decision, SVC_VERDICT_REFUSE);
	}
}

static void note_about_session(struct svc_server *server, struct svc_session *s,
			       const struct sal_record *r)
{
	switch (r->what) {
	case SAL_REFUSE:
		s->need_refused = true; /* svc_memory_ask reads this when the engine returns */
		s->refusal = *r;
		note(server, &s->decision, SVC_VERDICT_REFUSE);
		break;
	case SAL_ADMIT:
		note(server, &s->decision, SVC_VERDICT_ADMIT);
		break;
	case SAL_PAGE_OUT:
		note(server, &s->decision, SVC_VERDICT_PAGE_OUT);
		break;
	case SAL_PAGE_IN:
		note(server, &s->decision, SVC_VERDICT_PAGE_IN);
		break;
	default: /* events; and moves to another lane, where buffers follow when used */
		break;
	}
}

void svc_on_decision(void *ctx, const struct sal_record *r, struct sal_session *core,
		     struct sal_iteration *it)
{
	struct svc_server *server = ctx;

	trace(server, r, core, it);
	if (r->what == SAL_WAKE_AT) {
		struct svc_worker *w = &server->worker;

		w->wake_ns = r->value;
		w->is_called |= r->value > 0 && (w->until_ns == 0 || r->value < w->until_ns);
	} else if (r->what == SAL_EJECT) {
		sal_log_error("policy", "ejected: %s; fifo has taken over",
			      sal_reason_name(r->reason));
	} else if (it) {
		svc_assert_locked(server);
		note_about_execution(server, svc_execution_of(it), r);
	} else if (core) {
		note_about_session(server, sal_session_user(core), r);
	}
}

static void leave_queue(struct svc_execution *x) SVC_LOCKED
{
	struct svc_session *s = x->session;

	x->is_queue_counted = false;
	svc_limit_give(s, SVC_QUEUED_ITERATIONS, 1);
	svc_waiting_end(s);
	s->queued_count--;
	s->queued_ns -= x->expected_ns;
	s->server->queued--;
}

static void start(struct svc_execution *x) SVC_LOCKED
{
	struct svc_server *server = x->session->server;

	leave_queue(x);
	x->start_ns = svc_now_ns();
	if (server->running++ == 0)
		svc_gap_end(&server->worker.gap, x->start_ns);
	svc_launch_init(x);
	svc_errand_post(x->session, &x->errand);
}

/* The engine will never grant this execution. */
static void refuse(struct svc_execution *x) SVC_LOCKED
{
	struct svc_session *s = x->session;
	char text[1000];
	enum sal_code code = svc_refusal_explain(x, text, sizeof(text));
	size_t i;

	leave_queue(x);
	TAILQ_REMOVE(&s->executions, x, link);
	for (i = 0; i < x->output_count; i++)
		svc_buffer_fail(x->outputs[i], code, text);
	set_failure(x, (int)code, text);
	svc_execution_give_back(x);
	svc_execution_report(x);
	svc_execution_free(x);
	svc_memory_settle(s);
	svc_session_try_end(s);
}

static void carry_out_for_session(struct svc_session *s, uint32_t verdicts) SVC_LOCKED
{
	if (verdicts & (SVC_VERDICT_ADMIT | SVC_VERDICT_REFUSE))
		svc_unpark(s);
	if (verdicts & SVC_VERDICT_PAGE_OUT)
		svc_page_out(s);
	if (verdicts & SVC_VERDICT_PAGE_IN)
		svc_page_in(s);
	svc_session_try_end(s);
}

/* Carry out decisions, some at a time. True if there was any. */
static bool carry_out(struct svc_server *server) SVC_LOCKED
{
	struct svc_decision *d;
	uint32_t n;

	for (n = 0; n < DECISIONS_MAX && (d = STAILQ_FIRST(&server->decisions)); n++) {
		uint32_t verdicts = d->verdicts;
		struct svc_execution *x = SAL_CONTAINER_OF(d, struct svc_execution, decision);

		STAILQ_REMOVE_HEAD(&server->decisions, link);
		d->verdicts = 0;
		if (d->session)
			carry_out_for_session(d->session, verdicts);
		else if (verdicts & SVC_VERDICT_GRANT)
			start(x);
		else
			refuse(x);
	}
	return n > 0;
}

/* Take the executions that ended, oldest first. */
static struct svc_execution *take_done(struct svc_server *server)
{
	struct svc_execution *all =
		atomic_exchange_explicit(&server->done, NULL, memory_order_acquire);
	struct svc_execution *in_order = NULL;

	while (all) {
		struct svc_execution *next = all->next_done;

		all->next_done = in_order;
		in_order = all;
		all = next;
	}
	return in_order;
}

/*
 * Post the completion first, then the outputs that waiters asked for. The client sees both in
 * `show`.
 */
static void end(struct svc_execution *x)
{
	struct svc_waiter *w;

	svc_execution_move(x, SVC_ENDED);
	finish_outputs(x);
	svc_outbox_begin(&x->session->outbox);
	svc_nap_publish(x->session->holding, x->session->queued_count, x->session->queued_ns,
			x->end_ns > x->start_ns ? x->end_ns - x->start_ns : 0);
	svc_execution_report(x);
	while ((w = STAILQ_FIRST(&x->waiters))) {
		STAILQ_REMOVE_HEAD(&x->waiters, link);
		w->go(w);
	}
	TAILQ_INSERT_TAIL(&x->session->server->untold, x, untold_link);
}

static void update_mean(uint64_t *mean_ns, uint64_t used_ns)
{
	*mean_ns = *mean_ns ? *mean_ns - *mean_ns / 8 + used_ns / 8 : used_ns;
}

/* Update the program's times, for this session and for later sessions with this program. */
static void learn(struct svc_execution *x, uint64_t used_ns)
{
	struct svc_shared_program *shared = x->program->shared;

	update_mean(&x->program->mean_ns, used_ns);
	if (!x->session->server->carries_in_done)
		svc_lengths_add(&x->program->lengths, used_ns);
	update_mean(&shared->mean_ns, used_ns);
	shared->is_asynchronous = x->call_ns < used_ns / 4;
}

static void account(struct svc_server *server, struct svc_execution *x) SVC_LOCKED
{
	struct svc_session *s = x->session;
	uint64_t used_ns = x->end_ns > x->start_ns ? x->end_ns - x->start_ns : 1;

	if (x->is_nested) {
		svc_nested_account(x);
		return;
	}
	if (--server->running == 0)
		svc_gap_begin(&server->worker.gap, x->end_ns);
	server->lanes[x->lane].iterations++;
	server->lanes[x->lane].busy_ns += used_ns;
	if (x->code == 0)
		learn(x, used_ns);
	x->iteration.busy_ns = x->is_measured ? x->busy_ns : 0;
	svc_real_learn(x);
	TAILQ_REMOVE(&s->executions, x, link);
	svc_execution_release(x);
	svc_memory_settle(s); /* before the engine reads the next iteration's needs */
	sal_engine_done(server->engine, svc_now_ns(), s->core, used_ns);
	svc_session_try_end(s);
}

static void show(struct svc_execution *x)
{
	if (atomic_load_explicit(&x->state, memory_order_relaxed) == SVC_TOLD)
		return;
	svc_outbox_end(&x->session->outbox);
	svc_execution_move(x, SVC_TOLD);
}

void svc_dispatch_show(struct svc_server *server)
{
	struct svc_execution *x;

	while ((x = TAILQ_FIRST(&server->untold))) {
		TAILQ_REMOVE(&server->untold, x, untold_link);
		show(x);
		svc_execution_free(x);
	}
}

bool svc_dispatch(struct svc_server *server)
{
	struct svc_execution *ended, *x;
	bool any = false;

	svc_assert_locked(server);
	do {
		ended = take_done(server);
		any |= ended != NULL;
		for (x = ended; x; x = x->next_done)
			end(x);
		/*
		 * No iteration is queued and no errand is posted: show completions before
		 * accounting.
		 */
		for (x = ended; x && server->queued == 0 && TAILQ_EMPTY(&server->posted);
		     x = x->next_done)
			show(x);
		for (x = ended; x; x = x->next_done)
			account(server, x);
		any |= carry_out(server);
	} while (atomic_load_explicit(&server->done, memory_order_relaxed));
	if (any && svc_real_keep(server))
		svc_carriers_settle(server);
	return any;
}

static void push(struct svc_server *server, struct svc_execution *x)
{
	struct svc_execution *first = atomic_load_explicit(&server->done, memory_order_relaxed);

	do
		x->next_done = first;
	while (!atomic_compare_exchange_weak_explicit(&server->done, &first, x,
						      memory_order_release, memory_order_relaxed));
}

void svc_dispatch_push(struct svc_execution *x)
{
	push(x->session->server, x);
}

/*
 * A vendor's thread of tier 1 has a low priority. It must not hold the lock, because the whole
 * daemon would wait for a thread that the system does not run: the worker does everything else.
 */
void svc_dispatch_report(struct svc_execution *x)
{
	struct svc_server *server = x->session->server;
	struct svc_stream *stream = &server->streams[x->stream];
	uint32_t lane = x->lane, rounds = 0;
	bool carries = server->carries_in_done && x->tier == 0;
	bool wake = true;

	(void)atomic_fetch_add(&stream->reporters, 1);
	(void)atomic_fetch_add(&server->reporters, 1);
	push(server, x); /* from here on another thread may free x */
	if (carries && svc_trylock(server)) {
		do
			(void)svc_dispatch(server);
		while (svc_carry_lane(server, lane) && ++rounds < ROUNDS_IN_DONE);
		(void)svc_dispatch(server);
		svc_dispatch_show(server);
		wake = svc_rest_foresee(server) || svc_worker_has_work(server);
		svc_unlock(server);
	}
	if (wake)
		svc_worker_wake(server);
	(void)atomic_fetch_sub(&stream->reporters, 1);
	(void)atomic_fetch_sub(&server->reporters, 1);
}
