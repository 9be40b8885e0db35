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

/* A thread begins to wait. True: the reader must not nap for so long. */
static bool begin_wait(struct adp_pace *pace, uint64_t number, uint64_t answered)
{
	adp_pace_count(pace, number, 1);
	return adp_pace_want(pace, number, answered);
}

static void it_does_not_oversleep_what_a_thread_waits_for(void **state)
{
	struct adp_pace pace = { 0 };

	(void)state;
	assert_false(begin_wait(&pace, 110, 100));
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 100, 20), 4 * MS);
	assert_true(begin_wait(&pace, 102, 100));
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 100, 20), 0);
	assert_false(begin_wait(&pace, 119, 100)); /* another thread: the nearer one counts */
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 100, 20), 0);
	adp_pace_count(&pace, 102, -1);
	assert_true(begin_wait(&pace, 90, 102)); /* its request is older than the count says */
}

/* A nap that has begun ends early for a thread that waits for one of its answers. */
static void a_wait_shortens_a_nap(void **state)
{
	struct adp_pace pace = { 0 };

	(void)state;
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 100, 20), 8 * MS);
	assert_true(begin_wait(&pace, 110, 100));
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 100, 20), 4 * MS);
	adp_pace_count(&pace, 110, -1);
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 100, 20), 4 * MS);
	assert_false(begin_wait(&pace, 130, 100)); /* after the nap */
}

/* It remembers one answer. If that has come and a thread still waits, it does not know for what. */
static void no_waiting_thread_is_forgotten(void **state)
{
	struct adp_pace pace = { 0 };

	(void)state;
	assert_false(begin_wait(&pace, 150, 100));
	assert_false(begin_wait(&pace, 110, 100));
	adp_pace_count(&pace, 110, -1);
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 110, 60), 0);
	adp_pace_count(&pace, 150, -1);
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 110, 60), 8 * MS);
}

static void an_answer_that_may_come_at_any_time_is_urgent(void **state)
{
	struct adp_pace pace = { 0 };

	(void)state;
	assert_true(begin_wait(&pace, ADP_ANY_TIME, 100));
	assert_false(begin_wait(&pace, 150, 100));
	assert_int_equal(adp_pace_nap_ns(&pace, 8 * MS, 100, 60), 0);
	adp_pace_count(&pace, ADP_ANY_TIME, -1);
	assert_true(adp_pace_nap_ns(&pace, 8 * MS, 100, 60) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_far_ahead_naps_as_long_as_it_may),
		cmocka_unit_test(it_does_not_oversleep_what_a_thread_waits_for),
		cmocka_unit_test(a_wait_shortens_a_nap),
		cmocka_unit_test(no_waiting_thread_is_forgotten),
		cmocka_unit_test(an_answer_that_may_come_at_any_time_is_urgent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
