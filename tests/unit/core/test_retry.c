/* SPDX-License-Identifier: Apache-2.0 */
/* retry: failed copies. Bytes in use stay counted, and no copy is repeated at once. */
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

/* A device of 1000 bytes; idle sessions may be paged out at once. */
static void start(const struct sal_policy *policy)
{
	struct sal_tuning t = drv_plain_tuning();

	t.idle_ns = 0;
	drv_start(&d, 1000, policy, &t);
}

static struct drv_job *open_priority(uint64_t persist, uint64_t ephem, uint32_t priority)
{
	struct sal_job job = { .declared = { persist, ephem }, .priority = priority };

	return drv_open_job(&d, &job);
}

/* Run one iteration, after which the session holds its declared bytes. */
static void run_once(struct drv_job *j)
{
	drv_submit(&d, j, j->s->job.declared.persist_bytes, j->s->job.declared.ephem_bytes);
	drv_done(&d, j, MS);
}

static void submit(struct drv_job *j)
{
	drv_submit(&d, j, j->s->job.declared.persist_bytes, j->s->job.declared.ephem_bytes);
}

static bool copies(const struct drv_job *j)
{
	return j->copy_ends_ns != DRV_NEVER;
}

/* Page-out */

static void test_page_out_that_failed_leaves_the_session_in(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack);
	a = drv_open(&d, 600, 100);
	run_once(a);
	d.now_ns += SEC;
	b = drv_open(&d, 600, 100);
	submit(b);
	assert_true(copies(a));
	drv_mark(&d);
	drv_copy_failed(&d, a);
	assert_true(drv_is_in(a));
	assert_int_equal(a->s->held_bytes, 600);
	assert_int_equal(a->s->ephem_bytes, 100);
	assert_int_equal(a->s->paged_bytes, 0);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 1);
	assert_int_equal(drv_free(&d), 300);
	/* b waits. a runs as if the page-out had not been tried. */
	assert_false(drv_is_in(b));
	run_once(a);
	assert_int_equal(drv_said(&d, SAL_PAGE_IN, NULL), 0);
	drv_close(&d, a);
	assert_true(drv_runs(b));
}

static void test_failed_victim_is_not_asked_again_at_once(void **state)
{
	static const uint64_t waits_s[] = { 2, 4, 8, 16, 32, 64, 64, 64 };
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack);
	a = drv_open(&d, 600, 100);
	run_once(a);
	d.now_ns += SEC;
	b = drv_open(&d, 600, 100);
	submit(b);
	for (size_t i = 0; i < sizeof(waits_s) / sizeof(waits_s[0]); i++) {
		assert_true(copies(a));
		drv_copy_failed(&d, a);
		drv_pass(&d, waits_s[i] * SEC - 1);
		drv_tick(&d);
		assert_false(copies(a));
		drv_pass(&d, 1); /* the tick that the engine asked for */
	}
	drv_copied(&d, a);
	assert_true(drv_runs(b));
	/* A successful copy resets the count of failures. */
	drv_done(&d, b, MS);
	drv_close(&d, b);
	submit(a);
	drv_copied(&d, a);
	drv_done(&d, a, MS);
	d.now_ns += SEC;
	b = drv_open(&d, 600, 100);
	submit(b);
	drv_copy_failed(&d, a);
	drv_pass(&d, 2 * SEC);
	assert_true(copies(a));
}

static void test_another_victim_is_asked_instead(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack);
	a = drv_open(&d, 400, 50);
	b = drv_open(&d, 400, 50);
	run_once(a);
	run_once(b);
	d.now_ns += SEC;
	c = drv_open(&d, 400, 50);
	submit(c);
	assert_true(copies(a)); /* longest idle */
	assert_false(copies(b));
	drv_copy_failed(&d, a);
	assert_true(copies(b));
	assert_false(copies(a));
	drv_copied(&d, b);
	assert_true(drv_runs(c));
	assert_true(drv_is_in(a));
}

/* A plan has two victims and one page-out fails. The other victim, which still runs, stays. */
static void test_others_of_the_plan_are_spared(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_priority);
	a = open_priority(300, 50, 5);
	b = open_priority(300, 50, 4);
	run_once(a);
	submit(b);
	c = open_priority(800, 50, 0);
	submit(c);
	assert_true(copies(a));
	assert_true(b->s->evicting);
	drv_copy_failed(&d, a);
	assert_false(b->s->evicting);
	drv_done(&d, b, MS);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, b), 0);
	assert_true(drv_is_in(b));
	/* The engine tries again, with both victims. */
	drv_pass(&d, 2 * SEC);
	assert_true(copies(a) && copies(b));
	drv_copied(&d, a);
	drv_copied(&d, b);
	assert_true(drv_runs(c));
}

/*
 * Both copies of a plan are under way and one fails. The other session stays out, and a new plan
 * uses its room.
 */
static void test_half_of_a_plan_works(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack);
	a = drv_open(&d, 300, 50);
	b = drv_open(&d, 300, 50);
	run_once(a);
	run_once(b);
	d.now_ns += SEC;
	c = drv_open(&d, 800, 50);
	submit(c);
	assert_true(copies(a) && copies(b));
	drv_copy_failed(&d, a);
	assert_false(copies(a));
	drv_copied(&d, b);
	assert_false(drv_is_in(c));
	drv_pass(&d, 2 * SEC);
	assert_true(copies(a));
	drv_copied(&d, a);
	assert_true(drv_runs(c));
}

/* Another session took its scratch: a stays resident without scratch until there is room. */
static void test_scratch_that_was_given_away(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b, *c;

	(void)state;
	t.idle_ns = 0;
	t.lanes = 2;
	drv_start(&d, 1000, &sal_policy_pack, &t);
	a = drv_open(&d, 400, 300);
	b = drv_open(&d, 100, 100);
	run_once(a);
	submit(b);
	d.now_ns += SEC;
	c = drv_open(&d, 500, 100);
	submit(c);
	assert_true(copies(a));
	drv_done(&d, b, MS);
	drv_submit(&d, b, 400, 150); /* b grows into the scratch of a */
	assert_true(drv_runs(b));
	drv_copy_failed(&d, a);
	assert_true(drv_is_in(a));
	assert_int_equal(a->s->held_bytes, 400);
	assert_int_equal(a->s->ephem_bytes, 0);
	submit(a);
	assert_false(drv_runs(a));
	drv_close(&d, c);
	drv_close(&d, b);
	drv_done(&d, b, MS);
	assert_true(drv_runs(a));
	assert_int_equal(a->s->ephem_bytes, 300);
}

/* Bytes that the session frees during the failed copy are given back. */
static void test_freed_while_its_page_out_fails(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack);
	a = drv_open(&d, 0, 0);
	drv_submit(&d, a, 600, 100);
	drv_done(&d, a, MS);
	d.now_ns += SEC;
	b = drv_open(&d, 600, 100);
	submit(b);
	drv_need(&d, a, 200);
	assert_int_equal(a->s->held_bytes, 600); /* the copy is under way */
	drv_copy_failed(&d, a);
	assert_int_equal(a->s->held_bytes, 200);
	assert_true(drv_runs(b));
}

/* A request that came during the copy stays open: the failure does not answer it. */
static void test_need_while_its_page_out_fails(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack);
	c = drv_open(&d, 200, 100);
	submit(c);
	a = drv_open(&d, 500, 100);
	run_once(a);
	d.now_ns += SEC;
	b = drv_open(&d, 500, 100);
	submit(b);
	assert_true(copies(a));
	drv_need(&d, a, 750);
	drv_mark(&d);
	drv_copy_failed(&d, a);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 0);
	assert_true(a->s->need_open);
	drv_close(&d, c);
	drv_done(&d, c, MS);
	assert_int_equal(drv_last(&d, SAL_ADMIT, a)->persist_bytes, 750);
}

/* The claimant closes: its victims stay. */
static void test_claimant_leaves(void **state)
{
	struct drv_job *b, *c;

	(void)state;
	start(&sal_policy_priority);
	b = open_priority(600, 50, 4);
	submit(b);
	c = open_priority(800, 50, 0);
	submit(c);
	assert_true(b->s->evicting);
	drv_close(&d, c);
	assert_false(b->s->evicting);
	drv_done(&d, b, MS);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
}

static void test_closed_while_its_page_out_fails(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack);
	a = drv_open(&d, 600, 100);
	run_once(a);
	d.now_ns += SEC;
	b = drv_open(&d, 600, 100);
	submit(b);
	drv_close(&d, a);
	assert_false(drv_runs(b));
	drv_copy_failed(&d, a);
	assert_null(a->s);
	assert_true(drv_runs(b));
}

/*
 * All resident sessions want more memory and no page-out succeeds. After four failures in a row the
 * engine refuses the last session in the order.
 */
static void test_deadlock_is_told_after_several_tries(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack);
	a = drv_open(&d, 0, 0);
	b = drv_open(&d, 0, 0);
	drv_submit(&d, a, 400, 50);
	drv_submit(&d, b, 400, 50);
	drv_done(&d, a, MS);
	drv_done(&d, b, MS);
	drv_submit(&d, a, 600, 50);
	drv_submit(&d, b, 600, 50);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(a->refusals + b->refusals, 0);
		assert_true(copies(b));
		drv_copy_failed(&d, b);
		if (i < 3)
			drv_pass(&d, d.wake_ns - d.now_ns);
	}
	assert_int_equal(drv_last(&d, SAL_REFUSE, NULL)->reason, SAL_REFUSE_PAGE_OUT);
	assert_int_equal(drv_last(&d, SAL_REFUSE, NULL)->session, b->id);
	assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 1);
	/* b closes, and a goes on. */
	drv_close(&d, b);
	assert_true(drv_runs(a));
}

/* Page-in */

/* a is outside with 600 bytes. The device is empty. */
static struct drv_job *paged_out(const struct sal_policy *policy)
{
	struct drv_job *a, *b;

	start(policy);
	a = drv_open(&d, 600, 100);
	run_once(a);
	d.now_ns += SEC;
	b = drv_open(&d, 600, 100);
	submit(b);
	drv_copied(&d, a);
	drv_done(&d, b, MS);
	drv_close(&d, b);
	assert_int_equal(a->s->place, SAL_OUTSIDE);
	drv_mark(&d);
	return a;
}

static void test_page_in_that_failed_gives_its_room_back(void **state)
{
	struct drv_job *a = paged_out(&sal_policy_pack), *b;

	(void)state;
	submit(a);
	assert_true(copies(a));
	b = drv_open(&d, 800, 100);
	submit(b);
	assert_false(drv_is_in(b));
	drv_copy_failed(&d, a);
	assert_int_equal(a->s->place, SAL_OUTSIDE);
	assert_int_equal(a->s->paged_bytes, 600);
	assert_int_equal(a->s->held_bytes, 0);
	assert_true(drv_runs(b)); /* a resting session blocks no other session */
	drv_done(&d, b, MS);
	drv_close(&d, b);
	assert_false(copies(a));
	drv_pass(&d, SEC);
	assert_true(copies(a));
	drv_copied(&d, a);
	assert_true(drv_runs(a));
}

static void test_page_in_is_tried_four_times(void **state)
{
	static const uint64_t waits_s[] = { 1, 2, 4 };
	struct drv_job *a = paged_out(&sal_policy_fair);
	const struct sal_record *r;

	(void)state;
	submit(a);
	submit(a);
	for (size_t i = 0; i < 3; i++) {
		assert_true(copies(a));
		drv_copy_failed(&d, a);
		assert_int_equal(a->refusals, 0);
		drv_pass(&d, waits_s[i] * SEC - 1);
		drv_tick(&d);
		assert_false(copies(a));
		drv_pass(&d, 1);
	}
	drv_copy_failed(&d, a);
	assert_int_equal(a->refusals, 2);
	r = drv_last(&d, SAL_REFUSE, a);
	assert_int_equal(r->reason, SAL_REFUSE_PAGE_IN);
	assert_int_equal(r->iteration, 3);
	assert_int_equal(r->persist_bytes, 600);
	drv_pass(&d, 100 * SEC);
	assert_false(copies(a)); /* a has no work */
	/* New work causes a new try. Now one failure is enough for a refusal. */
	submit(a);
	assert_true(copies(a));
	drv_copy_failed(&d, a);
	assert_int_equal(a->refusals, 3);
	submit(a);
	drv_pass(&d, 8 * SEC - 1);
	drv_tick(&d);
	assert_false(copies(a));
	drv_pass(&d, 1);
	drv_copied(&d, a);
	assert_true(drv_runs(a));
	assert_int_equal(a->s->held_bytes, 600);
}

/* A failed page-in leaves the request open. The next successful page-in answers it. */
static void test_need_is_not_forgotten(void **state)
{
	struct drv_job *a = paged_out(&sal_policy_fair);

	(void)state;
	drv_need(&d, a, 700);
	assert_true(copies(a));
	drv_copy_failed(&d, a);
	assert_true(a->s->need_open);
	assert_int_equal(a->s->paged_bytes, 600);
	drv_pass(&d, SEC);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 0);
	drv_copied(&d, a);
	assert_int_equal(drv_last(&d, SAL_ADMIT, a)->persist_bytes, 700);
	assert_int_equal(a->s->tracked_bytes, 700);
}

/* The session lowers its request. The lower request stays open if it exceeds paged_bytes. */
static void test_need_is_lowered_meanwhile(void **state)
{
	struct drv_job *a = paged_out(&sal_policy_fair);

	(void)state;
	a->s->job.declared.persist_bytes = 0;
	drv_need(&d, a, 700);
	drv_need(&d, a, 650);
	drv_copy_failed(&d, a);
	assert_true(a->s->need_open);
	assert_int_equal(a->s->asked_bytes, 650);
	drv_pass(&d, SEC);
	drv_need(&d, a, 500);
	drv_copy_failed(&d, a);
	assert_false(a->s->need_open);
	assert_int_equal(a->s->tracked_bytes, 500);
	assert_int_equal(a->s->paged_bytes, 500);
	drv_pass(&d, 100 * SEC);
	assert_false(copies(a));
}

static void test_need_is_refused_in_the_end(void **state)
{
	struct drv_job *a = paged_out(&sal_policy_fair);

	(void)state;
	drv_need(&d, a, 700);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(drv_said(&d, SAL_REFUSE, a), 0);
		drv_copy_failed(&d, a);
		drv_pass(&d, i < 3 ? UINT64_C(8) * SEC : 0);
	}
	assert_int_equal(drv_last(&d, SAL_REFUSE, a)->reason, SAL_REFUSE_PAGE_IN);
	assert_int_equal(drv_last(&d, SAL_REFUSE, a)->persist_bytes, 700);
	assert_int_equal(drv_last(&d, SAL_REFUSE, a)->iteration, 0);
	assert_false(a->s->need_open);
	assert_int_equal(a->s->tracked_bytes, 600);
}

static void test_closed_while_it_rests_or_its_page_in_fails(void **state)
{
	struct drv_job *a = paged_out(&sal_policy_fair);

	(void)state;
	submit(a);
	drv_close(&d, a);
	drv_copy_failed(&d, a);
	assert_null(a->s);
	assert_int_equal(drv_free(&d), 1000);
	drv_stop(&d);
	a = paged_out(&sal_policy_fair);
	submit(a);
	drv_copy_failed(&d, a);
	drv_close(&d, a);
	assert_null(a->s);
	drv_pass(&d, 10 * SEC);
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_page_out_that_failed_leaves_the_session_in),
		T(test_failed_victim_is_not_asked_again_at_once),
		T(test_another_victim_is_asked_instead),
		T(test_others_of_the_plan_are_spared),
		T(test_half_of_a_plan_works),
		T(test_scratch_that_was_given_away),
		T(test_freed_while_its_page_out_fails),
		T(test_need_while_its_page_out_fails),
		T(test_claimant_leaves),
		T(test_closed_while_its_page_out_fails),
		T(test_deadlock_is_told_after_several_tries),
		T(test_page_in_that_failed_gives_its_room_back),
		T(test_page_in_is_tried_four_times),
		T(test_need_is_not_forgotten),
		T(test_need_is_lowered_meanwhile),
		T(test_need_is_refused_in_the_end),
		T(test_closed_while_it_rests_or_its_page_in_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
