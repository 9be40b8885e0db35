/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns: reserved turns between two iterations, short programs, and the order of waiting for
 * memory.
 */
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

/* A device of 1000 bytes and one lane. Turns are reserved for up to anticipate_ns. */
static void start(const struct sal_policy *policy, uint64_t anticipate_ns, uint64_t short_ns)
{
	struct sal_tuning t = drv_plain_tuning();

	t.anticipate_ns = anticipate_ns;
	t.short_ns = short_ns;
	drv_start(&d, 1000, policy, &t);
}

static struct drv_job *open_with_priority(uint32_t priority)
{
	struct sal_job job = { .declared = { 10, 10 }, .priority = priority };

	return drv_open_job(&d, &job);
}

/* Reserved turns */

static void test_turn_is_reserved_until_its_window_ends(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_priority, 5 * MS, 0);
	a = open_with_priority(0);
	b = open_with_priority(1);
	drv_submit(&d, a, 10, 10);
	drv_submit(&d, b, 10, 10);
	drv_mark(&d);
	drv_done(&d, a, MS); /* a has nothing queued: its turn is reserved */
	assert_false(drv_runs(b));
	assert_int_equal(drv_last(&d, SAL_WAKE_AT, NULL)->value, 6 * MS);
	drv_pass(&d, 2 * MS);
	drv_submit(&d, a, 10, 10);
	assert_true(drv_runs(a)); /* its turn was still reserved */

	drv_done(&d, a, MS);
	assert_false(drv_runs(b));
	drv_pass(&d, 5 * MS); /* ticks when the engine asks for it */
	assert_true(drv_runs(b));
}

static void test_tick_before_its_time_changes_nothing(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_priority, 5 * MS, 0);
	a = open_with_priority(0);
	b = open_with_priority(1);
	drv_submit(&d, a, 10, 10);
	drv_submit(&d, b, 10, 10);
	drv_done(&d, a, MS);
	d.now_ns = d.wake_ns - 1;
	drv_tick(&d);
	assert_false(drv_runs(b));
	assert_int_equal(drv_said(&d, SAL_WAKE_AT, NULL), 1); /* the first one still counts */
	d.now_ns++;
	drv_tick(&d);
	assert_true(drv_runs(b));
}

static void test_nobody_else_needs_no_alarm(void **state)
{
	struct drv_job *a;

	(void)state;
	start(&sal_policy_priority, 5 * MS, 0);
	a = open_with_priority(0);
	drv_submit(&d, a, 10, 10);
	drv_done(&d, a, MS);
	assert_int_equal(drv_said(&d, SAL_WAKE_AT, NULL), 0);
}

static void test_gap_is_learned(void **state)
{
	struct drv_job *a, *b;
	uint64_t window;

	(void)state;
	start(&sal_policy_priority, 5 * MS, 0);
	a = open_with_priority(0);
	b = open_with_priority(1);
	for (int i = 0; i < 30; i++) { /* gaps of 200 us */
		drv_submit(&d, a, 10, 10);
		drv_done(&d, a, MS);
		drv_pass(&d, 200 * US);
	}
	assert_in_range(a->s->gap_ns, 190 * US, 210 * US);
	drv_submit(&d, a, 10, 10);
	drv_submit(&d, b, 10, 10);
	drv_done(&d, a, MS);
	window = a->s->reserved_until_ns - d.now_ns;
	assert_in_range(window, 200 * US, MS); /* longer than the gap, but much less than 5 ms */
	assert_true(window > 2 * a->s->gap_ns);
	assert_false(drv_runs(b));
	drv_pass(&d, window);
	assert_true(drv_runs(b));
}

static void test_no_waiting_for_one_known_to_be_slow(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_priority, 5 * MS, 0);
	a = open_with_priority(0);
	b = open_with_priority(1);
	for (int i = 0; i < 10; i++) {
		drv_submit(&d, a, 10, 10);
		drv_done(&d, a, MS);
		drv_pass(&d, 30 * MS);
	}
	drv_submit(&d, a, 10, 10);
	drv_submit(&d, b, 10, 10);
	drv_done(&d, a, MS);
	assert_true(drv_runs(b));
}

static void test_turn_is_not_kept_for_one_that_pauses_or_leaves(void **state)
{
	(void)state;
	for (int leaves = 0; leaves < 2; leaves++) {
		struct drv_job *a, *b;

		start(&sal_policy_priority, 5 * MS, 0);
		a = open_with_priority(0);
		b = open_with_priority(1);
		drv_submit(&d, a, 10, 10);
		drv_submit(&d, b, 10, 10);
		drv_done(&d, a, MS);
		assert_false(drv_runs(b));
		if (leaves)
			drv_close(&d, a);
		else
			drv_pause(&d, a);
		assert_true(drv_runs(b));
		if (!leaves)
			drv_stop(&d);
	}
}

/* A turn is reserved only for the session that the policy picks. */
static void test_turn_of_a_less_important_one_is_not_kept(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_priority, 5 * MS, 0);
	a = open_with_priority(0);
	b = open_with_priority(1);
	drv_submit(&d, b, 10, 10);
	drv_submit(&d, a, 10, 10);
	drv_done(&d, b, MS);
	assert_true(drv_runs(a));
}

/* A reserved turn ends if its session becomes less important. */
static void test_turn_goes_with_the_rank(void **state)
{
	struct sal_job job = { .declared = { 10, 10 }, .priority = 2 };
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_priority, 5 * MS, 0);
	a = open_with_priority(0);
	b = open_with_priority(1);
	drv_submit(&d, a, 10, 10);
	drv_submit(&d, b, 10, 10);
	drv_done(&d, a, MS);
	assert_false(drv_runs(b));
	drv_declare(&d, a, &job);
	assert_true(drv_runs(b));
}

/* A reserved turn without an alarm ends when another session needs the memory. */
static void test_turn_does_not_keep_others_out(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack, 5 * MS, 0);
	a = drv_open(&d, 600, 100);
	drv_submit(&d, a, 600, 100);
	drv_done(&d, a, MS);
	d.now_ns += 10 * MS;
	b = drv_open(&d, 600, 100);
	drv_submit(&d, b, 600, 100);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, a), 1);
}

/* Short programs */

static void test_short_ones_pass_and_are_charged(void **state)
{
	struct drv_job *a, *b;
	char order[16];

	(void)state;
	start(&sal_policy_priority, 0, 50 * US);
	a = open_with_priority(0);
	b = open_with_priority(1);
	for (int i = 0; i < 4; i++)
		drv_submit(&d, a, 10, 10);
	for (int i = 0; i < 3; i++)
		drv_submit_short(&d, b, 20 * US);
	while (drv_runs(a) || drv_runs(b))
		drv_done(&d, drv_runs(a) ? a : b, drv_runs(a) ? MS : 20 * US);
	/* One short program goes ahead for each turn of the policy's pick. */
	assert_string_equal(drv_grants(&d, order, sizeof(order)), "abababa");
	assert_int_equal(b->s->used_ns, 60 * US);
}

static void test_what_is_not_short_or_not_known_does_not_pass(void **state)
{
	struct drv_job *a, *b;
	char order[16];

	(void)state;
	start(&sal_policy_priority, 0, 50 * US);
	a = open_with_priority(0);
	b = open_with_priority(1);
	for (int i = 0; i < 3; i++)
		drv_submit(&d, a, 10, 10);
	drv_submit_short(&d, b, 50 * US);
	drv_submit_short(&d, b, 0);
	while (drv_runs(a) || drv_runs(b))
		drv_done(&d, drv_runs(a) ? a : b, 10 * US);
	assert_string_equal(drv_grants(&d, order, sizeof(order)), "aaabb");
}

static void test_short_one_runs_while_a_turn_is_kept(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fifo, 5 * MS, 50 * US);
	a = drv_open(&d, 10, 10);
	b = drv_open(&d, 10, 10);
	drv_submit(&d, a, 10, 10);
	drv_done(&d, a, MS);
	drv_submit(&d, b, 10, 10);
	assert_false(drv_runs(b)); /* a owns the lane */
	drv_pass(&d, 10 * SEC);
	assert_false(drv_runs(b));
	drv_close(&d, b);
	b = drv_open(&d, 10, 10);
	for (int i = 0; i < 3; i++)
		drv_submit_short(&d, b, 10 * US);
	for (int i = 0; i < 3; i++) {
		assert_true(drv_runs(b)); /* no other session wants a turn in between */
		drv_done(&d, b, 10 * US);
	}
}

/* fair charges short programs that go ahead of the order. */
static void test_short_ones_count_for_fair(void **state)
{
	struct drv_job *a, *b;
	uint64_t a_ns, b_ns;

	(void)state;
	start(&sal_policy_fair, 0, 50 * US);
	a = drv_open(&d, 10, 10);
	b = drv_open(&d, 10, 10);
	for (int i = 0; i < 2000; i++) {
		drv_submit(&d, a, 10, 10);
		while (b->submitted - b->done < 4)
			drv_submit_short(&d, b, 40 * US);
		while (drv_runs(a) || (drv_runs(b) && b->submitted - b->done > 2))
			drv_done(&d, drv_runs(a) ? a : b, 40 * US);
	}
	a_ns = a->s->used_ns;
	b_ns = b->s->used_ns;
	assert_true(a_ns > 20 * MS && b_ns > 20 * MS);
	assert_in_range(b_ns * 100 / a_ns, 50, 200);
}

/* Waiting for memory */

static void test_waiting_ones_are_let_in_in_order(void **state)
{
	struct drv_job *a, *b[3];

	(void)state;
	start(&sal_policy_pack, 0, 0);
	a = drv_open(&d, 900, 100);
	drv_submit(&d, a, 900, 100);
	for (int i = 0; i < 3; i++) {
		b[i] = drv_open(&d, 500, 100);
		drv_submit(&d, b[i], 500, 100);
	}
	drv_close(&d, a);
	drv_done(&d, a, 1);
	assert_true(drv_runs(b[0]));
	drv_close(&d, b[0]);
	drv_done(&d, b[0], 1);
	assert_true(drv_runs(b[1]));
	assert_false(drv_is_in(b[2]));
}

/* Waiting sessions with work are admitted before sessions without work. */
static void test_work_goes_first(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack, 0, 0);
	a = drv_open(&d, 600, 100);
	drv_submit(&d, a, 600, 100);
	b = drv_open(&d, 600, 100);
	c = drv_open(&d, 600, 100);
	drv_submit(&d, c, 600, 100);
	drv_close(&d, a);
	drv_done(&d, a, 1);
	assert_false(drv_is_in(b));
	assert_true(drv_runs(c));
}

/* Small jobs pass over a large one until it is passed over more than pass_bound times. */
static void test_passing_over_is_bounded(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *large, *runs, *next;
	uint32_t passed = 0;

	(void)state;
	t.pass_bound = 10;
	t.page_bytes_per_s = 0;
	t.lanes = 1;
	drv_start(&d, 1000, &sal_policy_pack, &t);
	runs = drv_open(&d, 300, 100);
	drv_submit(&d, runs, 300, 100);
	large = drv_open(&d, 800, 100);
	drv_submit(&d, large, 800, 100);
	for (; passed < 100; passed++) { /* a new small job always overlaps the last one */
		next = drv_open(&d, 300, 100);
		drv_submit(&d, next, 300, 100);
		if (!drv_is_in(next))
			break;
		drv_close(&d, runs);
		drv_done(&d, runs, 1);
		runs = next;
		assert_true(drv_runs(runs));
	}
	assert_int_equal(passed, 11);
	drv_close(&d, runs);
	drv_done(&d, runs, 1);
	assert_true(drv_runs(large));
	assert_int_equal(large->s->passed_over, 0); /* admission resets the count */
	drv_done(&d, large, 1);
	drv_close(&d, large);
	assert_true(drv_runs(next));
}

/* Sessions that wait outside never block the growth of a resident session. */
static void test_growth_is_not_held_back_by_a_crowd(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *grows, *busy;

	(void)state;
	t.page_bytes_per_s = 0;
	t.lanes = 2;
	drv_start(&d, 1000, &sal_policy_las, &t);
	grows = drv_open(&d, 100, 50);
	busy = drv_open(&d, 100, 50);
	drv_submit(&d, grows, 100, 50);
	drv_done(&d, grows, MS);
	drv_submit(&d, busy, 100, 50);
	for (int i = 0; i < 100; i++) { /* under las all of them come before `grows` */
		struct drv_job *j = drv_open(&d, 900, 50);

		drv_submit(&d, j, 900, 50);
	}
	drv_submit(&d, grows, 300, 50); /* there is room for 300 bytes */
	assert_true(drv_runs(grows));
}

/* Gaps are averaged. A very long gap counts as eight times anticipate_ns. */
static void test_gaps_are_averaged(void **state)
{
	static const uint64_t gaps_us[] = { 1000, 1000, 5000, 1000, 750, 1000000 };
	static const uint64_t learned_us[] = { 1000, 1000, 2000, 1750, 1500, 11125 };
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair, 5 * MS, 0);
	a = drv_open(&d, 10, 10);
	drv_submit(&d, a, 10, 10);
	for (int i = 0; i < 6; i++) {
		drv_done(&d, a, MS);
		d.now_ns += gaps_us[i] * US;
		drv_submit(&d, a, 10, 10);
		assert_int_equal(a->s->gap_ns, learned_us[i] * US);
	}
}

/* fifo: a small session is not admitted before an older one that waits for memory. */
static void test_fifo_lets_in_by_age(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b, *c;

	(void)state;
	t.page_bytes_per_s = 0;
	drv_start(&d, 1000, &sal_policy_fifo, &t);
	a = drv_open(&d, 500, 100);
	b = drv_open(&d, 600, 100);
	c = drv_open(&d, 100, 50);
	assert_true(drv_is_in(a));
	assert_false(drv_is_in(b) || drv_is_in(c));
	drv_close(&d, a);
	assert_true(drv_is_in(b) && drv_is_in(c));
	assert_true(drv_last(&d, SAL_ADMIT, c) > drv_last(&d, SAL_ADMIT, b));
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_turn_is_reserved_until_its_window_ends),
		T(test_tick_before_its_time_changes_nothing),
		T(test_nobody_else_needs_no_alarm),
		T(test_gap_is_learned),
		T(test_no_waiting_for_one_known_to_be_slow),
		T(test_turn_is_not_kept_for_one_that_pauses_or_leaves),
		T(test_turn_of_a_less_important_one_is_not_kept),
		T(test_turn_goes_with_the_rank),
		T(test_turn_does_not_keep_others_out),
		T(test_short_ones_pass_and_are_charged),
		T(test_what_is_not_short_or_not_known_does_not_pass),
		T(test_short_one_runs_while_a_turn_is_kept),
		T(test_short_ones_count_for_fair),
		T(test_waiting_ones_are_let_in_in_order),
		T(test_work_goes_first),
		T(test_passing_over_is_bounded),
		T(test_growth_is_not_held_back_by_a_crowd),
		T(test_gaps_are_averaged),
		T(test_fifo_lets_in_by_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
