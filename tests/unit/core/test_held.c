/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held: the bytes that a session holds. It asks for more, gives some back, and its scratch stays
 * reserved.
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

/* A device of 1000 bytes; idle sessions may be paged out at once. */
static void start(const struct sal_policy *policy, uint64_t rate)
{
	struct sal_tuning t = drv_plain_tuning();

	t.idle_ns = 0;
	t.page_bytes_per_s = rate;
	drv_start(&d, 1000, policy, &t);
}

/* a is outside, with 600 bytes and 100 bytes of scratch. No other session is open. */
static struct drv_job *paged_out(void)
{
	struct drv_job *a, *b;

	start(&sal_policy_fair, GIB);
	a = drv_open(&d, 0, 0);
	drv_submit(&d, a, 600, 100);
	drv_done(&d, a, MS);
	d.now_ns += SEC;
	b = drv_open(&d, 600, 100);
	drv_submit(&d, b, 600, 100);
	drv_copied(&d, a);
	drv_done(&d, b, MS);
	drv_close(&d, b);
	assert_int_equal(a->s->place, SAL_OUTSIDE);
	assert_int_equal(a->s->paged_bytes, 600);
	drv_mark(&d);
	return a;
}

/* A session that is outside */

/* The session asks for as many bytes as it has in host memory: no copy, no answer. */
static void test_paged_out_asks_for_what_it_has(void **state)
{
	struct drv_job *a = paged_out();

	(void)state;
	drv_need(&d, a, 600);
	assert_false(a->s->need_open);
	assert_int_equal(a->s->place, SAL_OUTSIDE);
	assert_int_equal(drv_said(&d, SAL_PAGE_IN, NULL) + drv_said(&d, SAL_ADMIT, NULL), 0);
	assert_int_equal(sal_engine_waiting_count(d.engine), 0);
	assert_int_equal(drv_free(&d), 1000);
	/* One more byte causes a page-in. The answer comes when the page-in ends. */
	drv_need(&d, a, 601);
	assert_int_equal(drv_last(&d, SAL_PAGE_IN, a)->value, 600);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 0);
	drv_copied(&d, a);
	assert_int_equal(drv_last(&d, SAL_ADMIT, a)->persist_bytes, 601);
	assert_int_equal(a->s->held_bytes, 601);
}

static void test_paged_out_iteration_of_what_it_has(void **state)
{
	struct drv_job *a = paged_out();

	(void)state;
	drv_submit(&d, a, 600, 100);
	assert_int_equal(drv_last(&d, SAL_PAGE_IN, a)->value, 600);
	assert_int_equal(drv_last(&d, SAL_PAGE_IN, a)->persist_bytes, 600);
	drv_copied(&d, a);
	assert_true(drv_runs(a));
	assert_int_equal(drv_free(&d), 300);
}

/* Bytes that the session frees while outside are not copied back. */
static void test_paged_out_frees_some(void **state)
{
	struct drv_job *a = paged_out();

	(void)state;
	drv_need(&d, a, 200);
	assert_int_equal(a->s->paged_bytes, 200);
	drv_submit(&d, a, 200, 100);
	assert_int_equal(drv_last(&d, SAL_PAGE_IN, a)->value, 200);
	assert_int_equal(drv_last(&d, SAL_PAGE_IN, a)->persist_bytes, 200);
}

/* A session that freed all its bytes needs no copy. */
static void test_paged_out_frees_all(void **state)
{
	struct drv_job *a = paged_out();

	(void)state;
	drv_need(&d, a, 0);
	drv_submit(&d, a, 50, 100);
	assert_int_equal(drv_said(&d, SAL_PAGE_IN, NULL), 0);
	assert_true(drv_runs(a));
	assert_int_equal(a->s->held_bytes, 50);
}

/* Giving back */

/* Freed bytes are available to a waiting session at once. */
static void test_freed_bytes_let_another_in(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair, 0);
	a = drv_open(&d, 0, 0);
	drv_need(&d, a, 700);
	b = drv_open(&d, 400, 100);
	drv_submit(&d, b, 400, 100);
	assert_false(drv_is_in(b));
	drv_need(&d, a, 501); /* one byte short */
	assert_int_equal(a->s->held_bytes, 501);
	assert_false(drv_is_in(b));
	drv_need(&d, a, 500);
	assert_int_equal(a->s->held_bytes, 500);
	assert_true(drv_runs(b));
	assert_int_equal(drv_free(&d), 0);
}

/* Freed bytes are available to a resident session that wants more. */
static void test_freed_bytes_let_another_grow(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair, 0);
	a = drv_open(&d, 0, 0);
	b = drv_open(&d, 0, 0);
	drv_need(&d, a, 700);
	drv_need(&d, b, 200);
	drv_need(&d, b, 600);
	drv_mark(&d);
	drv_need(&d, a, 400);
	assert_int_equal(drv_last(&d, SAL_ADMIT, b)->persist_bytes, 600);
	assert_int_equal(drv_free(&d), 0);
}

/* Only a request for more bytes is answered, and only once. */
static void test_asking_twice_is_answered_once(void **state)
{
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair, 0);
	a = drv_open(&d, 300, 0);
	drv_mark(&d);
	drv_need(&d, a, 300);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 1);
	drv_need(&d, a, 300);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 1);
	drv_need(&d, a, 301);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 2);
}

/* Bytes of the running iteration and declared bytes stay held. */
static void test_what_is_in_use_is_not_given_back(void **state)
{
	struct sal_job job = { .declared = { 100, 0 } };
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair, 0);
	a = drv_open_job(&d, &job);
	drv_submit(&d, a, 500, 50);
	drv_need(&d, a, 20);
	assert_int_equal(a->s->held_bytes, 500);
	drv_done(&d, a, MS);
	drv_need(&d, a, 300);
	assert_int_equal(a->s->held_bytes, 300);
	drv_need(&d, a, 20);
	assert_int_equal(a->s->held_bytes, 100);
	job.declared.persist_bytes = 0;
	drv_declare(&d, a, &job);
	drv_need(&d, a, 20);
	assert_int_equal(a->s->held_bytes, 20);
}

/* grow_bytes are added to the bytes that the session holds when its turn comes. */
static void test_outputs_come_on_top(void **state)
{
	struct sal_iteration it = { .id = 1, .grow_bytes = 200 };
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair, 0);
	a = drv_open(&d, 0, 0);
	drv_need(&d, a, 300);
	sal_engine_submit(d.engine, d.now_ns, a->s, &it);
	assert_true(drv_runs(a));
	assert_int_equal(a->s->held_bytes, 500);
}

/* Scratch */

/* The largest scratch seen stays reserved, even if the next iterations need less. */
static void test_scratch_seen_before_is_reserved(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair, 0);
	a = drv_open(&d, 0, 0);
	drv_submit(&d, a, 100, 400);
	drv_done(&d, a, MS);
	drv_submit(&d, a, 200, 50); /* it grows, and is admitted again */
	assert_int_equal(drv_last(&d, SAL_ADMIT, a)->ephem_bytes, 400);
	assert_int_equal(drv_free(&d), 400);
	drv_done(&d, a, MS);
	/* So b does not get the scratch of a. */
	b = drv_open(&d, 450, 0);
	assert_false(drv_is_in(b));
	drv_submit(&d, a, 200, 400);
	assert_true(drv_runs(a));
}

/* The scratch is reserved again after a page-in. */
static void test_scratch_is_reserved_after_paging(void **state)
{
	struct drv_job *a = paged_out();

	(void)state;
	drv_submit(&d, a, 600, 10);
	assert_int_equal(drv_last(&d, SAL_PAGE_IN, a)->ephem_bytes, 100);
	drv_copied(&d, a);
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->ephem_bytes, 10);
	assert_int_equal(a->s->ephem_bytes, 100);
	assert_int_equal(drv_free(&d), 300);
}

/* Scratch seen before is a hint: it does not count if it leaves no room for the real needs. */
static void test_scratch_seen_before_is_a_hint(void **state)
{
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair, 0);
	a = drv_open(&d, 0, 0);
	drv_submit(&d, a, 100, 800);
	drv_done(&d, a, MS);
	drv_submit(&d, a, 700, 50);
	assert_true(drv_runs(a));
	assert_int_equal(a->s->ephem_bytes, 50);
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_paged_out_asks_for_what_it_has),
		T(test_paged_out_iteration_of_what_it_has),
		T(test_paged_out_frees_some),
		T(test_paged_out_frees_all),
		T(test_freed_bytes_let_another_in),
		T(test_freed_bytes_let_another_grow),
		T(test_asking_twice_is_answered_once),
		T(test_what_is_in_use_is_not_given_back),
		T(test_outputs_come_on_top),
		T(test_scratch_seen_before_is_reserved),
		T(test_scratch_is_reserved_after_paging),
		T(test_scratch_seen_before_is_a_hint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
