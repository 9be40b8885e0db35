/* SPDX-License-Identifier: Apache-2.0 */
/* loader: a policy from a file decides the same as the same policy linked into the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "loader/loader.h"
#include "sim/sim.h"

extern const struct sal_policy sal_policy_slice;
extern const struct sal_policy sal_policy_lottery;
extern const struct sal_policy sal_policy_mlfq;

#define JOBS 12
#define MS UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)

/* Jobs of different lengths and sizes, which do not all fit: there are page-outs. */
static struct sim_result run(const struct sal_policy *policy)
{
	struct sim_job jobs[JOBS];
	struct sim_workload workload = { .jobs = jobs, .count = JOBS };
	struct sim_options options = { .capacity_bytes = 1024 * MIB, .keep_records = true };
	struct sim_result result;
	struct sal_err err = { 0 };
	size_t i;

	sal_tuning_default(&options.tuning);
	for (i = 0; i < JOBS; i++)
		jobs[i] = (struct sim_job){
			.name = "job",
			.submit_ns = i * 700 * MS,
			.iterations = 50 + 17 * i,
			.iter_ns = (20 + 3 * i) * MS,
			.last_iter_ns = (20 + 3 * i) * MS,
			.needs = { (50 + 13 * i) * MIB, 200 * MIB },
			.util = 1,
			.weight_milli = 1000 + 100 * (uint32_t)i,
		};
	if (sim_run(&workload, policy, &options, &result, &err) < 0)
		fail_msg("%s", err.text);
	return result;
}

static void check(const struct sal_policy *linked, const char *path)
{
	struct sal_loader loader = { 0 };
	const struct sal_policy *loaded;
	struct sim_result a, b;
	struct sal_err err = { 0 };

	if (sal_loader_load(&loader, path, &loaded, &err) < 0)
		fail_msg("%s", err.text);
	assert_ptr_not_equal(loaded, linked);
	a = run(linked);
	b = run(loaded);
	assert_string_equal(a.policy, b.policy);
	assert_true(a.record_count > 2000);
	assert_int_equal(a.record_count, b.record_count);
	assert_memory_equal(a.records, b.records, a.record_count * sizeof(*a.records));
	sim_result_fini(&a);
	sim_result_fini(&b);
	sal_loader_fini(&loader);
}

static void slice_decides_the_same(void **state)
{
	(void)state;
	check(&sal_policy_slice, SAL_TEST_EXAMPLES "/slice.so");
}

/* Calls sal_lane_first and sal_lane_next. */
static void lottery_decides_the_same(void **state)
{
	(void)state;
	check(&sal_policy_lottery, SAL_TEST_EXAMPLES "/lottery.so");
}

/* Calls sal_policy_reread and sal_policy_wake_after. */
static void mlfq_decides_the_same(void **state)
{
	(void)state;
	check(&sal_policy_mlfq, SAL_TEST_EXAMPLES "/mlfq.so");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slice_decides_the_same),
		cmocka_unit_test(lottery_decides_the_same),
		cmocka_unit_test(mlfq_decides_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
