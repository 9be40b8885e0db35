/* SPDX-License-Identifier: Apache-2.0 */
#include "service/timing/gap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define US UINT64_C(1000)
#define MS (1000 * US)

/* Makes one gap of this length. Returns the time of the next gap. */
static uint64_t pass(struct svc_gap *p, uint64_t now, uint64_t took)
{
	svc_gap_begin(p, now);
	svc_gap_end(p, now + took);
	return now + took + 5 * MS;
}

static uint64_t pass_many(struct svc_gap *p, uint64_t now, uint64_t took, int count)
{
	while (count-- > 0)
		now = pass(p, now, took);
	return now;
}

static enum svc_gap_phase phase_after(struct svc_gap *p, uint64_t now, uint64_t after)
{
	svc_gap_begin(p, now);
	return svc_gap_phase(p, now + after);
}

static void nothing_is_foreseen_at_first(void **state)
{
	struct svc_gap p;
	uint64_t now = MS;

	(void)state;
	svc_gap_init(&p);
	assert_int_equal(svc_gap_phase(&p, now), SVC_GAP_OVER);
	assert_int_equal(phase_after(&p, now, 100 * US), SVC_GAP_OVER);
	now = pass_many(&p, now, 200 * US, 4);
	assert_int_equal(phase_after(&p, now, 200 * US), SVC_GAP_OVER);
}

static void a_rhythm_is_learned(void **state)
{
	struct svc_gap p;
	uint64_t now = MS;

	(void)state;
	svc_gap_init(&p);
	now = pass_many(&p, now, 300 * US, SVC_LENGTHS);
	assert_int_equal(phase_after(&p, now, 50 * US), SVC_GAP_EARLY);
	assert_true(svc_gap_due_ns(&p) > now + 100 * US);
	assert_true(svc_gap_due_ns(&p) < now + 300 * US);
	assert_int_equal(phase_after(&p, now, 290 * US), SVC_GAP_DUE);
	assert_int_equal(phase_after(&p, now, 310 * US), SVC_GAP_DUE);
	assert_int_equal(phase_after(&p, now, 500 * US), SVC_GAP_OVER);
	svc_gap_end(&p, now + 300 * US); /* the device is busy: there is no gap */
	assert_int_equal(svc_gap_phase(&p, now + 300 * US), SVC_GAP_OVER);
}

/* Sometimes a job saves its model, which makes a long gap. */
static void a_few_odd_ones_do_not_count(void **state)
{
	struct svc_gap p;
	uint64_t now = MS;
	int i;

	(void)state;
	svc_gap_init(&p);
	for (i = 0; i < 8; i++) {
		now = pass_many(&p, now, 300 * US, 6);
		now = pass(&p, now, i % 2 ? 2000 * MS : 20 * US);
	}
	assert_int_equal(phase_after(&p, now, 50 * US), SVC_GAP_EARLY);
	assert_int_equal(phase_after(&p, now, 300 * US), SVC_GAP_DUE);
	assert_int_equal(phase_after(&p, now, 500 * US), SVC_GAP_OVER);
}

static void short_ones_are_polled_from_the_start(void **state)
{
	struct svc_gap p;
	uint64_t now = pass_many((svc_gap_init(&p), &p), MS, 15 * US, SVC_LENGTHS);

	(void)state;
	assert_int_equal(phase_after(&p, now, 0), SVC_GAP_DUE);
	assert_int_equal(phase_after(&p, now, 30 * US), SVC_GAP_DUE);
	assert_int_equal(phase_after(&p, now, 200 * US), SVC_GAP_OVER);
}

static void long_ones_are_slept_through(void **state)
{
	struct svc_gap p;
	uint64_t now = pass_many((svc_gap_init(&p), &p), MS, 5 * MS, SVC_LENGTHS);

	(void)state;
	assert_int_equal(phase_after(&p, now, 0), SVC_GAP_OVER);
	assert_int_equal(phase_after(&p, now, 5 * MS), SVC_GAP_OVER);
}

static void those_of_all_lengths_too(void **state)
{
	struct svc_gap p;
	uint64_t now = MS;
	int i;

	(void)state;
	svc_gap_init(&p);
	for (i = 0; i < SVC_LENGTHS; i++)
		now = pass(&p, now, (uint64_t)(i + 1) * 50 * US);
	assert_int_equal(phase_after(&p, now, 300 * US), SVC_GAP_OVER);
}

static void a_new_rhythm_replaces_the_old(void **state)
{
	struct svc_gap p;
	uint64_t now = MS;

	(void)state;
	svc_gap_init(&p);
	now = pass_many(&p, now, 600 * US, 100);
	now = pass_many(&p, now, 100 * US, SVC_LENGTHS);
	assert_int_equal(phase_after(&p, now, 100 * US), SVC_GAP_DUE);
	assert_int_equal(phase_after(&p, now, 600 * US), SVC_GAP_OVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_foreseen_at_first),
		cmocka_unit_test(a_rhythm_is_learned),
		cmocka_unit_test(a_few_odd_ones_do_not_count),
		cmocka_unit_test(short_ones_are_polled_from_the_start),
		cmocka_unit_test(long_ones_are_slept_through),
		cmocka_unit_test(those_of_all_lengths_too),
		cmocka_unit_test(a_new_rhythm_replaces_the_old),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
