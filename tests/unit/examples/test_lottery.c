/* SPDX-License-Identifier: Apache-2.0 */
/* The lottery: turns in proportion to weights, in no fixed order, and one draw for one turn. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/driver.h"

extern const struct sal_policy sal_policy_lottery;

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

static struct drv_job *add(uint32_t weight_milli)
{
	struct drv_load load = {
		.job = { .declared = { 10, 10 }, .weight_milli = weight_milli },
		.iter_ns = MS,
	};

	return drv_add(&d, &load);
}

static void turns_follow_weights(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	drv_start(&d, 1000, &sal_policy_lottery, NULL);
	a = add(1000);
	b = add(2000);
	c = add(5000);
	drv_run_until(&d, 8 * SEC);
	assert_in_range(a->done, 900, 1100); /* an eighth of 8000, give or take */
	assert_in_range(b->done, 1850, 2150);
	assert_in_range(c->done, 4850, 5150);
	assert_int_equal(drv_said(&d, SAL_EJECT, NULL), 0);
}

static void order_is_by_chance(void **state)
{
	char order[101];

	(void)state;
	drv_start(&d, 1000, &sal_policy_lottery, NULL);
	(void)add(1000);
	(void)add(1000);
	drv_run_until(&d, 90 * MS);
	(void)drv_grants(&d, order, sizeof(order));
	assert_non_null(strstr(order, "aa"));
	assert_non_null(strstr(order, "bb"));
	assert_non_null(strstr(order, "ab"));
}

/* Who was drawn has the turn, however often the engine asks, and though others come meanwhile. */
static void a_draw_is_remembered(void **state)
{
	struct sal_tuning t = drv_plain_tuning();

	(void)state;
	for (int round = 0; round < 20; round++) {
		struct drv_job *j[8];

		t.anticipate_ns = 5 * MS;
		drv_start(&d, 1000, &sal_policy_lottery, &t);
		for (int i = 0; i < 8; i++)
			j[i] = drv_open(&d, 10, 10);
		drv_submit(&d, j[0], 10, 10);
		drv_done(&d, j[0], MS); /* its turn is reserved: it alone is ready, and drawn */
		for (int i = 1; i < 8; i++)
			drv_submit(&d, j[i], 10, 10);
		for (int i = 1; i < 8; i++)
			assert_false(drv_runs(j[i]));
		drv_submit(&d, j[0], 10, 10);
		assert_true(drv_runs(j[0]));
		drv_stop(&d);
	}
	drv_start(&d, 1, NULL, NULL);
}

/* A short program of another session passes ahead; the draw holds for the turn after it. */
static void short_programs_do_not_use_up_the_draw(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b, *c;

	(void)state;
	t.anticipate_ns = 5 * MS;
	t.short_ns = 50 * US;
	drv_start(&d, 1000, &sal_policy_lottery, &t);
	a = drv_open(&d, 10, 10);
	b = drv_open(&d, 10, 10);
	c = drv_open(&d, 10, 10);
	drv_submit(&d, a, 10, 10);
	drv_done(&d, a, MS);
	drv_submit(&d, c, 10, 10);
	drv_submit_short(&d, b, 10 * US);
	assert_true(drv_runs(b));
	drv_submit(&d, a, 10, 10);
	drv_done(&d, b, 10 * US);
	assert_true(drv_runs(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(turns_follow_weights, stop),
		cmocka_unit_test_teardown(order_is_by_chance, stop),
		cmocka_unit_test_teardown(a_draw_is_remembered, stop),
		cmocka_unit_test_teardown(short_programs_do_not_use_up_the_draw, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
