/* SPDX-License-Identifier: Apache-2.0 */
/* scratch: what iterations really take is learned, and first runs have a margin. */
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

static void start(const struct sal_policy *policy)
{
	drv_start(&d, 1000, policy, NULL);
}

/* Submits an iteration that holds 100 bytes, needs `ephem` of scratch, of which `margin` is a guess. */
static struct sal_iteration *submit(struct drv_job *j, struct sal_pace *pace, uint64_t ephem,
				    uint64_t margin)
{
	struct sal_iteration *it = &j->its[j->submitted % DRV_DEPTH];

	*it = (struct sal_iteration){ .id = ++j->submitted,
				      .program = 1,
				      .pace = pace,
				      .needs = { 100, ephem },
				      .margin_bytes = margin };
	sal_engine_submit(d.engine, d.now_ns, j->s, it);
	assert_true(sal_engine_check(d.engine, NULL));
	return it;
}

static void took(struct drv_job *j, uint64_t bytes)
{
	struct sal_iteration *it = j->s->running;

	if (!it)
		fail_msg("the session does not run");
	else
		it->took_bytes = bytes;
	drv_done(&d, j, MS);
}

static uint64_t lane_bytes(void)
{
	return sal_engine_memory(d.engine)->lane_sum_bytes;
}

/* The lane grows before the program runs again, also if the next iteration is already queued. */
static void test_larger_than_known(void **state)
{
	struct sal_pace pace = { 0 };
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 0, 0);
	(void)submit(a, &pace, 50, 0);
	(void)submit(a, &pace, 50, 0);
	assert_int_equal(lane_bytes(), 50);
	took(a, 300);
	assert_int_equal(pace.scratch_bytes, 300);
	assert_true(drv_runs(a));
	assert_int_equal(lane_bytes(), 300);
	took(a, 200);
	assert_int_equal(pace.scratch_bytes, 300);
	(void)submit(a, &pace, 50, 0);
	assert_true(drv_runs(a));
	assert_int_equal(a->s->running->needs.ephem_bytes, 300);
	took(a, 200);
	drv_close(&d, a);
}

/* Another session with the same program knows it from its first iteration on. */
static void test_others_know_it(void **state)
{
	struct sal_pace pace = { 0 };
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 0, 0);
	(void)submit(a, &pace, 50, 40);
	took(a, 300);
	drv_close(&d, a);
	b = drv_open(&d, 0, 0);
	(void)submit(b, &pace, 50, 40);
	assert_int_equal(lane_bytes(), 300);
	took(b, 300);
	drv_close(&d, b);
}

/* The first run has a margin. Afterwards the lane is as large as what the run took. */
static void test_margin(void **state)
{
	struct sal_pace pace = { 0 };
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 0, 0);
	(void)submit(a, &pace, 500, 400);
	(void)submit(a, &pace, 500, 400);
	assert_int_equal(lane_bytes(), 500);
	took(a, 150);
	assert_true(drv_runs(a));
	assert_int_equal(lane_bytes(), 150);
	took(a, 150);
	drv_close(&d, a);
}

/* A first run whose margin does not fit beside another session waits for it. */
static void test_margin_beside_others(void **state)
{
	struct sal_pace known = { .scratch_bytes = 300 }, pace = { 0 };
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack);
	a = drv_open(&d, 0, 0);
	(void)submit(a, &known, 300, 0);
	b = drv_open(&d, 0, 0);
	(void)submit(b, &pace, 700, 600);
	assert_true(drv_runs(a));
	assert_false(drv_runs(b));
	took(a, 300);
	assert_true(drv_runs(b));
	took(b, 150);
	drv_close(&d, a);
	drv_close(&d, b);
}

/* Neither a guess nor a little too much is a reason to refuse. What a program states is. */
static void test_larger_than_the_device(void **state)
{
	struct sal_pace pace = { 0 };
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 0, 0);
	(void)submit(a, &pace, 5000, 4950);
	assert_true(drv_runs(a));
	assert_int_equal(a->s->running->needs.ephem_bytes, 900);
	took(a, 1200);
	(void)submit(a, &pace, 50, 0);
	assert_true(drv_runs(a));
	assert_int_equal(a->s->running->needs.ephem_bytes, 900);
	took(a, 1200);
	drv_mark(&d);
	(void)submit(a, &pace, 950, 0);
	assert_int_equal(drv_said(&d, SAL_REFUSE, a), 1);
	drv_close(&d, a);
}

/* A program whose run took far more than the device has is refused from then on, with the numbers. */
static void test_far_larger_than_the_device(void **state)
{
	struct sal_pace pace = { 0 };
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 0, 0);
	b = drv_open(&d, 0, 0);
	(void)submit(a, &pace, 50, 0);
	assert_true(drv_runs(a));
	took(a, 2 * SAL_SCRATCH_TOLERANCE);
	drv_mark(&d);
	(void)submit(a, &pace, 50, 0);
	assert_int_equal(drv_said(&d, SAL_REFUSE, a), 1);
	(void)submit(b, &pace, 50, 0);
	assert_int_equal(drv_said(&d, SAL_REFUSE, b), 1);
	/* Its other programs run. */
	(void)submit(a, &(struct sal_pace){ 0 }, 50, 0);
	assert_true(drv_runs(a));
	took(a, 60);
	drv_close(&d, a);
	drv_close(&d, b);
}

/* Nobody measures: everything is as the program says. */
static void test_unknown(void **state)
{
	struct sal_pace pace = { 0 };
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 0, 0);
	(void)submit(a, &pace, 50, 0);
	took(a, 0);
	assert_int_equal(pace.scratch_bytes, 0);
	assert_int_equal(lane_bytes(), 50);
	drv_close(&d, a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_larger_than_known, stop),
		cmocka_unit_test_teardown(test_others_know_it, stop),
		cmocka_unit_test_teardown(test_margin, stop),
		cmocka_unit_test_teardown(test_margin_beside_others, stop),
		cmocka_unit_test_teardown(test_larger_than_the_device, stop),
		cmocka_unit_test_teardown(test_far_larger_than_the_device, stop),
		cmocka_unit_test_teardown(test_unknown, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
