/* SPDX-License-Identifier: Apache-2.0 */
/* paging: which session is paged out, for which session, at what cost; and work without paging. */
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

/* A device of 1000 bytes. Copies move `rate` bytes per second. */
static void start(const struct sal_policy *policy, uint64_t rate)
{
	struct sal_tuning t = drv_plain_tuning();

	t.page_bytes_per_s = rate;
	drv_start(&d, 1000, policy, &t);
}

static struct drv_job *open_total(uint64_t persist, uint64_t total_ns)
{
	struct sal_job job = { .declared = { persist, 100 }, .total_ns = total_ns };

	return drv_open_job(&d, &job);
}

static struct drv_job *open_priority(uint64_t persist, uint32_t priority)
{
	struct sal_job job = { .declared = { persist, 100 }, .priority = priority };

	return drv_open_job(&d, &job);
}

/* Run one iteration, after which the session holds its declared bytes. */
static void run_once(struct drv_job *j, uint64_t ns)
{
	drv_submit(&d, j, j->s->job.declared.persist_bytes, 100);
	drv_done(&d, j, ns);
}

static void submit_two(struct drv_job *j)
{
	for (int i = 0; i < 2; i++)
		drv_submit(&d, j, j->s->job.declared.persist_bytes, 100);
}

/* Preferred by the policy */

static void test_srtf_short_job_gets_in_by_paging_out_a_long_one(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_srtf, 1000);
	a = open_total(600, 100 * SEC);
	submit_two(a);
	drv_done(&d, a, SEC);
	b = open_total(600, 10 * SEC);
	drv_submit(&d, b, 600, 100);
	drv_submit(&d, a, 600, 100);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0); /* not before its boundary */
	drv_done(&d, a, SEC);
	assert_int_equal(drv_last(&d, SAL_PAGE_OUT, a)->value, 600);
	assert_false(drv_runs(a) || drv_runs(b));
	drv_copied(&d, a);
	assert_true(drv_runs(b));
	drv_done(&d, b, SEC);
	drv_close(&d, b);
	/* The page-in brings all its bytes back. */
	assert_int_equal(drv_last(&d, SAL_PAGE_IN, a)->value, 600);
	assert_false(drv_runs(a));
	drv_mark(&d);
	drv_copied(&d, a);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 1);
	assert_true(drv_runs(a));
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->iteration, 3);
}

/* Free bytes belong to the claimant: c must not take them. */
static void test_nobody_is_let_in_before_the_one_room_is_made_for(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_srtf, 1000);
	a = open_total(600, 100 * SEC);
	submit_two(a);
	b = open_total(600, 10 * SEC);
	drv_submit(&d, b, 600, 100);
	assert_true(a->s->evicting);
	c = open_total(100, 50 * SEC);
	drv_submit(&d, c, 100, 100);
	assert_false(drv_is_in(c));
	drv_done(&d, a, SEC);
	assert_false(drv_is_in(c));
	drv_copied(&d, a);
	assert_true(drv_runs(b));
	assert_true(drv_is_in(c));
}

static void test_srtf_does_not_page_for_a_longer_job_or_a_small_gain(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_srtf, 100); /* 600 bytes take six seconds */
	a = open_total(600, 20 * SEC);
	submit_two(a);
	drv_done(&d, a, SEC);
	b = open_total(600, 30 * SEC);
	drv_submit(&d, b, 600, 100);
	assert_false(a->s->evicting);
	c = open_total(600, 15 * SEC); /* shorter, but by less than the time of the copies */
	drv_submit(&d, c, 600, 100);
	assert_false(a->s->evicting);
	drv_submit(&d, a, 600, 100);
	drv_done(&d, a, SEC);
	assert_true(drv_runs(a));
}

static void test_priority_pages_out_the_less_important(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_priority, 1000);
	a = open_priority(400, 2);
	b = open_priority(400, 1);
	run_once(a, MS);
	submit_two(b);
	drv_done(&d, b, MS);
	drv_submit(&d, a, 400, 100);
	c = open_priority(400, 0);
	drv_submit(&d, c, 400, 100);
	assert_int_equal(drv_last(&d, SAL_PAGE_OUT, NULL)->session, a->id);
	assert_true(drv_runs(b)); /* b stays: one victim is enough */
	drv_copied(&d, a);
	drv_done(&d, b, MS);
	assert_true(drv_runs(c));
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 1);
}

/* No session is paged out for a session that would not run next. */
static void test_priority_does_not_page_for_the_second_in_line(void **state)
{
	struct drv_job *first, *last, *between;

	(void)state;
	start(&sal_policy_priority, 1000);
	first = open_priority(400, 0);
	last = open_priority(400, 2);
	run_once(last, MS);
	submit_two(first);
	drv_submit(&d, last, 400, 100);
	between = open_priority(400, 1);
	drv_submit(&d, between, 400, 100);
	drv_done(&d, first, MS);
	assert_true(drv_runs(first));
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
	drv_done(&d, first, MS);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, last), 1);
}

static void test_victims_that_are_not_needed_are_spared(void **state)
{
	struct drv_job *small, *large, *c;

	(void)state;
	start(&sal_policy_priority, 1000);
	large = open_priority(600, 1);
	small = open_priority(100, 2); /* first victim by rank, but too small */
	run_once(large, MS);
	run_once(small, MS);
	drv_submit(&d, large, 600, 100);
	drv_submit(&d, small, 100, 100);
	c = open_priority(700, 0);
	drv_submit(&d, c, 700, 100);
	drv_done(&d, large, MS);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, large), 1);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, small), 0);
}

/* The policy gets the time of the copies, also on a fast link. */
static uint64_t told_ns;

static bool note_cost(const void *state, const struct sal_session *in,
		      const struct sal_session *out, uint64_t cost_ns)
{
	(void)state;
	if (in->id < out->id)
		return false;
	told_ns = cost_ns;
	return false;
}

static void test_cost_of_copies(void **state)
{
	static const struct {
		uint64_t rate, bytes, cost_ns;
	} copies[] = {
		{ 1000, 600, 600 * MS },
		{ 3, 1000000, UINT64_C(333333333333333) },
		{ UINT64_C(64000000000), UINT64_C(40000000000), 625 * MS },
		{ UINT64_C(900000000000), UINT64_C(800000000000), UINT64_C(888888888) },
	};
	struct sal_policy policy = sal_policy_las;
	struct drv_job *a, *b;

	(void)state;
	policy.prefers = note_cost;
	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
		struct sal_tuning t = drv_plain_tuning();

		t.page_bytes_per_s = copies[i].rate;
		drv_start(&d, copies[i].bytes / 2 * 3, &policy, &t);
		a = drv_open(&d, copies[i].bytes, 0);
		drv_submit(&d, a, copies[i].bytes, 0);
		drv_submit(&d, a, copies[i].bytes, 0);
		drv_done(&d, a, MS);
		b = drv_open(&d, copies[i].bytes, 0);
		drv_submit(&d, b, copies[i].bytes, 0);
		assert_int_equal(told_ns, copies[i].cost_ns);
		if (i + 1 < sizeof(copies) / sizeof(copies[0]))
			drv_stop(&d);
	}
}

static bool note_any_cost(const void *state, const struct sal_session *in,
			  const struct sal_session *out, uint64_t cost_ns)
{
	(void)state;
	(void)in;
	(void)out;
	told_ns = cost_ns;
	return false;
}

/* The cost counts both copies: the page-out of b and the page-in of a. */
static void test_cost_counts_both_ways(void **state)
{
	struct sal_policy policy = sal_policy_las;
	struct drv_job *a, *b;

	(void)state;
	policy.prefers = note_any_cost;
	start(&policy, 1000);
	a = drv_open(&d, 500, 100);
	run_once(a, MS);
	drv_pause(&d, a);
	b = drv_open(&d, 600, 100);
	drv_submit(&d, b, 600, 100);
	drv_copied(&d, a); /* paged out because it was paused */
	drv_resume(&d, a);
	drv_submit(&d, b, 600, 100);
	drv_done(&d, b, 50 * MS);
	told_ns = 0;
	drv_submit(&d, a, 500, 100);
	assert_int_equal(told_ns, (500 + 600) * MS);
}

/* Idle sessions */

static void test_idle_session_makes_room_after_a_while(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack, 1000000);
	a = drv_open(&d, 600, 100);
	run_once(a, MS);
	b = drv_open(&d, 100, 100);
	submit_two(b);
	c = drv_open(&d, 600, 100); /* pack has no `prefers` */
	drv_submit(&d, c, 600, 100);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
	assert_int_equal(d.wake_ns, MS + d.tuning.idle_ns);
	drv_pass(&d, d.tuning.idle_ns);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, a), 1);
	drv_copied(&d, a);
	assert_true(drv_runs(c));
	/* With work, the session comes back when there is room. */
	drv_submit(&d, a, 600, 100);
	assert_false(drv_is_in(a));
	drv_close(&d, c);
	drv_done(&d, c, MS);
	assert_int_equal(drv_said(&d, SAL_PAGE_IN, a), 1);
}

static void test_paused_session_makes_room_at_once(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack, 1000000);
	a = drv_open(&d, 600, 100);
	submit_two(a);
	drv_done(&d, a, MS);
	b = drv_open(&d, 600, 100);
	drv_submit(&d, b, 600, 100);
	drv_pause(&d, a);
	drv_done(&d, a, MS);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, a), 1);
	drv_copied(&d, a);
	assert_true(drv_runs(b));
}

static void test_nobody_idle_is_disturbed_while_nobody_waits(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair, 1000);
	a = drv_open(&d, 400, 100);
	b = drv_open(&d, 400, 100);
	run_once(a, MS);
	run_once(b, MS);
	drv_pass(&d, 3600 * SEC);
	drv_tick(&d);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
	assert_int_equal(drv_said(&d, SAL_WAKE_AT, NULL), 0);
}

/* An admitted session stays for twenty times the time of its copy, even if it is idle. */
static void test_idle_session_stays_as_long_as_it_cost(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack, 1000); /* 600 bytes take 600 ms */
	a = drv_open(&d, 600, 100);
	run_once(a, MS);
	b = drv_open(&d, 100, 100);
	submit_two(b);
	c = drv_open(&d, 600, 100);
	drv_submit(&d, c, 600, 100);
	drv_pass(&d, 12 * SEC - d.now_ns - 1);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
	drv_pass(&d, 1);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, a), 1);
}

/* If no session can go on otherwise, idle_ns does not count. */
static void test_forced_does_not_wait_for_idleness(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b;

	(void)state;
	t.idle_ns = 1000 * SEC;
	t.page_bytes_per_s = 1000;
	drv_start(&d, 1000, &sal_policy_pack, &t);
	a = drv_open(&d, 600, 100);
	run_once(a, MS);
	b = drv_open(&d, 600, 100);
	drv_submit(&d, b, 600, 100);
	drv_pass(&d, 12 * SEC);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, a), 1);
}

/* A session without live bytes is paged out without a copy. */
static void test_empty_session_leaves_without_a_copy(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack, 1000);
	a = drv_open(&d, 600, 100); /* declared bytes, but never ran */
	b = drv_open(&d, 600, 100);
	drv_submit(&d, b, 600, 100);
	drv_pass(&d, 2 * d.tuning.idle_ns);
	assert_true(drv_runs(b));
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
	drv_submit(&d, a, 600, 100);
	drv_close(&d, b);
	drv_done(&d, b, MS);
	assert_true(drv_runs(a));
	assert_int_equal(drv_said(&d, SAL_PAGE_IN, NULL), 0);
}

/* By force */

static void test_forced_when_all_residents_wait_for_memory(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack, 1000); /* no `prefers` */
	a = drv_open(&d, 0, 0);
	b = drv_open(&d, 0, 0);
	drv_submit(&d, a, 400, 50);
	drv_submit(&d, b, 400, 50);
	drv_done(&d, a, MS);
	drv_done(&d, b, MS);
	drv_submit(&d, a, 600, 50);
	drv_submit(&d, b, 600, 50);
	/* The last session in the policy's order is paged out; the other one goes on. */
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, b), 1);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 1);
	drv_copied(&d, b);
	assert_true(drv_runs(a));
	drv_done(&d, a, MS);
	drv_close(&d, a);
	drv_copied(&d, b);
	assert_true(drv_runs(b));
	assert_int_equal(a->refusals + b->refusals, 0);
}

static void test_needs_deadlock_is_broken_too(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair, 1000);
	a = drv_open(&d, 0, 0);
	b = drv_open(&d, 0, 0);
	drv_need(&d, a, 450);
	drv_need(&d, b, 450);
	drv_need(&d, a, 800); /* uploads that wait for each other */
	drv_need(&d, b, 800);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 1);
	drv_copied(&d, a->copy_ends_ns != DRV_NEVER ? a : b);
	assert_int_equal((a->s->held_bytes == 800) + (b->s->held_bytes == 800), 1);
	assert_int_equal(a->refusals + b->refusals, 0);
}

/* a can only grow if its lane shrinks, so the idle member b must be paged out. */
static void test_session_grows_by_shrinking_its_lane(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair, 1000000);
	a = drv_open(&d, 0, 0);
	b = drv_open(&d, 20, 640);
	run_once(b, MS);
	drv_submit(&d, a, 300, 650);
	drv_done(&d, a, MS);
	drv_submit(&d, a, 600, 100); /* the scratch of b leaves only 340 bytes */
	while (drv_step(&d, d.now_ns + 10 * SEC))
		continue;
	assert_true(drv_runs(a));
	assert_int_equal(b->s->place, SAL_OUTSIDE);
}

/* Without paging */

static void test_no_paging_refuses_only_as_the_last_resort(void **state)
{
	struct drv_job *a, *b, *c;
	const struct sal_record *r;

	(void)state;
	start(&sal_policy_pack, 0);
	a = drv_open(&d, 0, 0);
	b = drv_open(&d, 0, 0);
	c = drv_open(&d, 0, 0);
	drv_submit(&d, a, 300, 50);
	drv_submit(&d, b, 300, 50);
	drv_submit(&d, c, 50, 50);
	drv_done(&d, a, MS);
	drv_done(&d, b, MS);
	drv_submit(&d, a, 700, 50);
	drv_submit(&d, b, 700, 50);
	/* c still runs: it may end and close. */
	assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 0);
	drv_done(&d, c, MS);
	/* c is idle: it may still close. */
	assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 0);
	drv_close(&d, c);
	r = drv_last(&d, SAL_REFUSE, NULL);
	assert_int_equal(r->reason, SAL_REFUSE_NO_PAGING);
	assert_int_equal(r->session, b->id); /* the last in the policy's order */
	assert_int_equal(r->iteration, 2);
	assert_int_equal(r->persist_bytes, 700);
	assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 1);
	drv_close(&d, b);
	assert_true(drv_runs(a));
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
}

static void test_no_paging_need_is_refused_too(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair, 0);
	a = drv_open(&d, 0, 0);
	b = drv_open(&d, 0, 0);
	drv_need(&d, a, 450);
	drv_need(&d, b, 450);
	drv_need(&d, a, 800);
	assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 0); /* b may still give bytes back */
	drv_need(&d, b, 800);
	assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 1);
	assert_int_equal(drv_last(&d, SAL_REFUSE, NULL)->reason, SAL_REFUSE_NO_PAGING);
	drv_close(&d, drv_last(&d, SAL_REFUSE, NULL)->session == a->id ? a : b);
	assert_int_equal(drv_said(&d, SAL_ADMIT, NULL), 5);
}

/* fifo: an owner that waits for memory does not block the lane for the other sessions. */
static void test_no_paging_fifo_owner_with_an_open_need(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fifo, 0);
	a = drv_open(&d, 0, 0);
	b = drv_open(&d, 500, 100);
	drv_need(&d, a, 600);
	drv_submit(&d, b, 500, 100);
	assert_true(drv_runs(b));
	drv_done(&d, b, MS);
	drv_close(&d, b);
	assert_int_equal(a->s->held_bytes, 600);
}

/* No thrashing */

/*
 * Two jobs do not fit together and a copy takes a second. Between two swaps a job must run for
 * page_margin times the time of the copies.
 */
static void test_no_thrashing(void **state)
{
	struct drv_load load = {
		.job = { .declared = { 600, 100 } },
		.count = 20000,
		.iter_ns = 10 * MS,
	};
	struct drv_job *a, *b;
	uint64_t swaps, cost_ns;

	(void)state;
	start(&sal_policy_fair, 600);
	a = drv_add(&d, &load);
	b = drv_add(&d, &load);
	drv_run(&d, 1000000);
	swaps = drv_said(&d, SAL_PAGE_OUT, NULL);
	cost_ns = 2 * SEC; /* one out, one in */
	assert_true(swaps >= 4); /* both jobs make progress */
	assert_true(swaps * cost_ns * d.tuning.page_margin <= UINT64_C(80000) * 10 * MS);
	/* Copies take less than a tenth of the time, and both jobs end at about the same time. */
	assert_true(d.now_ns <= 400 * SEC * 11 / 10);
	assert_true(a->end_ns > 300 * SEC && b->end_ns > 300 * SEC);
}

/*
 * Under each of these policies, a waiting session is worth a copy if it is behind by more than ten
 * times the time of the copy.
 */
static void test_each_pages_when_it_pays(void **state)
{
	static const struct sal_policy *const sharing[] = { &sal_policy_fair, &sal_policy_rr,
							    &sal_policy_las };

	(void)state;
	for (size_t p = 0; p < 3; p++) {
		struct drv_job *a, *b;
		uint32_t ran = 0;

		start(sharing[p], 600); /* a copy takes a second */
		a = drv_open(&d, 600, 100);
		drv_submit(&d, a, 600, 100);
		b = drv_open(&d, 600, 100);
		drv_submit(&d, b, 600, 100);
		for (; ran < 50 && drv_runs(a); ran++) {
			drv_submit(&d, a, 600, 100);
			drv_done(&d, a, SEC);
		}
		if (ran != 11 || drv_said(&d, SAL_PAGE_OUT, a) != 1)
			fail_msg("%s: it ran %u times", sharing[p]->name, (unsigned)ran);
		drv_stop(&d);
	}
	drv_start(&d, 1, NULL, NULL); /* for stop() */
}

/* No session is paged out for a request that must wait for its own session's iteration. */
static void test_nobody_pages_for_a_need_that_comes_later(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b, *c;

	(void)state;
	t.idle_ns = 0;
	drv_start(&d, 1000, &sal_policy_pack, &t);
	c = drv_open(&d, 20, 10);
	a = drv_open(&d, 100, 700);
	b = drv_open(&d, 50, 10);
	t.lanes = 1;
	drv_set_tuning(&d, &t);
	run_once(b, MS);
	drv_submit(&d, c, 20, 10);
	drv_submit(&d, a, 100, 700);
	drv_need(&d, a, 400); /* 400 + 700 exceed the device */
	d.now_ns += SEC;
	drv_tick(&d);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
	drv_done(&d, c, MS);
	assert_true(drv_runs(a));
	drv_done(&d, a, MS);
	assert_int_equal(a->s->held_bytes, 400);
	assert_int_equal(a->refusals, 0);
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_srtf_short_job_gets_in_by_paging_out_a_long_one),
		T(test_nobody_is_let_in_before_the_one_room_is_made_for),
		T(test_srtf_does_not_page_for_a_longer_job_or_a_small_gain),
		T(test_priority_pages_out_the_less_important),
		T(test_priority_does_not_page_for_the_second_in_line),
		T(test_victims_that_are_not_needed_are_spared),
		T(test_cost_of_copies),
		T(test_cost_counts_both_ways),
		T(test_idle_session_makes_room_after_a_while),
		T(test_paused_session_makes_room_at_once),
		T(test_nobody_idle_is_disturbed_while_nobody_waits),
		T(test_idle_session_stays_as_long_as_it_cost),
		T(test_forced_does_not_wait_for_idleness),
		T(test_empty_session_leaves_without_a_copy),
		T(test_forced_when_all_residents_wait_for_memory),
		T(test_needs_deadlock_is_broken_too),
		T(test_session_grows_by_shrinking_its_lane),
		T(test_no_paging_refuses_only_as_the_last_resort),
		T(test_no_paging_need_is_refused_too),
		T(test_no_paging_fifo_owner_with_an_open_need),
		T(test_no_thrashing),
		T(test_each_pages_when_it_pays),
		T(test_nobody_pages_for_a_need_that_comes_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
