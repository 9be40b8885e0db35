/* SPDX-License-Identifier: Apache-2.0 */
/* explain: why a session does not run, by the engine's numbers and the policy's order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/driver.h"

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

static struct sal_explanation explain(const struct drv_job *j)
{
	struct sal_explanation x;

	sal_engine_explain(d.engine, j->s, &x);
	return x;
}

/* The growth of the next iteration counts: 300 bytes held, 400 more needed, 300 free. */
static void test_growth_is_part_of_the_need(void **state)
{
	struct sal_iteration it = { .id = 1, .grow_bytes = 400 };
	struct sal_explanation x;
	struct drv_job *a, *b;

	(void)state;
	drv_start(&d, 1000, &sal_policy_fair, NULL);
	a = drv_open(&d, 300, 0);
	b = drv_open(&d, 400, 0);
	drv_need(&d, a, 300);
	drv_need(&d, b, 400);
	drv_submit(&d, b, 400, 0);
	sal_engine_submit(d.engine, d.now_ns, a->s, &it);
	x = explain(a);
	assert_int_equal(x.state, SAL_STATE_WAITING);
	assert_int_equal(x.queued, 1);
	assert_int_equal(x.memory.needs.persist_bytes, 700);
	assert_int_equal(x.memory.held_bytes, 300);
	assert_int_equal(x.memory.free_bytes, 300);
	assert_int_equal(x.memory.capacity_bytes, 1000);
	assert_null(x.memory.first);
	assert_int_equal(explain(b).state, SAL_STATE_RUNNING);
}

/* A large job is passed over too often and aged. Explanations of later jobs name it. */
static void test_aged_goes_first(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *first, *large, *small;

	(void)state;
	t.page_bytes_per_s = 0;
	t.pass_bound = 0;
	drv_start(&d, 1000, &sal_policy_pack, &t);
	first = drv_open(&d, 500, 0);
	large = drv_open(&d, 900, 0);
	assert_int_equal(explain(first).state, SAL_STATE_IDLE);
	assert_false(explain(large).memory.aged);
	(void)drv_open(&d, 100, 0); /* passes over the large job */
	small = drv_open(&d, 100, 0);
	assert_true(explain(large).memory.aged);
	assert_int_equal(explain(large).memory.passed_over, 1);
	assert_null(explain(large).memory.first);
	assert_int_equal(explain(small).state, SAL_STATE_WAITING);
	assert_ptr_equal(explain(small).memory.first, large->s);
}

/* Under fifo no session passes over a waiting one, even if there is room. */
static void test_fifo_lets_in_by_age(void **state)
{
	struct drv_job *large, *small;

	(void)state;
	drv_start(&d, 1000, &sal_policy_fifo, NULL);
	drv_submit(&d, drv_open(&d, 500, 0), 500, 0);
	large = drv_open(&d, 900, 0);
	small = drv_open(&d, 100, 0);
	assert_int_equal(explain(small).state, SAL_STATE_WAITING);
	assert_ptr_equal(explain(small).memory.first, large->s);
	assert_null(explain(large).memory.first);
}

static void test_others_of_a_stuck_lane(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b;

	(void)state;
	t.stuck_ns = SAL_STUCK_NS;
	t.page_bytes_per_s = 0;
	drv_start(&d, 1000, &sal_policy_fair, &t);
	a = drv_open(&d, 100, 600);
	b = drv_open(&d, 100, 600);
	drv_submit(&d, a, 100, 600);
	drv_submit(&d, b, 100, 600);
	assert_int_equal(explain(b).state, SAL_STATE_READY);
	drv_pass(&d, SAL_STUCK_NS);
	assert_int_equal(explain(b).state, SAL_STATE_WAITING);
	assert_true(explain(b).memory.lane_is_stuck);
}

static void test_refused_and_paused(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	drv_start(&d, 1000, &sal_policy_fair, NULL);
	a = drv_open(&d, 900, 200);
	assert_int_equal(explain(a).state, SAL_STATE_REFUSED);
	assert_int_equal(explain(a).memory.needs.ephem_bytes, 200);
	b = drv_open(&d, 10, 10);
	drv_pause(&d, b);
	drv_submit(&d, b, 10, 10);
	assert_int_equal(explain(b).state, SAL_STATE_PAUSED);
	assert_int_equal(explain(b).queued, 1);
}

static void submit_expected(struct drv_job *j, uint64_t expected_ns)
{
	drv_submit_short(&d, j, expected_ns); /* short_ns is 0: it is not short */
}

static void test_ranks_are_the_order_of_turns(void **state)
{
	struct drv_job *j[4];
	struct sal_explanation x;

	(void)state;
	drv_start(&d, 1000, &sal_policy_priority, NULL);
	for (uint32_t i = 0; i < 4; i++)
		j[i] = drv_open_job(&d,
				    &(struct sal_job){ .declared = { 10, 10 }, .priority = 4 - i });
	for (int i = 0; i < 4; i++)
		submit_expected(j[i], (uint64_t)(i + 1) * MS);
	x = explain(j[1]);
	assert_int_equal(x.state, SAL_STATE_READY);
	assert_ptr_equal(x.turn.running, j[0]->s);
	assert_false(x.turn.running_goes_first);
	assert_true(x.turn.is_order_known);
	assert_int_equal(x.turn.ahead_count, 2);
	assert_ptr_equal(x.turn.ahead[0], j[3]->s);
	assert_ptr_equal(x.turn.ahead[1], j[2]->s);
	assert_int_equal(x.turn.ahead_ns, 7 * MS);
	assert_int_equal(explain(j[3]).turn.ahead_count, 0);
	drv_submit(&d, j[3], 10, 10); /* its second iteration; only the first counts */
	assert_int_equal(explain(j[1]).turn.ahead_ns, 7 * MS);
}

static void test_more_than_can_be_named(void **state)
{
	struct drv_job *j[SAL_AHEAD_MAX + 3];
	struct sal_explanation x;

	(void)state;
	drv_start(&d, 1000, &sal_policy_pack, &(struct sal_tuning){ .lanes = 1 });
	for (int i = 0; i < SAL_AHEAD_MAX + 3; i++) {
		j[i] = drv_open(&d, 1, 1);
		drv_submit(&d, j[i], 1, 1);
	}
	x = explain(j[SAL_AHEAD_MAX + 2]);
	assert_int_equal(x.turn.ahead_count, SAL_AHEAD_MAX + 1); /* all but the one that runs */
	assert_ptr_equal(x.turn.ahead[SAL_AHEAD_MAX - 1], j[SAL_AHEAD_MAX]->s);
	assert_int_equal(x.turn.ahead_ns, UINT64_MAX); /* the length of their turns is unknown */
}

/* Ranks by age, but picks the youngest. Counts each pick in its state and in the lane's slot. */
struct young_state {
	uint64_t picks;
};

static struct sal_rank young_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = s->id };
}

static struct sal_session *young_pick(void *state, struct sal_lane *lane)
{
	struct sal_session *s, *last = NULL;

	for (s = sal_lane_first(lane); s; s = sal_lane_next(s))
		last = s;
	((struct young_state *)state)->picks++;
	lane->slot[0]++;
	sal_policy_reread(state);
	sal_policy_wake_after(state, 1);
	return last;
}

static const struct sal_policy young_policy = {
	.name = "young",
	.state_size = sizeof(struct young_state),
	.lane_slot_size = 1,
	.lanes = 1,
	.rank = young_rank,
	.pick = young_pick,
};

static void test_the_policys_pick_is_next(void **state)
{
	struct drv_job *j[4];
	struct sal_explanation x;
	unsigned char slot;

	(void)state;
	drv_start(&d, 1000, &young_policy, NULL);
	for (int i = 0; i < 4; i++)
		j[i] = drv_open(&d, 10, 10);
	for (int i = 0; i < 4; i++)
		drv_submit(&d, j[i], 10, 10);
	slot = j[0]->s->lane->slot[0];
	x = explain(j[1]); /* first by rank, but not the next pick */
	assert_false(x.turn.is_order_known);
	assert_int_equal(x.turn.ahead_count, 1);
	assert_ptr_equal(x.turn.ahead[0], j[3]->s);
	assert_int_equal(explain(j[3]).turn.ahead_count, 0);
	assert_int_equal(j[0]->s->lane->slot[0], slot);
	drv_done(&d, j[0], MS);
	assert_true(drv_runs(j[3]));
}

static void test_a_failed_copy_is_told(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b;

	(void)state;
	t.idle_ns = 0;
	drv_start(&d, 1000, &sal_policy_pack, &t);
	a = drv_open(&d, 600, 0);
	drv_submit(&d, a, 600, 0);
	drv_done(&d, a, MS);
	d.now_ns += SEC;
	b = drv_open(&d, 600, 0);
	drv_submit(&d, b, 600, 0);
	assert_int_equal(explain(a).state, SAL_STATE_PAGING_OUT);
	drv_copied(&d, a);
	assert_int_equal(explain(a).state, SAL_STATE_PAGED);
	assert_int_equal(explain(a).retry_ns, 0);
	drv_done(&d, b, MS);
	drv_close(&d, b);
	drv_submit(&d, a, 600, 0);
	assert_int_equal(explain(a).state, SAL_STATE_PAGING_IN);
	drv_copy_failed(&d, a);
	assert_int_equal(explain(a).state, SAL_STATE_PAGED);
	assert_int_equal(explain(a).in_failures, 1);
	assert_int_equal(explain(a).retry_ns, d.now_ns + SEC);
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_growth_is_part_of_the_need), T(test_aged_goes_first),
		T(test_fifo_lets_in_by_age),	    T(test_others_of_a_stuck_lane),
		T(test_refused_and_paused),	    T(test_ranks_are_the_order_of_turns),
		T(test_more_than_can_be_named),	    T(test_the_policys_pick_is_next),
		T(test_a_failed_copy_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
