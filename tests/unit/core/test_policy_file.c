/* SPDX-License-Identifier: Apache-2.0 */
/* policy/file: which policies of shared objects are accepted, and the sentences about the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/policy/file.h"

static struct sal_rank by_age(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = s->id };
}

static void take(void *state, uint32_t param, uint64_t value)
{
	(void)state;
	(void)param;
	(void)value;
}

static const struct sal_param params[SAL_PARAMS_MAX + 2] = {
	{ "one", "a number", SAL_UNIT_COUNT, 1, 0, 10 },
	{ "two", "a time", SAL_UNIT_TIME, 5, 5, 5 },
	{ 0 },
};

static struct sal_policy policy;
static struct sal_policy_file file;
static struct sal_param own[SAL_PARAMS_MAX + 2];

static const struct sal_policy offered = { .name = "offered", .idea = "by age", .rank = by_age };
SAL_POLICY_FILE(offered);

static int start(void **state)
{
	(void)state;
	memcpy(own, params, sizeof(own));
	policy = (struct sal_policy){
		.name = "mine", .idea = "by age", .rank = by_age, .set = take, .params = own
	};
	file = sal_policy_file;
	file.policy = &policy;
	return 0;
}

static void expect(int rc, const char *words)
{
	struct sal_err err = { 0 };

	assert_int_equal(sal_policy_file_check(&file, &err), rc);
	if (!strstr(err.text, words))
		fail_msg("\"%s\" has no \"%s\"", err.text, words);
}

static void a_complete_policy_is_accepted(void **state)
{
	(void)state;
	assert_int_equal(sal_policy_file_check(&sal_policy_file, NULL), SAL_OK);
	assert_int_equal(sal_policy_file_check(&file, NULL), SAL_OK);
	policy.params = NULL;
	assert_int_equal(sal_policy_file_check(&file, NULL), SAL_OK);
}

static void another_version_is_refused(void **state)
{
	(void)state;
	file.abi = 77;
	file.session_bytes = 0; /* says nothing in another version */
	expect(-SAL_FAILED_PRECONDITION, "version 77 of policies, expected 3");
}

static void another_layout_is_refused(void **state)
{
	uint32_t *const sizes[] = { &file.policy_bytes, &file.session_bytes, &file.lane_bytes,
				    &file.tuning_bytes };
	static const char *const names[] = { "sal_policy", "sal_session", "sal_lane",
					     "sal_tuning" };
	size_t i;

	for (i = 0; i < 4; i++) {
		(void)start(state);
		*sizes[i] += 8;
		expect(-SAL_FAILED_PRECONDITION, names[i]);
		expect(-SAL_FAILED_PRECONDITION, "build it again");
	}
}

static void names_and_ideas_are_words_for_people(void **state)
{
	static const char *const bad[] = { NULL,  "",	 "Mine", "a b",
					   "a/b", "a=b", "-a",	 "a_name_of_16_byt" };
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		(void)start(state);
		policy.name = bad[i];
		expect(-SAL_INVALID_ARGUMENT, "name must have 1 to 15 of a-z");
	}
	policy.name = "a_name_of_15_by";
	assert_int_equal(sal_policy_file_check(&file, NULL), SAL_OK);
	policy.idea = "two\nlines";
	expect(-SAL_INVALID_ARGUMENT, "one line of ASCII");
	policy.idea = NULL;
	expect(-SAL_INVALID_ARGUMENT, "the idea of policy a_name_of_15_by");
	file.policy = NULL;
	expect(-SAL_INVALID_ARGUMENT, "it names no policy");
}

static void what_the_engine_would_not_take_is_refused(void **state)
{
	policy.rank = NULL;
	expect(-SAL_INVALID_ARGUMENT, "policy mine has no rank");
	(void)start(state);
	policy.set = NULL;
	expect(-SAL_INVALID_ARGUMENT, "policy mine has no set");
	(void)start(state);
	policy.slot_size = SAL_SLOT_BYTES + 1;
	expect(-SAL_INVALID_ARGUMENT, "policy mine wants slots of 65 and 0");
	(void)start(state);
	policy.lane_slot_size = SIZE_MAX;
	expect(-SAL_INVALID_ARGUMENT, "the most are");
	(void)start(state);
	policy.state_size = SAL_STATE_BYTES + 1;
	expect(-SAL_INVALID_ARGUMENT, "a state of 129 bytes");
}

static void no_built_in_policy_is_replaced(void **state)
{
	(void)state;
	policy.name = "fair";
	expect(-SAL_ALREADY_EXISTS, "is called fair");
}

static void parameters_are_complete(void **state)
{
	uint32_t i;

	own[1].name = sal_knobs[0].name;
	expect(-SAL_INVALID_ARGUMENT, "not the name of a knob");
	(void)start(state);
	own[1].about = NULL;
	expect(-SAL_INVALID_ARGUMENT, "parameter two of policy mine must say what it is");
	(void)start(state);
	own[0].standard = 11;
	expect(-SAL_INVALID_ARGUMENT, "outside its range");
	(void)start(state);
	own[0].unit = (enum sal_unit)7;
	expect(-SAL_INVALID_ARGUMENT, "has no unit");
	(void)start(state);
	own[1].name = own[0].name;
	expect(-SAL_INVALID_ARGUMENT, "policy mine has two parameters called one");
	(void)start(state);
	for (i = 0; i <= SAL_PARAMS_MAX; i++)
		own[i] = own[0];
	expect(-SAL_INVALID_ARGUMENT, "more than 4 parameters");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_complete_policy_is_accepted, start),
		cmocka_unit_test_setup(another_version_is_refused, start),
		cmocka_unit_test_setup(another_layout_is_refused, start),
		cmocka_unit_test_setup(names_and_ideas_are_words_for_people, start),
		cmocka_unit_test_setup(what_the_engine_would_not_take_is_refused, start),
		cmocka_unit_test_setup(no_built_in_policy_is_replaced, start),
		cmocka_unit_test_setup(parameters_are_complete, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
