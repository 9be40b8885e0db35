/* SPDX-License-Identifier: Apache-2.0 */
/* record: every event, decision and reason has a name; the line fits or its length is returned. */
#include "core/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_names(void **state)
{
	(void)state;
	for (int i = SAL_OPEN; i < SAL_WHAT_END; i++) {
		const char *name = sal_what_name((uint16_t)i);

		assert_string_not_equal(name, "unknown");
		for (int k = SAL_OPEN; k < i; k++)
			assert_string_not_equal(name, sal_what_name((uint16_t)k));
	}
	assert_string_equal(sal_what_name(0), "unknown");
	assert_string_equal(sal_what_name(SAL_WHAT_END), "unknown");
	assert_string_equal(sal_what_name(UINT16_MAX), "unknown");
	for (int i = SAL_REFUSE_CAPACITY; i < SAL_REASON_END; i++)
		assert_true(strlen(sal_reason_name((uint16_t)i)) > 0);
	assert_string_equal(sal_reason_name(SAL_REASON_NONE), "");
	assert_string_equal(sal_reason_name(UINT16_MAX), "unknown");
}

static void test_events_and_decisions(void **state)
{
	(void)state;
	for (int i = SAL_OPEN; i < SAL_WHAT_END; i++) {
		struct sal_record r = { .what = (uint16_t)i };

		assert_int_equal(sal_record_is_decision(&r), i >= SAL_ADMIT);
	}
}

static void test_format(void **state)
{
	static const char want[] =
		"12 refuse session=3 iteration=4 lane=-1 persist=5 ephem=6 grow=8 value=7 "
		"reason=2";
	struct sal_record r = {
		.now_ns = 12,
		.session = 3,
		.iteration = 4,
		.persist_bytes = 5,
		.ephem_bytes = 6,
		.grow_bytes = 8,
		.value = 7,
		.what = SAL_REFUSE,
		.lane = SAL_NO_LANE,
		.reason = SAL_REFUSE_LIMIT,
	};
	char text[256], small[10];

	(void)state;
	assert_int_equal(sal_record_format(&r, text, sizeof(text)), strlen(want));
	assert_string_equal(text, want);
	assert_int_equal(sal_record_format(&r, small, sizeof(small)), strlen(want));
	assert_string_equal(small, "12 refuse");
	r.lane = 63;
	r.what = SAL_GRANT;
	(void)sal_record_format(&r, text, sizeof(text));
	assert_non_null(strstr(text, "12 grant session=3 iteration=4 lane=63 "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_events_and_decisions),
		cmocka_unit_test(test_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
