/* SPDX-License-Identifier: Apache-2.0 */
#include "service/timing/nap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "link/holding.h"

#define MS UINT64_C(1000000)

static uint64_t published_after(uint32_t queued_count, uint64_t queued_ns, uint64_t last_ns)
{
	struct sal_holding holding = { .nap_ns = 1 };

	svc_nap_publish(NULL, queued_count, queued_ns, last_ns);
	svc_nap_publish(&holding, queued_count, queued_ns, last_ns);
	return holding.nap_ns;
}

static uint64_t published(uint32_t queued_count, uint64_t queued_ns)
{
	return published_after(queued_count, queued_ns, UINT64_MAX);
}

static void half_of_what_waits_may_run(void **state)
{
	(void)state;
	assert_int_equal(published(10, 6 * MS), 3 * MS);
	assert_int_equal(published(10, 0), 0); /* nobody knows how long they take */
	assert_true(published(4000, 4000 * MS) <= 10 * MS);
}

static void with_few_the_client_hears_of_each(void **state)
{
	(void)state;
	assert_int_equal(published(0, 0), 0);
	assert_int_equal(published(3, 6 * MS), 0);
	assert_true(published(4, 6 * MS) > 0);
}

/* The first run takes long, or others ran beside it: those that came then are expected to be as long. */
static void iterations_become_shorter(void **state)
{
	(void)state;
	assert_int_equal(published_after(10, 2000 * MS, 1 * MS), 5 * MS);
	assert_int_equal(published_after(10, 6 * MS, 100 * MS), 3 * MS);
	assert_int_equal(published_after(10, 6 * MS, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_of_what_waits_may_run),
		cmocka_unit_test(with_few_the_client_hears_of_each),
		cmocka_unit_test(iterations_become_shorter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
