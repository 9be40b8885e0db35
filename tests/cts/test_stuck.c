/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stuck - under every policy: one iteration does not end, the others of its lane go on within a
 * second.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/policy.h"
#include "support/driver.h"

#define STEPS 100000

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

static void start(const struct sal_policy *policy, uint64_t capacity, uint64_t stuck_ns)
{
	struct sal_tuning t = drv_plain_tuning();

	t.lanes = 1;
	t.stuck_ns = stuck_ns;
	drv_start(&d, capacity, policy, &t);
}

/* Runs `check` under each policy. */
static void under_each(void (*check)(const struct sal_policy *policy))
{
	for (size_t p = 0; sal_policies[p]; p++) {
		check(sal_policies[p]);
		drv_stop(&d);
	}
	drv_start(&d, 1, NULL, NULL); /* for stop() */
}

static struct drv_job *open_endless(uint64_t persist, uint64_t ephem)
{
	struct drv_job *a = drv_open(&d, persist, ephem);

	drv_submit(&d, a, persist, ephem);
	assert_true(drv_runs(a));
	return a;
}

static void submit(struct drv_job *j)
{
	drv_submit(&d, j, j->s->job.declared.persist_bytes, j->s->job.declared.ephem_bytes);
}

static struct drv_load load_of(uint64_t count)
{
	return (struct drv_load){
		.job = { .declared = { 100, 50 } },
		.count = count,
		.iter_ns = 5 * MS,
	};
}

/* In each policy */

static void check_others_go_on(const struct sal_policy *policy)
{
	struct drv_load load = load_of(20);
	struct drv_job *a, *others[3];

	start(policy, 1000, SAL_STUCK_NS);
	a = open_endless(100, 50);
	for (int i = 0; i < 3; i++)
		others[i] = drv_add(&d, &load);
	drv_run_until(&d, 5 * MS);
	for (int i = 0; i < 3; i++)
		if (others[i]->grants > 0)
			fail_msg("%s: granted beside another in the one lane", policy->name);
	drv_run(&d, STEPS);
	for (int i = 0; i < 3; i++) {
		/* Whoever comes first within a second; fifo and the like serve them one by one. */
		if (others[i]->first_ns > SEC || others[i]->end_ns > SEC + 300 * MS)
			fail_msg("%s: started at %" PRIu64 ", ended at %" PRIu64, policy->name,
				 others[i]->first_ns, others[i]->end_ns);
	}
	assert_true(drv_runs(a));
	assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 0);
	/* It ends after all, and its lane is a lane. */
	drv_done(&d, a, 5 * SEC);
	submit(a);
	assert_true(drv_runs(a));
	assert_int_equal(drv_lanes(&d), 1);
}

static void test_others_go_on(void **state)
{
	(void)state;
	under_each(check_others_go_on);
}

/* One lane as the policy has it, or as many. */
static void check_with_the_policys_lanes(const struct sal_policy *policy)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_load load = load_of(20);
	struct drv_job *other;

	t.stuck_ns = SAL_STUCK_NS;
	drv_start(&d, 250, policy, &t); /* no room for many lanes */
	(void)open_endless(10, 100);
	load.job.declared = (struct sal_needs){ 10, 100 };
	other = drv_add(&d, &load);
	drv_run(&d, STEPS);
	assert_true(other->first_ns <= SEC);
}

static void test_with_the_policys_lanes(void **state)
{
	(void)state;
	under_each(check_with_the_policys_lanes);
}

/* No room for a second lane: they wait, are not refused, and go on when the iteration ends. */
static void check_no_room(const struct sal_policy *policy)
{
	struct drv_job *a, *b, *c;

	start(policy, 1000, SAL_STUCK_NS);
	a = open_endless(100, 500);
	b = drv_open(&d, 100, 500);
	c = drv_open(&d, 100, 400);
	submit(b);
	submit(c);
	drv_pass(&d, 10 * SEC);
	drv_tick(&d);
	assert_false(drv_runs(b) || drv_runs(c));
	assert_int_equal(b->refusals + c->refusals, 0);
	drv_done(&d, a, 0);
	drv_close(&d, a); /* fifo's owner would keep the lane */
	assert_int_equal(drv_runs(b) + drv_runs(c), 1);
	assert_int_equal(drv_lanes(&d), 1);
}

static void test_no_room(void **state)
{
	(void)state;
	under_each(check_no_room);
}

/* No room at first; then somebody else leaves. */
static void check_room_comes(const struct sal_policy *policy)
{
	struct drv_job *b, *c;

	start(policy, 1000, SAL_STUCK_NS);
	c = drv_open(&d, 300, 10); /* the oldest, and idle */
	drv_need(&d, c, 300);
	drv_pass(&d, MS);
	if (policy->owns_lane) {
		drv_close(&d, c);
		(void)open_endless(100, 400);
		c = drv_open(&d, 300, 10);
		drv_need(&d, c, 300);
	} else {
		(void)open_endless(100, 400);
	}
	b = drv_open(&d, 100, 400);
	drv_pause(&d, c);
	d.tuning.page_bytes_per_s = 0; /* nobody is paged out */
	drv_set_tuning(&d, &d.tuning);
	submit(b);
	drv_pass(&d, 2 * SEC);
	assert_false(drv_runs(b));
	drv_close(&d, c);
	assert_true(drv_runs(b));
}

static void test_room_comes(void **state)
{
	(void)state;
	under_each(check_room_comes);
}

/*
 * Closing does not end an iteration: the lane is stuck all the same, whatever was expected of it.
 */
static void check_closed(const struct sal_policy *policy)
{
	struct drv_job *a, *b;

	start(policy, 1000, SAL_STUCK_NS);
	a = drv_open(&d, 100, 50);
	drv_submit_short(&d, a, 100 * SEC);
	b = drv_open(&d, 100, 50);
	submit(b);
	drv_pass(&d, SEC);
	assert_false(drv_runs(b));
	drv_close(&d, a);
	assert_true(drv_runs(b));
	assert_non_null(a->s);
	assert_true(a->s->lane->running == a->s);
	drv_done(&d, a, SEC);
	assert_null(a->s);
	assert_true(drv_runs(b));
}

static void test_closed(void **state)
{
	(void)state;
	under_each(check_closed);
}

/* One after the other gets stuck; each costs its own lane. */
static void check_many(const struct sal_policy *policy)
{
	struct drv_load load = load_of(5);
	struct drv_job *bad[5];

	start(policy, 10000, SAL_STUCK_NS);
	for (int i = 0; i < 5; i++) {
		bad[i] = drv_open(&d, 100, 50);
		submit(bad[i]);
		drv_pass(&d, SEC);
		assert_true(drv_runs(bad[i]));
	}
	(void)drv_add(&d, &load);
	drv_run(&d, STEPS);
	assert_int_equal(drv_lanes(&d), 5);
	for (int i = 0; i < 5; i++)
		drv_done(&d, bad[i], 0);
	/* Too many lanes now: whoever runs next runs in one. */
	for (int i = 0; i < 5; i++)
		submit(bad[i]);
	assert_int_equal(drv_lanes(&d), 1);
	for (int i = 0, running = 0; i < 5; i++) {
		running += drv_runs(bad[i]);
		assert_true(running <= 1);
	}
}

static void test_many(void **state)
{
	(void)state;
	under_each(check_many);
}

/* When a lane is stuck */

static uint64_t stuck_after(uint64_t stuck_ns, uint64_t expected_ns)
{
	struct drv_job *a, *b;
	uint64_t at_ns;

	start(&sal_policy_fair, 1000, stuck_ns);
	a = drv_open(&d, 100, 50);
	drv_submit_short(&d, a, expected_ns);
	b = drv_open(&d, 100, 50);
	submit(b);
	while (!drv_runs(b) && d.wake_ns && d.now_ns < 1000 * SEC)
		drv_pass(&d, d.wake_ns - d.now_ns);
	at_ns = drv_runs(b) ? d.now_ns : 0;
	drv_stop(&d);
	return at_ns;
}

static void test_when_a_lane_is_stuck(void **state)
{
	(void)state;
	assert_int_equal(stuck_after(500 * MS, 0), 500 * MS);
	assert_int_equal(stuck_after(500 * MS, 10 * MS), 500 * MS);
	assert_int_equal(stuck_after(500 * MS, 300 * MS), 1200 * MS); /* four times */
	assert_int_equal(stuck_after(500 * MS, 2 * SEC), 7 * SEC); /* 5 s more */
	assert_int_equal(stuck_after(500 * MS, 60 * SEC), 65 * SEC);
	assert_int_equal(stuck_after(500 * MS, UINT64_MAX), 0);
	assert_int_equal(stuck_after(0, 10 * MS), 0); /* never */
	assert_int_equal(stuck_after(UINT64_MAX, 10 * MS), 0);
	drv_start(&d, 1, NULL, NULL);
}

/* Nobody is woken for a job that is alone. */
static void test_alone_it_wakes_nobody(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair, 1000, SAL_STUCK_NS);
	a = open_endless(100, 50);
	assert_int_equal(d.wake_ns, 0);
	drv_pass(&d, 10 * SEC);
	/* A newcomer finds a lane at once. */
	b = drv_open(&d, 100, 50);
	submit(b);
	assert_true(drv_runs(a) && drv_runs(b));
}

/* The knob is turned on while it hangs, and off again. */
static void test_tuned_while_it_hangs(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_fair, 1000, 0);
	a = open_endless(100, 50);
	b = drv_open(&d, 100, 50);
	submit(b);
	drv_pass(&d, 10 * SEC);
	assert_false(drv_runs(b));
	d.tuning.stuck_ns = SAL_STUCK_NS;
	drv_set_tuning(&d, &d.tuning);
	assert_true(drv_runs(b));
	d.tuning.stuck_ns = 0;
	drv_set_tuning(&d, &d.tuning);
	drv_done(&d, b, MS);
	c = drv_open(&d, 100, 50);
	submit(c);
	assert_false(drv_runs(c) && drv_runs(a) && drv_runs(b));
}

/* Memory */

/* An idle session is paged out so that the others have a lane. */
static void test_room_is_made_by_paging(void **state)
{
	struct drv_job *b, *c;

	(void)state;
	start(&sal_policy_fair, 1000, SAL_STUCK_NS);
	c = drv_open(&d, 300, 10);
	submit(c);
	drv_done(&d, c, MS);
	(void)open_endless(100, 400);
	b = drv_open(&d, 100, 400);
	submit(b);
	drv_run_until(&d, 10 * SEC);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, c), 1);
	assert_true(drv_runs(b));
}

/* The stuck lane does not shrink when a member goes: nobody is paged out for nothing. */
static void test_nobody_is_paged_out_in_vain(void **state)
{
	struct drv_job *b, *c;

	(void)state;
	start(&sal_policy_fair, 1000, SAL_STUCK_NS);
	c = drv_open(&d, 100, 400);
	submit(c);
	drv_done(&d, c, MS);
	(void)open_endless(100, 100); /* in a lane of 400 */
	drv_pass(&d, 3 * SEC);
	b = drv_open(&d, 100, 500);
	submit(b);
	drv_run_until(&d, 10 * SEC);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
	assert_false(drv_is_in(b));
	assert_int_equal(b->refusals, 0);
}

/*
 * Two are held up and there is room for one: the last in line is paged out, though nobody prefers.
 */
static void test_room_is_made_by_force(void **state)
{
	struct drv_job *b, *c;

	(void)state;
	start(&sal_policy_pack, 1000, SAL_STUCK_NS);
	(void)open_endless(100, 400);
	b = drv_open(&d, 100, 400);
	c = drv_open(&d, 300, 200);
	drv_need(&d, c, 300);
	submit(b);
	submit(c);
	drv_run_until(&d, 3 * SEC);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, c), 1);
	assert_true(drv_runs(b));
	assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 0);
}

/* The one that hangs was to make room: it will not, so somebody else does. */
static void test_a_plan_that_waits_for_it_is_given_up(void **state)
{
	struct sal_job first = { .declared = { 400, 50 }, .priority = 9 };
	struct sal_job second = { .declared = { 400, 50 }, .priority = 8 };
	struct sal_job third = { .declared = { 400, 50 }, .priority = 0 };
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_priority, 1000, SAL_STUCK_NS);
	b = drv_open_job(&d, &second);
	submit(b);
	drv_done(&d, b, MS);
	a = drv_open_job(&d, &first);
	submit(a);
	c = drv_open_job(&d, &third);
	submit(c);
	drv_submit(&d, b, 400, 50);
	drv_run_until(&d, 3 * SEC);
	assert_true(drv_runs(a));
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, a), 0);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, b), 1);
	assert_true(drv_runs(c));
}

/* Lanes change their size around one that does not move. */
static void test_ranges_around_it(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b;

	(void)state;
	t.lanes = 2;
	t.stuck_ns = SAL_STUCK_NS;
	drv_start(&d, 1000, &sal_policy_pack, &t);
	b = drv_open(&d, 10, 100); /* lane 0, at the end of the device */
	submit(b);
	a = open_endless(10, 400); /* lane 1, below it */
	assert_int_equal(a->s->lane->at, 500);
	drv_done(&d, b, MS);
	drv_pass(&d, SEC);
	drv_submit(&d, b, 10, 300); /* above lane 1 there are only 100 */
	assert_true(drv_runs(b));
	assert_true(b->s->lane->at + 300 <= 500);
	drv_done(&d, b, MS);
	drv_submit(&d, b, 10, 600); /* there is no such place, but it is not refused */
	assert_false(drv_runs(b));
	drv_done(&d, a, SEC);
	drv_close(&d, a);
	assert_true(drv_runs(b));
	assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 0);
}

/*
 * There is room on both sides of it: the upper one is taken, which leaves more for persistent
 * bytes.
 */
static void test_highest_gap(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *b, *c;

	(void)state;
	t.lanes = 3;
	t.stuck_ns = SAL_STUCK_NS;
	drv_start(&d, 1000, &sal_policy_pack, &t);
	b = drv_open(&d, 10, 300);
	(void)open_endless(10, 400); /* at 300 */
	c = drv_open(&d, 10, 100);
	drv_close(&d, b);
	drv_pass(&d, SEC);
	drv_submit(&d, c, 10, 150);
	assert_true(drv_runs(c));
	assert_int_equal(c->s->lane->at, 850);
}

/* It ends after all: its lane takes others in again, though it goes on running. */
static void test_its_lane_takes_others_in_again(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair, 1000, SAL_STUCK_NS);
	a = open_endless(100, 500);
	(void)drv_open(&d, 100, 500); /* so that the lane keeps its size */
	submit(a);
	submit(a);
	drv_pass(&d, SEC);
	b = drv_open(&d, 100, 500);
	submit(b);
	assert_false(drv_is_in(b));
	drv_done(&d, a, 0);
	assert_true(drv_is_in(b));
	assert_int_equal(drv_lanes(&d), 1);
}

/* Lanes within the limit are not closed because of a stuck one. */
static void test_the_limit_is_for_the_others(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *b, *c;

	(void)state;
	t.lanes = 2;
	t.stuck_ns = SAL_STUCK_NS;
	drv_start(&d, 1000, &sal_policy_pack, &t);
	(void)open_endless(10, 400);
	b = open_endless(10, 100);
	drv_pass(&d, 400 * MS);
	drv_done(&d, b, 0);
	drv_pass(&d, 200 * MS);
	submit(b);
	c = drv_open(&d, 10, 50);
	submit(c);
	assert_int_equal(drv_lanes(&d), 3);
	drv_done(&d, b, MS);
	drv_done(&d, c, MS);
	drv_set_tuning(&d, &t);
	assert_int_equal(drv_lanes(&d), 3);
	assert_ptr_equal(drv_open(&d, 10, 50)->s->lane, c->s->lane); /* which takes others in */
	submit(b);
	submit(c);
	assert_true(drv_runs(b) && drv_runs(c));
}

/* Short programs do not wait for it either. */
static void test_short_programs_go_on(void **state)
{
	struct drv_job *b;

	(void)state;
	start(&sal_policy_srtf, 1000, SAL_STUCK_NS);
	d.tuning.short_ns = 50 * US;
	drv_set_tuning(&d, &d.tuning);
	(void)open_endless(100, 50);
	b = drv_open(&d, 100, 50);
	drv_submit_short(&d, b, 10 * US);
	drv_pass(&d, SEC);
	assert_true(drv_runs(b));
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_others_go_on),
		T(test_with_the_policys_lanes),
		T(test_no_room),
		T(test_room_comes),
		T(test_closed),
		T(test_many),
		T(test_when_a_lane_is_stuck),
		T(test_alone_it_wakes_nobody),
		T(test_tuned_while_it_hangs),
		T(test_room_is_made_by_paging),
		T(test_nobody_is_paged_out_in_vain),
		T(test_room_is_made_by_force),
		T(test_a_plan_that_waits_for_it_is_given_up),
		T(test_ranges_around_it),
		T(test_highest_gap),
		T(test_its_lane_takes_others_in_again),
		T(test_the_limit_is_for_the_others),
		T(test_short_programs_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
