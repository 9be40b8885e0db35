/* SPDX-License-Identifier: Apache-2.0 */
/* The example policy of docs/SCHEDULING.md does what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/sim.h"

extern const struct sal_policy sal_policy_slice;

#define JOBS 3
#define ITER_NS UINT64_C(100000000)
#define MIB (UINT64_C(1) << 20)

static struct sim_result run_three(const struct sal_policy *policy, uint64_t capacity_bytes)
{
	struct sim_job jobs[JOBS];
	struct sim_workload workload = { .jobs = jobs, .count = JOBS };
	struct sim_options options = { .capacity_bytes = capacity_bytes, .check = true };
	struct sim_result result;
	struct sal_err err = { 0 };
	size_t i;

	sal_tuning_default(&options.tuning);
	for (i = 0; i < JOBS; i++)
		jobs[i] = (struct sim_job){
			.name = "job",
			.iterations = 100,
			.iter_ns = ITER_NS,
			.last_iter_ns = ITER_NS,
			.needs = { 100 * MIB, 300 * MIB },
			.util = 1,
			.weight_milli = 1000,
		};
	if (sim_run(&workload, policy, &options, &result, &err) < 0)
		fail_msg("%s", err.text);
	return result;
}

static void takes_turns_of_a_second(void **state)
{
	struct sim_result result = run_three(&sal_policy_slice, 1024 * MIB);

	(void)state;
	/* 3 jobs of 10 s in turns of 1 s: 30 turns, so 29 switches; the first ends in round 10. */
	assert_int_equal(result.switches, 29);
	assert_int_equal(result.jobs[0].end_ns, 28 * UINT64_C(1000000000));
	assert_int_equal(result.jobs[2].end_ns, 30 * UINT64_C(1000000000));
	sim_result_fini(&result);
}

static void swaps_when_not_all_fit(void **state)
{
	struct sim_result result = run_three(&sal_policy_slice, 500 * MIB);

	(void)state;
	assert_true(result.page_outs > 0);
	assert_int_equal(result.refused, 0);
	assert_true(result.jobs[2].start_ns < 4 * UINT64_C(1000000000));
	sim_result_fini(&result);
}

static void differs_from_fair_and_fifo(void **state)
{
	struct sim_result fair = run_three(&sal_policy_fair, 1024 * MIB);
	struct sim_result fifo = run_three(&sal_policy_fifo, 1024 * MIB);

	(void)state;
	assert_int_equal(fair.switches, 299);
	assert_int_equal(fifo.switches, 2);
	sim_result_fini(&fair);
	sim_result_fini(&fifo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_turns_of_a_second),
		cmocka_unit_test(swaps_when_not_all_fit),
		cmocka_unit_test(differs_from_fair_and_fifo),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
