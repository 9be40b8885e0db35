/* SPDX-License-Identifier: Apache-2.0 */
/* The feedback queue: short jobs pass long ones, and the boost brings the long ones back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"

extern const struct sal_policy sal_policy_mlfq;

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

static struct drv_job *add(uint64_t start_ns, uint64_t count)
{
	struct drv_load load = {
		.job = { .declared = { 10, 10 } },
		.start_ns = start_ns,
		.count = count,
		.iter_ns = 10 * MS,
	};

	return drv_add(&d, &load);
}

static void a_short_job_passes_a_long_one(void **state)
{
	struct drv_job *lengthy, *brief;

	(void)state;
	drv_start(&d, 1000, &sal_policy_mlfq, NULL);
	lengthy = add(0, 0);
	brief = add(SEC + 1, 9); /* less than the first quantum, 100 ms */
	drv_run_until(&d, 2 * SEC);
	assert_int_equal(brief->end_ns, SEC + 100 * MS);
	assert_true(lengthy->done > 180);
}

/* Quanta of 100 ms, 200 ms and so on; then all at the lowest level take turns of 800 ms. */
static void levels_have_longer_turns(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	drv_start(&d, 1000, &sal_policy_mlfq, NULL);
	a = add(0, 0);
	b = add(0, 0);
	drv_run_until(&d, 95 * MS);
	assert_int_equal(b->done, 0);
	drv_run_until(&d, 195 * MS);
	assert_int_equal(a->done, 10);
	drv_run_until(&d, 395 * MS);
	assert_int_equal(a->done, 29); /* 10 and 20, of which one runs */
	assert_int_equal(b->done, 10);
	drv_run_until(&d, 9 * SEC);
	assert_in_range(a->s->used_ns, 4 * SEC, 5 * SEC);
	assert_in_range(b->s->used_ns, 4 * SEC, 5 * SEC);
}

/*
 * Newcomers fill the device, so that a is never served at its level; after 10 s of device time it
 * is.
 */
static void the_boost_ends_starvation(void **state)
{
	struct drv_job *a;
	uint64_t done;

	(void)state;
	drv_start(&d, 1000, &sal_policy_mlfq, NULL);
	a = add(0, 0);
	for (uint64_t i = 0; i < 120; i++)
		(void)add(2 * SEC + i * 90 * MS, 9);
	drv_run_until(&d, 2200 * MS);
	done = a->done;
	drv_run_until(&d, 9900 * MS);
	assert_int_equal(a->done, done);
	drv_run_until(&d, 10500 * MS);
	assert_true(a->done >= done + 10);
	assert_true(a->done <= done + 12); /* one quantum, and it is below the newcomers again */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_short_job_passes_a_long_one, stop),
		cmocka_unit_test_teardown(levels_have_longer_turns, stop),
		cmocka_unit_test_teardown(the_boost_ends_starvation, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
