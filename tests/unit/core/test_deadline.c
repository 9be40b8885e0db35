/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadline - the order of deadlines, and which iterations the policy refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/policy/load.h"
#include "support/driver.h"

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

/* `lanes`: 2 leaves one lane for all sessions with deadlines. */
static void start(const struct sal_policy *policy, uint32_t lanes)
{
	struct sal_tuning t = drv_plain_tuning();

	t.lanes = lanes;
	drv_start(&d, 1000, policy, &t);
}

static struct drv_job *open_server(uint64_t deadline_ns)
{
	return drv_open_job(&d, &(struct sal_job){ .deadline_ns = deadline_ns,
						   .declared = { 10, 10 } });
}

/* Submits iterations of an expected length, one by one, and ends those that run. */
static void serve(struct drv_job *j, uint64_t expected_ns, uint32_t count)
{
	while (count-- > 0) {
		drv_submit_short(&d, j, expected_ns);
		if (drv_runs(j))
			drv_done(&d, j, expected_ns);
	}
}

static void is_refused(const struct drv_job *j, enum sal_reason reason, uint64_t value)
{
	const struct sal_record *r = drv_last(&d, SAL_REFUSE, j);

	assert_int_equal(r->reason, reason);
	assert_int_equal(r->value, value);
	assert_int_equal(r->iteration, j->submitted);
}

static void test_earliest_deadline_first(void **state)
{
	struct drv_job *slow, *fast, *none;
	char order[16];

	(void)state;
	start(&sal_policy_deadline, 2);
	slow = open_server(100 * MS);
	fast = open_server(10 * MS);
	none = drv_open_job(&d, &(struct sal_job){ .kind = SAL_INFERENCE, .declared = { 10, 10 } });
	assert_ptr_equal(slow->s->lane, fast->s->lane);
	assert_ptr_equal(slow->s->lane, none->s->lane);
	drv_submit(&d, none, 10, 10);
	drv_mark(&d);
	drv_submit(&d, slow, 10, 10); /* due at 100 ms */
	drv_submit(&d, none, 10, 10);
	drv_submit(&d, slow, 10, 10);
	drv_pass(&d, 80 * MS);
	drv_submit(&d, fast, 10, 10); /* due at 90 ms */
	drv_done(&d, none, 15 * MS);
	drv_submit(&d, fast, 10, 10); /* due at 105 ms */
	drv_done(&d, fast, MS);
	drv_done(&d, slow, MS);
	drv_done(&d, slow, MS);
	drv_done(&d, fast, MS);
	assert_string_equal(drv_grants(&d, order, sizeof(order)), "baabc");
	assert_true(drv_runs(none));
}

static void test_deadlines_have_lanes_of_their_own(void **state)
{
	struct drv_job *training, *server;

	(void)state;
	start(&sal_policy_deadline, 0);
	training = drv_open(&d, 50, 150);
	drv_submit(&d, training, 50, 150);
	server = open_server(20 * MS);
	assert_int_equal(server->s->job.kind, SAL_INFERENCE);
	assert_ptr_not_equal(server->s->lane, training->s->lane);
	drv_submit(&d, server, 10, 10);
	assert_true(drv_runs(server) && drv_runs(training));
}

static void test_others_make_room_for_deadlines(void **state)
{
	static const enum sal_kind kinds[] = { SAL_TRAINING, SAL_INFERENCE };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct drv_job *other, *server;

		start(&sal_policy_deadline, 0);
		other = drv_open_job(&d, &(struct sal_job){ .kind = kinds[i],
							    .declared = { 500, 400 } });
		drv_submit(&d, other, 500, 400);
		drv_submit(&d, other, 500, 400);
		server = drv_open_job(&d, &(struct sal_job){ .deadline_ns = 20 * MS,
							     .declared = { 200, 50 } });
		drv_submit(&d, server, 200, 50);
		drv_done(&d, other, MS);
		assert_int_equal(drv_said(&d, SAL_PAGE_OUT, other), 1);
		drv_copied(&d, other);
		assert_true(drv_runs(server));
		drv_stop(&d);
	}
	start(&sal_policy_deadline, 0); /* for stop() */
}

static void test_too_long_an_iteration_is_refused(void **state)
{
	struct drv_job *j;

	(void)state;
	start(&sal_policy_deadline, 0);
	j = open_server(20 * MS);
	serve(j, 30 * MS, SAL_LOAD_TRIALS);
	assert_int_equal(j->refusals, 0);
	serve(j, 30 * MS, 1);
	is_refused(j, SAL_REFUSE_DEADLINE, 30 * MS);
	assert_int_equal(j->grants, SAL_LOAD_TRIALS);
	/* Iterations of unknown length, and short ones, still run. */
	serve(j, 0, 1);
	serve(j, 100 * US, 1);
	assert_int_equal(j->refusals, 1);
	serve(j, 30 * MS, 1);
	assert_int_equal(j->refusals, 2);
	/* A program of another length has a trial of its own. */
	serve(j, 90 * MS, SAL_LOAD_TRIALS);
	assert_int_equal(j->refusals, 2);
	serve(j, 90 * MS, 1);
	is_refused(j, SAL_REFUSE_DEADLINE, 90 * MS);
}

/* Short programs between the requests do not put off the refusal. */
static void test_short_programs_hide_nothing(void **state)
{
	struct drv_job *j;

	(void)state;
	start(&sal_policy_deadline, 0);
	j = open_server(20 * MS);
	for (uint32_t i = 0; i < SAL_LOAD_TRIALS; i++) {
		serve(j, 100 * US, 1);
		serve(j, 30 * MS, 1);
		serve(j, MS * i / 2, 1);
	}
	assert_true(j->refusals > 0);
	assert_int_equal(drv_last(&d, SAL_REFUSE, j)->reason, SAL_REFUSE_DEADLINE);
	assert_int_equal(drv_last(&d, SAL_REFUSE, j)->value, 30 * MS);
}

/* The first runs of a program are slow: a job is not refused for them. */
static void test_a_slow_start_is_forgiven(void **state)
{
	struct drv_job *j;

	(void)state;
	start(&sal_policy_deadline, 0);
	j = open_server(20 * MS);
	serve(j, 90 * MS, 1);
	serve(j, 40 * MS, SAL_LOAD_TRIALS - 2);
	serve(j, 19 * MS, 100);
	assert_int_equal(j->refusals, 0);
}

static void test_the_last_of_too_many_deadlines_is_refused(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_deadline, 0);
	a = open_server(20 * MS);
	b = open_server(20 * MS);
	c = open_server(100 * MS);
	serve(a, 12 * MS, 3);
	serve(b, 8 * MS, 3);
	serve(c, MS, SAL_LOAD_TRIALS + 3);
	assert_int_equal(c->refusals, 3);
	is_refused(c, SAL_REFUSE_LOAD, 1010000);
	serve(a, 12 * MS, 3);
	serve(b, 8 * MS, 3);
	assert_int_equal(a->refusals + b->refusals, 0);
	drv_close(&d, b);
	serve(c, MS, 1);
	assert_int_equal(c->refusals, 3);
}

static void test_what_was_accepted_stays_accepted(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_deadline, 0);
	a = open_server(20 * MS);
	b = open_server(20 * MS);
	serve(a, 10 * MS, 1);
	serve(b, 10 * MS, 1);
	for (uint64_t ns = 10 * MS; ns < 50 * MS; ns += 5 * MS) {
		serve(a, ns, 5);
		serve(b, ns, 5);
	}
	assert_int_equal(a->refusals + b->refusals, 0);
	/* A program that is much longer is new. */
	serve(a, 101 * MS, SAL_LOAD_TRIALS + 1);
	assert_int_equal(a->refusals, 1);
	is_refused(a, SAL_REFUSE_DEADLINE, 101 * MS);
}

/* Loads follow the times down, too, and make place for others. */
static void test_a_load_shrinks(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_deadline, 0);
	a = open_server(20 * MS);
	b = open_server(20 * MS);
	serve(a, 16 * MS, 1);
	serve(a, 9 * MS, 50);
	serve(a, 10 * US, 50); /* other, short programs do not count */
	serve(b, 10 * MS, SAL_LOAD_TRIALS + 3);
	assert_int_equal(b->refusals, 0);
	serve(b, 30 * MS, SAL_LOAD_TRIALS + 1);
	is_refused(b, SAL_REFUSE_DEADLINE, 30 * MS);
}

static void test_a_new_deadline_is_checked_anew(void **state)
{
	struct sal_job job = { .deadline_ns = 10 * MS, .declared = { 10, 10 } };
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_deadline, 0);
	a = open_server(20 * MS);
	b = open_server(20 * MS);
	serve(a, 12 * MS, 3);
	drv_declare(&d, a, &job);
	serve(a, 12 * MS, SAL_LOAD_TRIALS);
	assert_int_equal(a->refusals, 0);
	serve(a, 12 * MS, 1);
	is_refused(a, SAL_REFUSE_DEADLINE, 12 * MS);
	job.deadline_ns = 0;
	drv_declare(&d, a, &job);
	serve(a, 12 * MS, 3);
	assert_int_equal(a->refusals, 1);
	serve(b, 20 * MS, SAL_LOAD_TRIALS + 1); /* a has no load any more */
	assert_int_equal(b->refusals, 0);
}

static void test_only_this_policy_refuses(void **state)
{
	struct drv_job *j;

	(void)state;
	start(&sal_policy_mix, 0);
	j = open_server(20 * MS);
	serve(j, 30 * MS, 3 * SAL_LOAD_TRIALS);
	assert_int_equal(j->refusals, 0);
	drv_set_policy(&d, &sal_policy_deadline);
	serve(j, 30 * MS, SAL_LOAD_TRIALS + 1);
	assert_int_equal(j->refusals, 1);
}

static enum sal_reason no_reason(void *state, struct sal_session *s, const struct sal_iteration *it,
				 uint64_t *out_value)
{
	(void)state;
	(void)s;
	(void)it;
	*out_value = 1;
	return SAL_REFUSE_CAPACITY;
}

static void test_other_answers_accept(void **state)
{
	struct sal_policy odd = sal_policy_fifo;
	struct drv_job *j;

	(void)state;
	odd.accepts = no_reason;
	start(&odd, 0);
	j = drv_open(&d, 10, 10);
	serve(j, MS, 1);
	assert_int_equal(j->refusals, 0);
	assert_int_equal(j->grants, 1);
	drv_stop(&d);
	start(NULL, 0); /* for stop(): `odd` ends here */
}

#define T(test) cmocka_unit_test_teardown(test, stop)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_earliest_deadline_first),
		T(test_deadlines_have_lanes_of_their_own),
		T(test_others_make_room_for_deadlines),
		T(test_too_long_an_iteration_is_refused),
		T(test_short_programs_hide_nothing),
		T(test_a_slow_start_is_forgiven),
		T(test_the_last_of_too_many_deadlines_is_refused),
		T(test_what_was_accepted_stays_accepted),
		T(test_a_load_shrinks),
		T(test_a_new_deadline_is_checked_anew),
		T(test_only_this_policy_refuses),
		T(test_other_answers_accept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
