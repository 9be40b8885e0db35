/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/python/calls.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/range.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/promise.h"
#include "adaptor/python/interpreter.h"
#include "adaptor/python/old.h"
#include "base/container.h"
#include "base/sys/clock.h"
#include "base/sys/thread.h"

/* An idle thread ends after so many seconds. */
#define IDLE_S 5
/* After a call a thread polls for the next one, if recent gaps between calls were this short. */
#define GAP_MAX_NS UINT64_C(400000)
/* So many functions run at a time. Further calls wait. */
#define THREADS_MAX 64
/* So many requests are sent ahead while a program may call, and then half of them are awaited. */
#define AHEAD_MAX 128

/* A call that waits for a thread; the record follows. */
struct waiting {
	STAILQ_ENTRY(waiting) link;
	struct sal_msg_call record; /* with its tail */
};

struct server {
	LIST_ENTRY(server) link;
	pthread_t thread;
};

struct calls {
	struct adp_call_server taker; /* what the connection knows */
	struct adp_conn *conn; /* borrowed: its owner */
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t wake;
	LIST_HEAD(, adp_callees) callees;
	_Atomic uint32_t callee_count; /* changes under the lock */
	LIST_HEAD(, server) servers;
	STAILQ_HEAD(, waiting) waiting;
	uint32_t threads, idle;
	uint32_t queued; /* calls that wait for a thread */
	uint64_t idle_from_ns; /* when the last call was answered */
	uint64_t gap_ns; /* learned: from an answer to the next call */
	_Atomic bool has_waiting;
};

struct adp_callees {
	LIST_ENTRY(adp_callees) link;
	struct calls *calls; /* borrowed: the connection */
	uint64_t request; /* 0: not named yet, or ended */
	bool has_ended;
	int refs; /* of the request, and of the thread that sends it */
	struct adp_listener listener;
	uint32_t count;
	void *functions[]; /* borrowed: jaxlib's, until the execution has ended */
};

static struct calls *calls_of(struct adp_conn *conn)
{
	struct adp_call_server *taker = adp_conn_call_server(conn);

	return taker ? SAL_CONTAINER_OF(taker, struct calls, taker) : NULL;
}

/* Under the lock. */
static bool has_call(const struct calls *calls)
{
	return !STAILQ_EMPTY(&calls->waiting);
}

/* Which function a record means. */
struct wanted {
	struct calls *calls;
	uint64_t request, index;
};

static void *find_function(void *ctx)
{
	const struct wanted *w = ctx;
	struct adp_callees *c;
	void *function = adp_old_find(w->index);

	(void)pthread_mutex_lock(&w->calls->lock);
	LIST_FOREACH(c, &w->calls->callees, link)
		if (c->request && c->request == w->request && w->index < c->count)
			function = c->functions[w->index];
	(void)pthread_mutex_unlock(&w->calls->lock);
	return function;
}

static void on_copied(void *ctx, const struct adp_answer *answer)
{
	struct adp_promise *promise = ctx;

	adp_promise_fulfil(promise, answer->code, answer->text);
	adp_promise_unref(promise);
}

/* Asks for the operands and waits for them. False: they did not come. */
static bool fetch_operands(struct adp_conn *conn, const struct sal_msg_call *m,
			   const struct adp_range *into)
{
	struct adp_promise *promise = adp_promise_create(conn);
	struct sal_msg_operands *ask;
	uint64_t request;
	bool came;

	if (!promise)
		return false;
	request = adp_request(conn, on_copied, adp_promise_ref(promise));
	ask = request ? adp_reserve(conn, SAL_MSG_OPERANDS, sizeof(*ask)) : NULL;
	if (ask) {
		ask->request = request;
		ask->call = m->call;
		ask->into = into->place;
		adp_send(conn, true);
	} else if (!request || adp_request_drop(conn, request)) {
		adp_promise_unref(promise); /* the request's reference */
	}
	came = ask && adp_promise_wait(promise) == 0;
	adp_promise_unref(promise);
	return came;
}

/* text is NULL if the results are there. range->at is NULL if they ride in the record. */
static bool send_answer(struct adp_conn *conn, const struct sal_msg_call *m, const char *text,
			const char *results, const struct adp_range *range)
{
	size_t size = text ? strnlen(text, SAL_TEXT_MAX) : range->at ? 0 : (size_t)m->result_bytes;
	struct sal_msg_answer *answer =
		adp_reserve(conn, SAL_MSG_ANSWER, sal_record_size(sizeof(*answer), size));

	if (!answer)
		return false;
	answer->call = m->call;
	answer->code = text ? SAL_INTERNAL : SAL_OK;
	answer->tail_size = (uint32_t)size;
	if (!text && range->at)
		answer->results = range->place;
	if (size > 0)
		memcpy(answer + 1, text ? text : results, size);
	adp_send(conn, true);
	return true;
}

/* The operands that ride in the record. */
static char *inline_operands(const struct sal_msg_call *m)
{
	return (char *)m + m->header.size - m->operand_bytes;
}

/* Serves a call whose memory is there. */
static char *serve_with(struct calls *calls, const struct sal_msg_call *m,
			const struct adp_range *operands, char *results)
{
	struct wanted wanted = { calls, m->request, m->index };
	struct adp_python_call call = {
		.record = m,
		.operands = operands->at ? operands->at : inline_operands(m),
		.results = results,
		.find = find_function,
		.ctx = &wanted,
	};

	if (operands->at && !fetch_operands(calls->conn, m, operands))
		return strdup("salus: the operands of a Python callback did not arrive");
	return adp_python_call(&call);
}

static void serve(struct calls *calls, const struct sal_msg_call *m)
{
	struct adp_conn *conn = calls->conn;
	struct adp_range operands = { .at = NULL }, results = { .at = NULL };
	char small[SAL_INLINE_MAX];
	struct sal_err err = { 0 };
	char *text = NULL;

	memset(small, 0, sizeof(small));
	if ((m->operand_bytes > SAL_INLINE_MAX &&
	     adp_range_alloc(conn, m->operand_bytes, &operands, &err) < 0) ||
	    (m->result_bytes > SAL_INLINE_MAX &&
	     adp_range_alloc(conn, m->result_bytes, &results, &err) < 0))
		text = strdup(err.text);
	else
		text = serve_with(calls, m, &operands, results.at ? results.at : small);
	/* The daemon releases the results that it got. */
	if (!send_answer(conn, m, text, small, &results) || text)
		adp_range_free(conn, &results);
	adp_range_free(conn, &operands);
	free(text);
}

/*
 * Under the lock, which it releases. A program that calls once often calls again soon, and waking a
 * thread takes longer than a small call.
 */
static void poll_for_call(struct calls *calls)
{
	uint64_t budget = calls->gap_ns + calls->gap_ns / 2;

	if (calls->idle_from_ns == 0 || calls->gap_ns > GAP_MAX_NS || has_call(calls))
		return;
	(void)pthread_mutex_unlock(&calls->lock);
	adp_conn_poll_until(calls->conn, &calls->has_waiting, budget);
	(void)pthread_mutex_lock(&calls->lock);
}

/* Under the lock. NULL: nothing came for a while. */
static struct waiting *next(struct calls *calls)
{
	struct timespec until;
	struct waiting *w;
	int rc = 0;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_S;
	calls->idle++;
	poll_for_call(calls);
	while (STAILQ_EMPTY(&calls->waiting) && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&calls->wake, &calls->lock, &until);
	calls->idle--;
	w = STAILQ_FIRST(&calls->waiting);
	if (w) {
		STAILQ_REMOVE_HEAD(&calls->waiting, link);
		calls->queued--;
	}
	atomic_store_explicit(&calls->has_waiting, has_call(calls), memory_order_relaxed);
	return w;
}

/* Under the lock. The time since the last answer counts as a gap, up to a bound. */
static void learn_gap(struct calls *calls)
{
	uint64_t gap = calls->idle_from_ns ? sal_now_ns() - calls->idle_from_ns : 4 * GAP_MAX_NS;

	if (gap > 4 * GAP_MAX_NS)
		gap = 4 * GAP_MAX_NS;
	calls->gap_ns = calls->gap_ns - calls->gap_ns / 4 + gap / 4;
	calls->idle_from_ns = 0;
}

static void *live(void *arg)
{
	struct calls *calls = arg;
	struct adp_conn *conn = calls->conn;
	struct server me = { .thread = pthread_self() };
	struct waiting *w;

	(void)pthread_mutex_lock(&calls->lock);
	LIST_INSERT_HEAD(&calls->servers, &me, link);
	while ((w = next(calls))) {
		(void)pthread_mutex_unlock(&calls->lock);
		serve(calls, &w->record);
		free(w);
		(void)pthread_mutex_lock(&calls->lock);
		calls->idle_from_ns = sal_now_ns();
	}
	LIST_REMOVE(&me, link);
	calls->threads--;
	(void)pthread_mutex_unlock(&calls->lock);
	adp_conn_unref(conn);
	return NULL;
}

/* Under the lock. Every waiting call gets a thread, up to the limit. */
static void start_thread(struct calls *calls)
{
	if (calls->threads >= THREADS_MAX)
		return;
	(void)adp_conn_ref(calls->conn); /* the thread's */
	if (sal_thread_start(NULL, "salus-python", live, calls) == 0)
		calls->threads++;
	else
		adp_conn_unref(calls->conn);
}

/* Called by the thread that takes records. */
static void take(struct adp_call_server *taker, const struct sal_msg_call *m)
{
	struct calls *calls = SAL_CONTAINER_OF(taker, struct calls, taker);
	size_t tail = m->header.size - sizeof(*m);
	struct waiting *w = malloc(sizeof(*w) + tail);

	if (!w)
		return; /* the iteration waits until the job is killed */
	memcpy(&w->record, m, sizeof(*m) + tail);
	(void)pthread_mutex_lock(&calls->lock);
	STAILQ_INSERT_TAIL(&calls->waiting, w, link);
	atomic_store_explicit(&calls->has_waiting, true, memory_order_release);
	learn_gap(calls);
	if (++calls->queued > calls->idle)
		start_thread(calls);
	(void)pthread_cond_signal(&calls->wake);
	(void)pthread_mutex_unlock(&calls->lock);
}

static void destroy(struct adp_call_server *taker)
{
	struct calls *calls = SAL_CONTAINER_OF(taker, struct calls, taker);
	struct waiting *w;

	while ((w = STAILQ_FIRST(&calls->waiting))) {
		STAILQ_REMOVE_HEAD(&calls->waiting, link);
		free(w);
	}
	(void)pthread_cond_destroy(&calls->wake);
	(void)pthread_mutex_destroy(&calls->lock);
	free(calls);
}

static bool is_me(struct adp_call_server *taker)
{
	struct calls *calls = SAL_CONTAINER_OF(taker, struct calls, taker);
	const struct server *s;
	bool found = false;

	(void)pthread_mutex_lock(&calls->lock);
	LIST_FOREACH(s, &calls->servers, link)
		found |= pthread_equal(s->thread, pthread_self()) != 0;
	(void)pthread_mutex_unlock(&calls->lock);
	return found;
}

static struct calls *calls_create(struct adp_conn *conn)
{
	struct calls *calls = calloc(1, sizeof(*calls));

	if (!calls)
		return NULL;
	calls->taker = (struct adp_call_server){ take, destroy, is_me };
	calls->conn = conn;
	(void)pthread_mutex_init(&calls->lock, NULL);
	(void)pthread_cond_init(&calls->wake, NULL);
	STAILQ_INIT(&calls->waiting);
	if (adp_conn_serve_calls(conn, &calls->taker))
		return calls;
	destroy(&calls->taker); /* another thread was faster */
	return calls_of(conn);
}

struct adp_callees *adp_callees_add(struct adp_conn *conn, void *const *functions, uint32_t count,
				    const struct adp_listener *listener)
{
	struct calls *calls = calls_of(conn);
	struct adp_callees *c;

	if (!calls)
		calls = calls_create(conn);
	c = calls ? calloc(1, sizeof(*c) + count * sizeof(functions[0])) : NULL;
	if (!c)
		return NULL;
	c->calls = calls;
	c->count = count;
	c->refs = 2;
	c->listener = *listener;
	if (count > 0)
		memcpy(c->functions, functions, count * sizeof(functions[0]));
	(void)pthread_mutex_lock(&calls->lock);
	LIST_INSERT_HEAD(&calls->callees, c, link);
	calls->callee_count++;
	(void)pthread_mutex_unlock(&calls->lock);
	return c;
}

static void callees_unref(struct adp_callees *c, int refs)
{
	struct calls *calls = c->calls;
	bool is_last;

	(void)pthread_mutex_lock(&calls->lock);
	c->refs -= refs;
	is_last = c->refs == 0;
	if (is_last) {
		LIST_REMOVE(c, link);
		calls->callee_count--;
	}
	(void)pthread_mutex_unlock(&calls->lock);
	if (is_last)
		free(c);
}

/* jaxlib may free the functions as soon as it knows about the end. */
static void on_executed(void *ctx, const struct adp_answer *answer)
{
	struct adp_callees *c = ctx;

	(void)pthread_mutex_lock(&c->calls->lock);
	c->has_ended = true;
	c->request = 0;
	(void)pthread_mutex_unlock(&c->calls->lock);
	c->listener.fn(c->listener.ctx, answer);
	callees_unref(c, 1);
}

uint64_t adp_callees_request(struct adp_callees *callees)
{
	uint64_t request = adp_request(callees->calls->conn, on_executed, callees);

	(void)pthread_mutex_lock(&callees->calls->lock);
	if (!callees->has_ended)
		callees->request = request;
	(void)pthread_mutex_unlock(&callees->calls->lock);
	return request;
}

void adp_callees_sent(struct adp_callees *callees, bool is_dropped)
{
	callees_unref(callees, is_dropped ? 2 : 1);
}

void adp_calls_await_room(struct adp_conn *conn)
{
	struct calls *calls = calls_of(conn);

	if (calls && atomic_load_explicit(&calls->callee_count, memory_order_relaxed) > 0 &&
	    adp_conn_owed(conn) >= AHEAD_MAX && !is_me(&calls->taker))
		adp_conn_await_fewer(conn, AHEAD_MAX / 2);
}
