/* SPDX-License-Identifier: Apache-2.0 */
/*
 * promise: fulfilled once and seen by all waiters, whichever object is destroyed meanwhile. The
 * test plays the connection behind a promise, and so decides what happens between two steps of the
 * code.
 */
#include "adaptor/promise.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/event.h"
#include "support/threads.h"

#define WAITERS 8
#define DEADLINE_S 30

/* The part of the connection that promise.c uses */

struct adp_conn {
	_Atomic int refs;
	bool forked;
	_Atomic int polls;
	_Atomic int waits_learnt;
	enum adp_waiter waiter, learnt_for;
	uint64_t asked;
	_Atomic uint64_t wanted;
	_Atomic int waits;
	/* Fulfilled when the promise asks whether this process is a forked child. NULL: none. */
	_Atomic(struct adp_promise *) fulfil_between;
};

struct adp_conn *adp_conn_ref(struct adp_conn *conn)
{
	(void)atomic_fetch_add(&conn->refs, 1);
	return conn;
}

void adp_conn_unref(struct adp_conn *conn)
{
	(void)atomic_fetch_sub(&conn->refs, 1);
}

bool adp_conn_is_forked(const struct adp_conn *conn)
{
	struct adp_conn *own = (struct adp_conn *)conn;
	struct adp_promise *p = atomic_exchange(&own->fulfil_between, NULL);

	if (p)
		adp_promise_fulfil(p, 0, NULL);
	return conn->forked;
}

PJRT_Error *adp_unavailable(struct adp_conn *conn)
{
	(void)conn;
	return adp_error(SAL_UNAVAILABLE, "gone");
}

uint64_t adp_conn_asked(struct adp_conn *conn)
{
	return conn->asked;
}

void adp_conn_want(struct adp_conn *conn, uint64_t number)
{
	conn->wanted = number;
	conn->waits++;
}

void adp_conn_unwant(struct adp_conn *conn, uint64_t number)
{
	assert_int_equal(conn->wanted, number);
	conn->waits--;
}

enum adp_waiter adp_conn_waiter(struct adp_conn *conn)
{
	return conn->waiter;
}

void adp_conn_learn_wait(struct adp_conn *conn, enum adp_waiter waiter, uint64_t ns)
{
	(void)ns;
	conn->learnt_for = waiter;
	(void)atomic_fetch_add(&conn->waits_learnt, 1);
}

void adp_conn_poll_for(struct adp_conn *conn, enum adp_waiter waiter, const _Atomic bool *fulfilled)
{
	(void)fulfilled;
	assert_int_equal(waiter, conn->waiter);
	(void)atomic_fetch_add(&conn->polls, 1);
}

void adp_buffer_fail(PJRT_Buffer *buffer)
{
	atomic_store(&buffer->counted, false);
}

/* Helpers */

static int code_of(PJRT_Error *error)
{
	const char *text;
	int code;

	adp_error_read(error, &code, &text);
	adp_Error_Destroy(&(PJRT_Error_Destroy_Args){ .error = error });
	return code;
}

static struct adp_promise *promise_of(struct adp_conn *conn)
{
	struct adp_promise *p = adp_promise_create(conn);

	assert_non_null(p);
	return p;
}

/* The calls of callbacks, in order. */
struct calls {
	int count;
	int codes[8];
	int marks[8];
};

struct call {
	struct calls *calls;
	int mark;
	PJRT_Event *destroys; /* NULL: none */
};

static void on_ready(PJRT_Error *error, void *arg)
{
	struct call *c = arg;

	c->calls->codes[c->calls->count] = code_of(error);
	c->calls->marks[c->calls->count++] = c->mark;
	if (c->destroys)
		(void)adp_Event_Destroy(&(PJRT_Event_Destroy_Args){ .event = c->destroys });
}

/* Many threads */

struct waiter {
	PJRT_Event *event;
	_Atomic pid_t tid;
	int code;
};

static void *wait_for_event(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->tid, thread_id());
	w->code = code_of(adp_Event_Await(&(PJRT_Event_Await_Args){ .event = w->event }));
	return NULL;
}

/* Waits until all threads have polled, which is their last step before they wait, and sleep. */
static void expect_all_asleep(struct adp_conn *conn, struct waiter *waiters)
{
	int i, asleep = 0, rounds = 0;

	while (rounds < 3) { /* a thread may have been about to take the lock */
		for (i = 0, asleep = 0; i < WAITERS; i++)
			asleep += thread_is_asleep(atomic_load(&waiters[i].tid));
		if (asleep == WAITERS && atomic_load(&conn->polls) >= WAITERS)
			rounds++;
		else
			(void)sched_yield();
	}
}

static void all_who_wait_are_woken(bool share_the_event, int code)
{
	struct adp_conn conn = { .refs = 1 };
	struct adp_promise *p = promise_of(&conn);
	struct waiter waiters[WAITERS] = { { .code = -1 } };
	pthread_t threads[WAITERS];
	int i;

	for (i = 0; i < WAITERS; i++) {
		waiters[i].event = i > 0 && share_the_event
					   ? waiters[0].event
					   : adp_event_create(adp_promise_ref(p), true);
		assert_int_equal(pthread_create(&threads[i], NULL, wait_for_event, &waiters[i]), 0);
	}
	expect_all_asleep(&conn, waiters);
	adp_promise_fulfil(p, code, "so");
	for (i = 0; i < WAITERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0); /* or the alarm */
	for (i = 0; i < WAITERS; i++) {
		assert_int_equal(waiters[i].code, code);
		if (i == 0 || !share_the_event)
			(void)adp_Event_Destroy(
				&(PJRT_Event_Destroy_Args){ .event = waiters[i].event });
	}
	adp_promise_unref(p);
	assert_int_equal(atomic_load(&conn.refs), 1);
}

static void all_threads_that_wait_for_one_event(void **state)
{
	(void)state;
	all_who_wait_are_woken(true, 0);
	all_who_wait_are_woken(true, SAL_INTERNAL);
}

static void all_threads_that_wait_for_events_of_one_promise(void **state)
{
	(void)state;
	all_who_wait_are_woken(false, 0);
}

/* Once */

static void it_is_fulfilled_once(void **state)
{
	struct adp_promise *p = promise_of(NULL);
	struct calls calls = { 0 };
	struct call call = { .calls = &calls };

	(void)state;
	assert_false(adp_promise_is_fulfilled(p));
	assert_true(adp_promise_then(p, on_ready, &call));
	adp_promise_fulfil(p, SAL_INTERNAL, "first");
	adp_promise_fulfil(p, 0, NULL);
	adp_promise_fulfil(p, SAL_ABORTED, "third");
	assert_true(adp_promise_is_fulfilled(p));
	assert_int_equal(adp_promise_wait(p), SAL_INTERNAL);
	assert_int_equal(calls.count, 1);
	assert_int_equal(calls.codes[0], SAL_INTERNAL);
	assert_int_equal(code_of(adp_promise_error(p)), SAL_INTERNAL);
	adp_promise_unref(p);
}

static void callbacks_run_in_their_order(void **state)
{
	struct adp_promise *p = promise_of(NULL);
	struct calls calls = { 0 };
	struct call all[4];
	int i;

	(void)state;
	for (i = 0; i < 4; i++) {
		all[i] = (struct call){ .calls = &calls, .mark = i };
		if (i == 3) /* already fulfilled: the callback runs at once */
			adp_promise_fulfil(p, 0, NULL);
		assert_true(adp_promise_then(p, on_ready, &all[i]));
	}
	assert_int_equal(calls.count, 4);
	for (i = 0; i < 4; i++)
		assert_int_equal(calls.marks[i], i);
	adp_promise_unref(p);
}

/*
 * The promise is fulfilled after the check for fulfilment and before the callback is in the list.
 */
static void a_callback_that_comes_in_between_runs(void **state)
{
	struct adp_conn conn = { .refs = 1 };
	struct adp_promise *p = promise_of(&conn);
	struct calls calls = { 0 };
	struct call call = { .calls = &calls };

	(void)state;
	atomic_store(&conn.fulfil_between, p);
	assert_true(adp_promise_then(p, on_ready, &call));
	assert_int_equal(calls.count, 1);
	adp_promise_unref(p);
}

static void a_callback_may_destroy_its_event(void **state)
{
	struct adp_conn conn = { .refs = 1 };
	struct adp_promise *p = promise_of(&conn);
	struct calls calls = { 0 };
	struct call call = { .calls = &calls };
	PJRT_Event *event = adp_event_create(adp_promise_ref(p), false);

	(void)state;
	assert_non_null(event);
	call.destroys = event;
	adp_promise_fulfil(p, 0, NULL);
	assert_null(adp_Event_OnReady(&(PJRT_Event_OnReady_Args){
		.event = event, .callback = on_ready, .user_arg = &call }));
	assert_int_equal(calls.count, 1);
	assert_int_equal(atomic_load(&conn.refs), 2); /* the test still has its reference */
	adp_promise_unref(p);
	assert_int_equal(atomic_load(&conn.refs), 1);
}

/* The rest */

static void bound_buffers_are_uncounted_if_it_fails(void **state)
{
	PJRT_Buffer *buffers = calloc(3, sizeof(*buffers));
	int codes[] = { 0, SAL_INTERNAL }, round, i;

	(void)state;
	assert_non_null(buffers);
	for (round = 0; round < 2; round++) {
		struct adp_promise *p = promise_of(NULL);

		for (i = 0; i < 3; i++) {
			atomic_store(&buffers[i].counted, true);
			adp_promise_bind(p, &buffers[i]);
		}
		adp_promise_unbind(p, &buffers[1]); /* unbound before the promise is fulfilled */
		adp_promise_fulfil(p, codes[round], NULL);
		for (i = 0; i < 3; i++)
			assert_int_equal(atomic_load(&buffers[i].counted),
					 i == 1 || codes[round] == 0);
		adp_promise_unbind(p, &buffers[0]); /* unbound afterwards */
		adp_promise_unref(p);
	}
	free(buffers);
}

static void an_open_event_has_no_error_yet(void **state)
{
	struct adp_conn conn = { .refs = 1 };
	struct adp_promise *p = promise_of(&conn);
	PJRT_Event *event = adp_event_create(adp_promise_ref(p), false);
	PJRT_Event_IsReady_Args ready = { .event = event };

	(void)state;
	assert_null(adp_Event_IsReady(&ready));
	assert_false(ready.is_ready);
	assert_int_equal(code_of(adp_Event_Error(&(PJRT_Event_Error_Args){ .event = event })),
			 SAL_FAILED_PRECONDITION);
	adp_promise_fulfil(p, SAL_ABORTED, NULL);
	assert_null(adp_Event_IsReady(&ready));
	assert_true(ready.is_ready);
	assert_int_equal(code_of(adp_Event_Error(&(PJRT_Event_Error_Args){ .event = event })),
			 SAL_ABORTED);
	(void)adp_Event_Destroy(&(PJRT_Event_Destroy_Args){ .event = event });
	adp_promise_unref(p);
}

/*
 * The connection learns the duration of a wait only from promises that a thread polled for in vain.
 */
static void waits_are_learnt_from(void **state)
{
	struct adp_conn conn = { .refs = 1, .waiter = ADP_CALLED };
	struct adp_promise *polled = promise_of(&conn), *other = promise_of(&conn);

	(void)state;
	adp_promise_poll(polled);
	assert_int_equal(atomic_load(&conn.polls), 1);
	adp_promise_fulfil(other, 0, NULL);
	assert_int_equal(atomic_load(&conn.waits_learnt), 0);
	adp_promise_fulfil(polled, 0, NULL);
	assert_int_equal(atomic_load(&conn.waits_learnt), 1);
	assert_int_equal(conn.learnt_for, ADP_CALLED);
	adp_promise_poll(polled); /* already fulfilled: no poll */
	assert_int_equal(atomic_load(&conn.polls), 1);
	adp_promise_unref(polled);
	adp_promise_unref(other);
}

/* The connection hears once which answer a thread waits for, unless it has come while the thread polled. */
static void a_wait_names_its_answer(void **state)
{
	struct adp_conn conn = { .refs = 1, .asked = 41 };
	struct adp_promise *p = promise_of(&conn), *come = promise_of(&conn);

	(void)state;
	adp_promise_in_turn(p);
	conn.asked = 50;
	adp_promise_fulfil(come, 0, NULL);
	adp_promise_poll(come);
	assert_int_equal(conn.waits, 0);
	adp_promise_poll(p);
	adp_promise_poll(p);
	assert_int_equal(conn.wanted, 42);
	assert_int_equal(conn.waits, 1);
	adp_promise_fulfil(p, 0, NULL);
	adp_promise_fulfil(p, 0, NULL);
	assert_int_equal(conn.waits, 0);
	adp_promise_unref(p);
	adp_promise_unref(come);
}

/* What a program makes can be read when the program has run; a question is answered at any time. */
static void answers_come_in_turn_or_at_any_time(void **state)
{
	struct adp_conn conn = { .refs = 1, .asked = 41 };
	struct adp_promise *run = promise_of(&conn), *read = promise_of(&conn);
	struct adp_promise *late = promise_of(&conn);

	(void)state;
	adp_promise_in_turn(run);
	conn.asked = 50;
	adp_promise_with(read, run);
	adp_promise_poll(read);
	assert_int_equal(conn.wanted, 42);
	adp_promise_unref(read); /* nobody fulfils it */
	assert_int_equal(conn.waits, 0);
	adp_promise_fulfil(run, 0, NULL);
	adp_promise_with(late, run);
	adp_promise_poll(late);
	assert_int_equal(conn.wanted, 0);
	adp_promise_fulfil(late, 0, NULL);
	adp_promise_unref(late);
	adp_promise_unref(run);
	assert_int_equal(atomic_load(&conn.refs), 1);
}

static void a_forked_child_waits_for_nothing(void **state)
{
	struct adp_conn conn = { .refs = 1, .forked = true };
	struct adp_promise *open = promise_of(&conn), *fulfilled = promise_of(&conn);

	(void)state;
	adp_promise_fulfil(fulfilled, 0, NULL);
	assert_int_equal(adp_promise_wait(open), SAL_UNAVAILABLE);
	assert_int_equal(code_of(adp_promise_error(open)), SAL_UNAVAILABLE);
	assert_int_equal(adp_promise_wait(fulfilled), 0);
	assert_null(adp_promise_error(fulfilled));
	adp_promise_unref(open);
	adp_promise_unref(fulfilled);
	assert_int_equal(atomic_load(&conn.refs), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_threads_that_wait_for_one_event),
		cmocka_unit_test(all_threads_that_wait_for_events_of_one_promise),
		cmocka_unit_test(it_is_fulfilled_once),
		cmocka_unit_test(callbacks_run_in_their_order),
		cmocka_unit_test(a_callback_that_comes_in_between_runs),
		cmocka_unit_test(a_callback_may_destroy_its_event),
		cmocka_unit_test(bound_buffers_are_uncounted_if_it_fails),
		cmocka_unit_test(an_open_event_has_no_error_yet),
		cmocka_unit_test(waits_are_learnt_from),
		cmocka_unit_test(a_wait_names_its_answer),
		cmocka_unit_test(answers_come_in_turn_or_at_any_time),
		cmocka_unit_test(a_forked_child_waits_for_nothing),
	};

	(void)alarm(DEADLINE_S); /* ends a thread that waits for ever */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
