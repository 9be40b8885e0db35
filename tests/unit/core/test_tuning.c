/* SPDX-License-Identifier: Apache-2.0 */
/* tuning: names and ranges of knobs and parameters, and how the engine applies a change. */
#include "core/tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "core/policy.h"
#include "support/driver.h"

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

/* The parameter `down` sets the order: oldest first (0) or youngest first. */
struct order_state {
	uint64_t down, other;
};

static struct sal_rank order_rank(const void *state, const struct sal_session *s)
{
	return (struct sal_rank){
		.minor = ((const struct order_state *)state)->down ? 1000 - s->id : s->id,
	};
}

static void order_set(void *state, uint32_t param, uint64_t value)
{
	struct order_state *order = state;

	*(param == 1 ? &order->down : &order->other) = value;
}

static const struct sal_param order_params[] = {
	{ "other", "a time that nobody reads", SAL_UNIT_TIME, 5, 1, 1000 },
	{ "down", "the youngest first", SAL_UNIT_COUNT, 0, 0, 1 },
	{ 0 },
};

static const struct sal_policy order_policy = {
	.name = "order",
	.state_size = sizeof(struct order_state),
	.lanes = 1,
	.params = order_params,
	.rank = order_rank,
	.set = order_set,
};

static void test_every_knob_can_be_set(void **state)
{
	struct sal_tuning standard, t;

	(void)state;
	drv_start(&d, 1, NULL, NULL);
	sal_tuning_default(&standard);
	for (uint32_t i = 0; sal_knobs[i].name; i++) {
		char pair[64], value[SAL_UNITS_TEXT];
		struct sal_change change;

		assert_true(strlen(sal_knobs[i].name) < SAL_PARAM_NAME_BYTES);
		assert_int_equal(sal_knob_get(&standard, i), sal_knobs[i].standard);
		assert_in_range(sal_knobs[i].standard, sal_knobs[i].min, sal_knobs[i].max);
		(void)snprintf(pair, sizeof(pair), "%s=%s", sal_knobs[i].name,
			       sal_param_format(&sal_knobs[i], sal_knobs[i].max, value,
						sizeof(value)));
		assert_int_equal(sal_change_parse(&order_policy, pair, &change, NULL), SAL_OK);
		assert_true(change.is_knob);
		assert_int_equal(change.index, i);
		assert_int_equal(change.value, sal_knobs[i].max);
		t = standard;
		sal_knob_set(&t, i, change.value);
		for (uint32_t k = 0; sal_knobs[k].name; k++)
			assert_int_equal(sal_knob_get(&t, k),
					 k == i ? sal_knobs[k].max : sal_knobs[k].standard);
	}
}

static void test_what_cannot_be_is_refused_with_a_sentence(void **state)
{
	static const struct {
		const char *pair;
		int rc;
		const char *says;
	} bad[] = {
		{ "down", -SAL_INVALID_ARGUMENT, "NAME=VALUE" },
		{ "up=1", -SAL_NOT_FOUND, "other, down, page_margin" },
		{ "=1", -SAL_NOT_FOUND, "other, down" },
		{ "down=", -SAL_INVALID_ARGUMENT, "down" },
		{ "down=1.5", -SAL_INVALID_ARGUMENT, "whole number" },
		{ "down=-1", -SAL_INVALID_ARGUMENT, "whole number" },
		{ "down=99999999999999999999", -SAL_INVALID_ARGUMENT, "whole number" },
		{ "down=2", -SAL_OUT_OF_RANGE, "0 to 1" },
		{ "other=0ns", -SAL_OUT_OF_RANGE, "1ns to 1us" },
		{ "other=2us", -SAL_OUT_OF_RANGE, "1ns to 1us" },
		{ "other=soon", -SAL_INVALID_ARGUMENT, "other" },
		{ "short=2s", -SAL_OUT_OF_RANGE, "short is 2s" },
	};

	(void)state;
	drv_start(&d, 1, NULL, NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct sal_err err = { 0 };
		struct sal_change change;

		assert_int_equal(sal_change_parse(&order_policy, bad[i].pair, &change, &err),
				 bad[i].rc);
		if (!strstr(err.text, bad[i].says))
			fail_msg("%s: %s", bad[i].pair, err.text);
	}
}

static void apply(const char *pair)
{
	struct sal_change change;
	struct sal_err err = { 0 };

	if (sal_change_parse(sal_engine_policy(d.engine), pair, &change, &err) < 0)
		fail_msg("%s", err.text);
	sal_engine_change(d.engine, d.now_ns, &change);
	assert_true(sal_engine_check(d.engine, &err));
}

static void test_a_parameter_rules_at_once(void **state)
{
	struct drv_job *j[3];

	(void)state;
	drv_start(&d, 1000, &order_policy, NULL);
	assert_int_equal(sal_engine_param(d.engine, 0), 5);
	for (int i = 0; i < 3; i++)
		j[i] = drv_open(&d, 10, 10);
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++)
			drv_submit(&d, j[i], 10, 10);
	drv_done(&d, j[0], MS);
	assert_true(drv_runs(j[0]));
	apply("down=1");
	drv_done(&d, j[0], MS);
	assert_true(drv_runs(j[2]));
	assert_int_equal(sal_engine_param(d.engine, 1), 1);
	/* After a policy is chosen again, its parameters have their defaults. */
	drv_set_policy(&d, &order_policy);
	assert_int_equal(sal_engine_param(d.engine, 1), 0);
	drv_done(&d, j[2], MS);
	assert_true(drv_runs(j[0]));
}

static void test_a_knob_rules_at_once(void **state)
{
	(void)state;
	drv_start(&d, 1000, &order_policy, NULL);
	apply("guess=7s");
	apply("page_margin=3");
	assert_int_equal(sal_engine_tuning(d.engine)->guess_ns, 7 * SEC);
	assert_int_equal(sal_engine_tuning(d.engine)->page_margin, 3);
	drv_set_policy(&d, &sal_policy_fair);
	assert_int_equal(sal_engine_tuning(d.engine)->page_margin, 3);
}

static struct sal_record heard;

static void hear(void *ctx, const struct sal_record *r, struct sal_session *s,
		 struct sal_iteration *it)
{
	(void)ctx;
	if (r->what != SAL_SET_PARAM)
		return;
	assert_null(s);
	assert_null(it);
	heard = *r;
}

static void test_a_change_is_an_event(void **state)
{
	(void)state;
	drv_start(&d, 1000, &order_policy, NULL);
	d.tap = hear;
	apply("other=9ns");
	assert_int_equal(heard.iteration, 0);
	assert_int_equal(heard.value, 9);
	apply("down=1");
	assert_int_equal(heard.iteration, 1);
	assert_int_equal(heard.value, 1);
	heard.what = 0;
	sal_engine_set_param(d.engine, d.now_ns, 2, 1); /* the policy has no third parameter */
	assert_int_equal(heard.what, 0);
}

static void test_params_need_an_op(void **state)
{
	struct sal_policy deaf = order_policy;
	struct sal_err err = { 0 };

	(void)state;
	deaf.set = NULL;
	drv_start(&d, 1000, &order_policy, NULL);
	assert_int_equal(sal_engine_set_policy(d.engine, d.now_ns, &deaf, &err),
			 -SAL_INVALID_ARGUMENT);
	assert_non_null(strstr(err.text, "no set"));
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_every_knob_can_be_set),
		T(test_what_cannot_be_is_refused_with_a_sentence),
		T(test_a_parameter_rules_at_once),
		T(test_a_knob_rules_at_once),
		T(test_a_change_is_an_event),
		T(test_params_need_an_op),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
