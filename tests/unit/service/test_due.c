/* SPDX-License-Identifier: Apache-2.0 */
#include "service/timing/due.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#define US UINT64_C(1000)
#define MS (1000 * US)

/* Lengths that are a and b in turn. */
static struct svc_lengths learn(uint64_t a_ns, uint64_t b_ns, uint32_t count)
{
	struct svc_lengths lengths;
	uint32_t i;

	svc_lengths_init(&lengths);
	for (i = 0; i < count; i++)
		svc_lengths_add(&lengths, i % 2 ? a_ns : b_ns);
	return lengths;
}

static bool polls(const struct svc_lengths *lengths, uint64_t after_ns)
{
	struct svc_due due = svc_due(lengths, 7 * MS);

	return 7 * MS + after_ns >= due.from_ns && 7 * MS + after_ns < due.until_ns;
}

static void an_unknown_program_is_not_polled_for(void **state)
{
	struct svc_lengths lengths = learn(5 * MS, 5 * MS, 4); /* these may not be the usual ones */

	(void)state;
	assert_false(polls(&lengths, 0));
	assert_false(polls(&lengths, 5 * MS));
}

static void the_end_of_a_steady_program_is_polled_for(void **state)
{
	struct svc_lengths lengths = learn(5 * MS, 5 * MS, SVC_LENGTHS);

	(void)state;
	assert_false(polls(&lengths, 4 * MS));
	assert_true(polls(&lengths, 5 * MS - 60 * US)); /* there is time to wake up */
	assert_true(polls(&lengths, 5 * MS));
	assert_true(polls(&lengths, 5 * MS + 200 * US));
	assert_false(polls(&lengths, 6 * MS)); /* it takes longer than ever */
}

static void a_program_that_differs_a_little_is_polled_for_longer(void **state)
{
	struct svc_lengths lengths = learn(2 * MS, 2 * MS + 700 * US, SVC_LENGTHS);

	(void)state;
	assert_false(polls(&lengths, MS));
	assert_true(polls(&lengths, 2 * MS));
	assert_true(polls(&lengths, 2 * MS + 700 * US));
	lengths = learn(100 * MS, 110 * MS, SVC_LENGTHS); /* a tenth of a long one */
	assert_true(polls(&lengths, 100 * MS));
	assert_true(polls(&lengths, 110 * MS));
	assert_false(polls(&lengths, 120 * MS));
}

static void odd_lengths_do_not_count(void **state)
{
	struct svc_lengths lengths = learn(5 * MS, 5 * MS, SVC_LENGTHS);

	(void)state;
	svc_lengths_add(&lengths, 900 * MS);
	svc_lengths_add(&lengths, 10 * US);
	assert_false(polls(&lengths, 4 * MS));
	assert_true(polls(&lengths, 5 * MS));
	assert_false(polls(&lengths, 7 * MS));
}

static void a_program_of_all_lengths_is_not_polled_for(void **state)
{
	struct svc_lengths lengths = learn(2 * MS, 8 * MS, SVC_LENGTHS);

	(void)state;
	assert_false(polls(&lengths, 2 * MS));
	assert_false(polls(&lengths, 5 * MS));
	assert_false(polls(&lengths, 8 * MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unknown_program_is_not_polled_for),
		cmocka_unit_test(the_end_of_a_steady_program_is_polled_for),
		cmocka_unit_test(a_program_that_differs_a_little_is_polled_for_longer),
		cmocka_unit_test(odd_lengths_do_not_count),
		cmocka_unit_test(a_program_of_all_lengths_is_not_polled_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
