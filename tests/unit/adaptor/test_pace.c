/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/daemon/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

static void a_client_far_ahead_naps_as_long_as_it_may(void **state)
{
	struct adp_pace pace = { 0 };

	(void)state;
	assert_int_equal(adp_pace_nap_ns(&pace, 5 * MS, 100, 20), 5 * MS);
	assert_int_equal(adp_pace_nap_ns(&pace, 0, 100, 20), 0);
	assert_int_equal(adp_pace_nap_ns(&pace, 5 * MS, 100, 3), 0); /* not far */
	assert_int_equal(adp_pace_nap_ns(&pace, 5 * MS, 100, 0), 0);
	assert_true(adp_pace_nap_ns(&pace, UINT64_MAX, 100, 20) <=
		    10 * MS); /* a daemon that lies */
}

static void it_does_not_oversleep_what_a_thread_waits_for(void **state)
{
	struct adp_pace pace = { 0 };

	(void)state;
	assert_false(adp_pace_want(&pace, 110, 100));
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 100, 20), 4 * MS);
	assert_true(adp_pace_want(&pace, 102, 100));
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 100, 20), 0);
	assert_false(adp_pace_want(&pace, 119, 100)); /* another thread: the nearer one counts */
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 100, 20), 0);
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 102, 20), 8 * MS); /* it has come */
	assert_true(adp_pace_want(&pace, 90, 102)); /* its request is older than the count says */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_far_ahead_naps_as_long_as_it_may),
		cmocka_unit_test(it_does_not_oversleep_what_a_thread_waits_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
