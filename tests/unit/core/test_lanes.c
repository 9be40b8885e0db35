/* SPDX-License-Identifier: Apache-2.0 */
/* lanes: lanes open, shrink, move and close at boundaries; sessions change lanes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

static void start(const struct sal_policy *policy, uint32_t lanes)
{
	struct sal_tuning t = drv_plain_tuning();

	t.lanes = lanes;
	drv_start(&d, 1000, policy, &t);
}

static struct drv_job *open_running(uint64_t persist, uint64_t ephem)
{
	struct drv_job *j = drv_open(&d, persist, ephem);

	drv_submit(&d, j, persist, ephem);
	assert_true(drv_runs(j));
	return j;
}

static void lies_at(const struct drv_job *j, uint64_t at, uint64_t span)
{
	assert_true(drv_runs(j));
	assert_int_equal(j->s->lane->at, at);
	assert_int_equal(j->s->lane->span, span);
}

/* The iteration of j ends and the next one starts. */
static void pass_boundary(struct drv_job *j, uint64_t persist, uint64_t ephem)
{
	drv_submit(&d, j, persist, ephem);
	drv_done(&d, j, 1);
}

static void test_lanes_lie_from_the_top_and_run_side_by_side(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack, 0);
	a = open_running(50, 300);
	b = open_running(50, 200);
	c = open_running(50, 100);
	lies_at(a, 700, 300);
	lies_at(b, 500, 200);
	lies_at(c, 400, 100);
	assert_int_equal(drv_free(&d), 250);
}

static void test_lane_is_as_large_as_its_hungriest_member(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair, 1);
	a = drv_open(&d, 50, 300);
	b = drv_open(&d, 50, 700);
	assert_int_equal(drv_lanes(&d), 1);
	assert_int_equal(drv_free(&d), 200);
	drv_close(&d, b);
	assert_int_equal(drv_free(&d), 650); /* the idle lane shrinks */
	drv_submit(&d, a, 50, 300);
	lies_at(a, 700, 300);
}

static void test_lane_shrinks_at_its_boundary(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair, 1);
	a = drv_open(&d, 50, 300);
	b = open_running(50, 700);
	drv_submit(&d, a, 50, 300);
	drv_close(&d, b);
	assert_int_equal(drv_free(&d), 200);
	drv_done(&d, b, 1);
	assert_int_equal(drv_free(&d), 650);
	lies_at(a, 700, 300);
	/* A running lane does not shrink when another member closes. */
	b = drv_open(&d, 50, 700);
	pass_boundary(a, 50, 300);
	lies_at(a, 300, 700);
	drv_close(&d, b);
	assert_int_equal(drv_free(&d), 250);
	drv_done(&d, a, 1);
	assert_int_equal(drv_free(&d), 650);
}

static void test_neighbour_closes_and_the_lane_moves_up(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack, 0);
	a = open_running(50, 300);
	b = open_running(50, 200);
	lies_at(b, 500, 200);
	drv_close(&d, a);
	drv_done(&d, a, 1);
	assert_int_equal(drv_lanes(&d), 1);
	lies_at(b, 500, 200); /* a running lane never moves */
	assert_int_equal(drv_free(&d), 750);
	pass_boundary(b, 50, 200);
	lies_at(b, 800, 200);
}

static void test_persistent_bytes_wait_for_a_lane_that_lies_low(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack, 2);
	a = open_running(50, 300);
	b = open_running(50, 200);
	drv_close(&d, a);
	drv_done(&d, a, 1);
	/* 750 bytes are free, but 600 persistent bytes would reach into the range of b, at 500. */
	c = drv_open(&d, 600, 10);
	assert_false(drv_is_in(c));
	pass_boundary(b, 50, 200);
	assert_true(drv_is_in(c));
	lies_at(b, 790, 200); /* below the lane that c opened */
}

/*
 * A lane stays below its own place because its neighbour has not moved. Persistent bytes stay below
 * the lane while it runs. The lane does not start there again after persistent bytes came.
 */
static void test_lane_that_stays_low(void **state)
{
	struct drv_job *a, *b, *c, *e;

	(void)state;
	start(&sal_policy_pack, 3);
	a = open_running(10, 100);
	b = open_running(10, 300);
	c = open_running(10, 200);
	drv_close(&d, a);
	drv_done(&d, a, 1);
	pass_boundary(c, 10, 200);
	lies_at(b, 600, 300);
	lies_at(c, 400, 200); /* its place is [500, 700) */
	e = drv_open(&d, 450, 0);
	assert_false(drv_is_in(e));
	drv_done(&d, c, 1);
	assert_true(drv_is_in(e));
	drv_submit(&d, c, 10, 200);
	assert_false(drv_runs(c));
	pass_boundary(b, 10, 300);
	lies_at(b, 700, 300);
	lies_at(c, 500, 200);
}

static void test_lane_that_grows_waits_for_its_neighbour(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack, 2);
	a = open_running(50, 300);
	b = open_running(50, 200);
	pass_boundary(a, 50, 450);
	assert_false(drv_runs(a)); /* its place is [550, 1000) and b runs at 500 */
	assert_true(sal_engine_lane(d.engine, 0)->shifted);
	drv_submit(&d, b, 50, 200);
	drv_done(&d, b, 1);
	lies_at(a, 550, 450);
	lies_at(b, 350, 200); /* both run again */
}

/* Two neighbours cannot block a waiting lane for ever by taking turns. */
static void test_lane_that_grows_waits_for_two_neighbours(void **state)
{
	struct drv_job *j[4];

	(void)state;
	start(&sal_policy_pack, 4);
	for (uint32_t i = 0; i < 4; i++)
		j[i] = open_running(10, 100);
	pass_boundary(j[0], 10, 300);
	assert_false(drv_runs(j[0])); /* its place is [700, 1000) */
	pass_boundary(j[1], 10, 100);
	assert_false(drv_runs(
		j[1])); /* its place is [600, 700); another lane waits for its last range */
	pass_boundary(j[2], 10, 100);
	lies_at(j[0], 700, 300);
	lies_at(j[2], 500, 100);
	pass_boundary(j[3], 10, 100);
	lies_at(j[1], 600, 100);
	lies_at(j[3], 400, 100);
}

static void test_session_moves_when_it_outgrows_its_lane(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack, 2);
	a = drv_open(&d, 10, 600);
	b = drv_open(&d, 10, 300);
	c = drv_open(&d, 10, 200); /* shares the second lane */
	assert_int_equal(c->s->lane->index, 1);
	drv_mark(&d);
	drv_submit(&d, c, 10, 500); /* too large for lane 1, but fits into lane 0 */
	assert_int_equal(drv_last(&d, SAL_MOVE, c)->lane, 0);
	assert_true(drv_runs(c));
	assert_int_equal(c->s->lane->index, 0);
	assert_int_equal(a->s->lane->index, 0);
	assert_int_equal(b->s->lane->index, 1);
	assert_int_equal(drv_free(&d), 70);
}

static void test_crowded_lane_spreads_when_another_closes(void **state)
{
	struct drv_job *a, *b, *c, *e;

	(void)state;
	start(&sal_policy_pack, 2);
	a = open_running(10, 200);
	b = open_running(10, 200);
	c = drv_open(&d, 10, 200);
	drv_submit(&d, c, 10, 200);
	e = drv_open(&d, 10, 200);
	drv_submit(&d, e, 10, 200);
	assert_false(drv_runs(c) || drv_runs(e));
	assert_ptr_equal(c->s->lane, a->s->lane);
	assert_ptr_equal(e->s->lane, a->s->lane);
	drv_close(&d, b);
	drv_done(&d, b, 1);
	assert_int_equal(drv_lanes(&d), 2);
	assert_true(drv_runs(c)); /* the first in the order runs */
	assert_int_equal(drv_said(&d, SAL_MOVE, c), 1);
	assert_int_equal(drv_said(&d, SAL_MOVE, e), 0);
}

/* While a session waits for memory, resident sessions get no additional lanes. */
static void test_crowded_lane_does_not_spread_while_somebody_waits(void **state)
{
	struct drv_job *b, *c, *waits;

	(void)state;
	start(&sal_policy_pack, 2);
	(void)open_running(10, 200);
	b = open_running(10, 200);
	c = drv_open(&d, 10, 200);
	drv_submit(&d, c, 10, 200);
	waits = drv_open(&d, 900, 0);
	drv_close(&d, b);
	drv_done(&d, b, 1);
	assert_false(drv_is_in(waits) || drv_runs(c));
	drv_close(&d, waits);
	assert_true(drv_runs(c));
}

/* lane_cap limits the policy's number of lanes, but not the operator's. */
static void test_cap(void **state)
{
	(void)state;
	for (uint32_t lanes = 0; lanes < 4; lanes += 3) {
		struct sal_tuning t = drv_plain_tuning();

		t.lanes = lanes;
		t.lane_cap = 2;
		drv_start(&d, 1000, &sal_policy_pack, &t);
		for (uint32_t i = 0; i < 4; i++)
			(void)drv_open(&d, 10, 100);
		assert_int_equal(drv_lanes(&d), lanes ? lanes : 2);
		if (!lanes)
			drv_stop(&d);
	}
}

/* Many lanes become one. Each session moves at its own boundary; running iterations go on. */
static void test_many_lanes_are_gathered_into_one(void **state)
{
	struct drv_job *j[4];
	uint32_t running = 0;

	(void)state;
	start(&sal_policy_pack, 0);
	for (uint32_t i = 0; i < 4; i++)
		j[i] = open_running(10, 100 + 10 * i);
	assert_int_equal(drv_lanes(&d), 4);
	drv_mark(&d);
	drv_set_policy(&d, &sal_policy_fair);
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(drv_runs(j[i]));
		drv_submit(&d, j[i], 10, 100);
	}
	for (uint32_t i = 0; i < 4; i++)
		drv_done(&d, j[i], 1);
	assert_int_equal(drv_lanes(&d), 1);
	assert_int_equal(drv_said(&d, SAL_MOVE, NULL), 3);
	for (uint32_t i = 0; i < 4; i++)
		running += drv_runs(j[i]);
	assert_int_equal(running, 1);
	assert_int_equal(drv_free(&d), 1000 - 40 - 130);
	/* After the change back to pack, the sessions spread again. */
	drv_set_policy(&d, &sal_policy_pack);
	assert_true(drv_lanes(&d) > 1);
}

static void test_operator_lowers_the_number_of_lanes(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *j[3];

	(void)state;
	start(&sal_policy_pack, 3);
	for (uint32_t i = 0; i < 3; i++)
		j[i] = drv_open(&d, 10, 100 + 50 * i);
	assert_int_equal(drv_lanes(&d), 3);
	t.lanes = 2;
	drv_set_tuning(&d, &t);
	assert_int_equal(drv_lanes(&d), 2);
	/* The largest lanes stay. j[0], in the smallest, moves to the lane that wastes least. */
	assert_int_equal(drv_said(&d, SAL_MOVE, j[0]), 1);
	assert_ptr_equal(j[0]->s->lane, j[1]->s->lane);
	assert_int_equal(drv_free(&d), 1000 - 30 - 150 - 200);
}

/* After a change to mix, inference and training do not share a lane. */
static void test_change_to_mix_separates_the_kinds(void **state)
{
	struct sal_job training = { .declared = { 10, 200 } };
	struct sal_job inference = { .kind = SAL_INFERENCE, .declared = { 10, 100 } };
	struct drv_job *t, *i;

	(void)state;
	start(&sal_policy_fair, 0);
	t = drv_open_job(&d, &training);
	i = drv_open_job(&d, &inference);
	assert_ptr_equal(t->s->lane, i->s->lane);
	drv_submit(&d, t, 10, 200);
	drv_set_policy(&d, &sal_policy_mix);
	assert_ptr_not_equal(t->s->lane, i->s->lane);
	drv_submit(&d, i, 10, 100);
	assert_true(drv_runs(t) && drv_runs(i));
}

static void test_declared_kind_changes(void **state)
{
	struct sal_job job = { .declared = { 10, 200 } };
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_mix, 0);
	a = drv_open_job(&d, &job);
	b = drv_open_job(&d, &job);
	assert_ptr_equal(a->s->lane, b->s->lane);
	job.kind = SAL_INFERENCE;
	drv_declare(&d, b, &job);
	assert_ptr_not_equal(a->s->lane, b->s->lane);
	job.kind = SAL_TRAINING;
	assert_ptr_equal(drv_open_job(&d, &job)->s->lane, a->s->lane);
}

/* A running session cannot move. It moves at its boundary, even if another lane runs. */
static void test_session_moves_at_its_own_boundary(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack, 2);
	a = open_running(10, 300);
	b = open_running(10, 600);
	c = drv_open(&d, 10, 300); /* c prevents the first lane from shrinking */
	assert_ptr_equal(c->s->lane, a->s->lane);
	drv_submit(&d, a, 10, 500); /* fits into the second lane only */
	assert_int_equal(drv_said(&d, SAL_MOVE, NULL), 0);
	drv_done(&d, a, MS);
	assert_int_equal(drv_said(&d, SAL_MOVE, a), 1);
	assert_ptr_equal(a->s->lane, b->s->lane);
	drv_done(&d, b, MS);
	assert_true(drv_runs(a));
}

/* All were idle when the second lane was allowed. It opens when two of them have work. */
static void test_a_lane_opens_for_sessions_that_were_idle(void **state)
{
	static const struct sal_policy *const policies[] = { &sal_policy_fair, &sal_policy_srtf,
							     &sal_policy_fifo, &sal_policy_pack };

	(void)state;
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		struct sal_tuning t = drv_plain_tuning();
		struct drv_job *a, *b;

		start(policies[i], 1);
		a = drv_open(&d, 10, 100);
		b = drv_open(&d, 10, 100);
		assert_ptr_equal(a->s->lane, b->s->lane);
		t.lanes = 2;
		drv_set_tuning(&d, &t);
		drv_submit(&d, a, 10, 100);
		drv_submit(&d, b, 10, 100);
		assert_true(drv_runs(a) && drv_runs(b));
		drv_stop(&d);
	}
	start(&sal_policy_fair, 1); /* for stop() */
}

/* By how many iterations the first of three equal jobs in two lanes is ahead of the last, at most. */
static uint64_t most_ahead(uint64_t move_ns)
{
	static const struct drv_load load = { .job = { .declared = { 10, 100 } },
					      .iter_ns = 10 * MS };
	struct sal_tuning t = drv_plain_tuning();
	uint64_t most = 0;

	t.lanes = 2;
	t.move_ns = move_ns;
	drv_start(&d, 1000, &sal_policy_fair, &t);
	for (int i = 0; i < 3; i++)
		(void)drv_add(&d, &load);
	for (uint64_t at = 0; at < 5 * SEC; at += 10 * MS) {
		uint64_t first = 0, last = UINT64_MAX;

		drv_run_until(&d, at);
		for (size_t i = 0; i < d.job_count; i++) {
			uint64_t done = d.jobs[i]->done;

			first = done > first ? done : first;
			last = done < last ? done : last;
		}
		most = first - last > most ? first - last : most;
	}
	drv_stop(&d);
	return most;
}

/* Where a move costs nothing, the first in rank run, wherever they are. */
static void test_shares_are_equal_if_moves_are_free(void **state)
{
	(void)state;
	assert_in_range(most_ahead(0), 0, 2);
	assert_true(most_ahead(500 * MS) > 5);
	start(&sal_policy_fair, 1); /* for stop() */
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_lanes_lie_from_the_top_and_run_side_by_side),
		T(test_lane_is_as_large_as_its_hungriest_member),
		T(test_lane_shrinks_at_its_boundary),
		T(test_neighbour_closes_and_the_lane_moves_up),
		T(test_persistent_bytes_wait_for_a_lane_that_lies_low),
		T(test_lane_that_stays_low),
		T(test_lane_that_grows_waits_for_its_neighbour),
		T(test_lane_that_grows_waits_for_two_neighbours),
		T(test_session_moves_when_it_outgrows_its_lane),
		T(test_session_moves_at_its_own_boundary),
		T(test_a_lane_opens_for_sessions_that_were_idle),
		T(test_shares_are_equal_if_moves_are_free),
		T(test_crowded_lane_spreads_when_another_closes),
		T(test_crowded_lane_does_not_spread_while_somebody_waits),
		T(test_cap),
		T(test_many_lanes_are_gathered_into_one),
		T(test_operator_lowers_the_number_of_lanes),
		T(test_change_to_mix_separates_the_kinds),
		T(test_declared_kind_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
