/* SPDX-License-Identifier: Apache-2.0 */
/* pay: with --lanes auto, sessions run side by side if that pays; what they are charged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"

static struct drv d;
static struct sal_pace paces[4];

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

static void start(const struct sal_policy *policy, uint32_t tiers)
{
	struct sal_tuning t = drv_plain_tuning();

	t.lanes = SAL_LANES_AUTO;
	t.tiers = tiers;
	t.move_ns = 500 * MS;
	t.slow_percent = 10;
	for (size_t i = 0; i < 4; i++)
		paces[i] = (struct sal_pace){ 0 };
	drv_start(&d, 1000, policy, &t);
}

/* A program that takes 10 ms alone and fills so many thousandths of the device. */
static void know(uint32_t program, uint32_t util_milli)
{
	paces[program] = (struct sal_pace){
		.alone_ns = 10 * MS, .runs = 10, .alone_runs = 10, .util_milli = util_milli
	};
}

static struct drv_job *open_job(uint64_t total_ns)
{
	struct sal_job job = { .declared = { 10, 100 }, .total_ns = total_ns };

	return drv_open_job(&d, &job);
}

static void submit(struct drv_job *j, uint32_t program)
{
	drv_submit_program(&d, j, program + 1, &paces[program], 10 * MS);
}

/* The iteration of j ends now, after some device time. */
static void end_now(struct drv_job *j, uint64_t used_ns)
{
	d.now_ns -= used_ns;
	drv_done(&d, j, used_ns);
}

static void test_halves_run_side_by_side(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_las, 0);
	know(0, 500);
	a = open_job(0);
	b = open_job(0);
	submit(a, 0);
	assert_int_equal(drv_lanes(&d), 1);
	submit(b, 0);
	assert_true(drv_runs(a) && drv_runs(b));
	assert_int_equal(drv_lanes(&d), 2);
}

static void test_full_ones_take_turns(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_las, 0);
	know(0, 980);
	a = open_job(0);
	b = open_job(0);
	submit(a, 0);
	submit(b, 0);
	assert_true(drv_runs(a));
	assert_false(drv_runs(b));
	assert_int_equal(drv_lanes(&d), 1);
	drv_done(&d, a, 10 * MS);
	assert_true(drv_runs(b));
}

/* A third one that fills little runs although the second does not. */
static void test_one_that_pays_passes_one_that_does_not(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack, 0);
	know(0, 1000);
	know(1, 100);
	a = open_job(0);
	b = open_job(0);
	c = open_job(0);
	submit(a, 0);
	submit(b, 0);
	submit(c, 1);
	assert_true(drv_runs(a) && drv_runs(c));
	assert_false(drv_runs(b));
}

/* Behind a first in rank that fills the device, nothing is left. */
static void test_tier_one_has_what_is_left(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_srtf, 1);
	know(0, 1000);
	know(1, 400);
	a = open_job(SEC);
	b = open_job(20 * SEC);
	submit(a, 0);
	submit(b, 1);
	assert_false(drv_runs(b));
	drv_done(&d, a, 10 * MS);
	assert_true(drv_runs(b)); /* alone */
	submit(a, 1);
	assert_true(drv_runs(a) && drv_runs(b));
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->value, 0);
}

static void test_the_first_in_rank_has_tier_zero(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_srtf, 1);
	know(0, 700);
	a = open_job(20 * SEC);
	b = open_job(SEC);
	submit(a, 0);
	submit(b, 0);
	drv_done(&d, a, 10 * MS);
	submit(a, 0);
	assert_int_equal(drv_last(&d, SAL_GRANT, b)->value, 0);
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->value, 1);
}

/* The tier of the second just after the first has become long. */
static uint64_t tier_of_the_next_first(uint32_t tiers)
{
	struct sal_job longer = { .declared = { 10, 100 }, .total_ns = 100 * SEC };
	struct drv_job *a, *b;
	uint64_t tier;

	start(&sal_policy_srtf, tiers);
	drv_pass(&d, SEC);
	know(0, 700);
	a = open_job(20 * SEC);
	b = open_job(SEC);
	submit(a, 0);
	submit(b, 0);
	drv_done(&d, a, 10 * MS);
	submit(a, 0);
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->value, 1);
	drv_done(&d, b, 10 * MS);
	drv_declare(&d, b, &longer);
	end_now(a, 10 * MS);
	submit(a, 0);
	assert_true(drv_runs(a));
	tier = drv_last(&d, SAL_GRANT, a)->value;
	drv_stop(&d);
	return tier;
}

static void test_a_tier_that_costs_a_move_stays_for_a_while(void **state)
{
	(void)state;
	assert_int_equal(tier_of_the_next_first(1), 1);
	assert_int_equal(tier_of_the_next_first(2), 0);
	start(&sal_policy_srtf, 0); /* for stop */
}

/* Who would not slow the first by more than the bound runs beside it as an equal. */
static void test_a_light_one_is_an_equal(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_srtf, 1);
	know(0, 550);
	a = open_job(SEC);
	b = open_job(20 * SEC);
	submit(a, 0);
	submit(b, 0);
	assert_true(drv_runs(a) && drv_runs(b));
	assert_int_equal(drv_last(&d, SAL_GRANT, b)->value, 0);
}

/* Without tiers, the device cannot protect the first in rank: nobody may join it. */
static void test_the_first_is_not_slowed(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_srtf, 0);
	know(0, 600);
	a = open_job(SEC);
	b = open_job(20 * SEC);
	submit(a, 0);
	submit(b, 0);
	assert_false(drv_runs(b));
}

/* So many iterations of a take twice as long as alone, beside b. */
static void suffer(struct drv_job *a, struct drv_job *b, int times)
{
	for (int i = 0; i < times; i++) {
		submit(a, 0);
		submit(b, 0);
		drv_done(&d, a, 20 * MS);
		if (drv_runs(b))
			end_now(b, 20 * MS);
	}
}

/* If both need about the same time, it hardly matters who is first: side by side both gain. */
static void test_jobs_of_about_the_same_length_are_equals(void **state)
{
	struct sal_explanation why;
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_srtf, 0);
	know(0, 600);
	a = open_job(SEC);
	b = open_job(6 * SEC);
	c = open_job(10 * SEC);
	submit(a, 0);
	submit(c, 0);
	assert_false(drv_runs(c));
	submit(b, 0);
	assert_true(drv_runs(a) && drv_runs(b));
	drv_done(&d, a, 10 * MS);
	end_now(b, 10 * MS);
	assert_true(drv_runs(c));
	drv_stop(&d);
	start(&sal_policy_srtf, 1);
	know(0, 600);
	a = open_job(SEC);
	b = open_job(6 * SEC);
	submit(a, 0);
	submit(b, 0);
	assert_int_equal(drv_last(&d, SAL_GRANT, b)->value, 0);
	suffer(a, b, 12);
	sal_engine_explain(d.engine, b->s, &why);
	assert_int_not_equal(why.turn.hold, SAL_HOLD_FIRST); /* a is not spared */
}

/* One that suffers although the model says otherwise runs alone for a while. */
static void test_the_first_is_spared_when_it_suffers(void **state)
{
	struct sal_explanation why;
	struct drv_job *a, *b;
	uint64_t from_ns;

	(void)state;
	start(&sal_policy_srtf, 1);
	know(0, 300);
	paces[0].told_milli = 300;
	a = open_job(SEC);
	b = open_job(20 * SEC);
	submit(a, 0);
	submit(b, 0);
	suffer(a, b, 4); /* a moment of bad luck */
	assert_true(drv_runs(a) && drv_runs(b));
	suffer(a, b, 8);
	assert_true(drv_runs(a));
	assert_false(drv_runs(b));
	sal_engine_explain(d.engine, b->s, &why);
	assert_int_equal(why.turn.hold, SAL_HOLD_FIRST);
	/* It lost 50 ms of 50: in 500 ms that is a tenth. */
	from_ns = d.now_ns;
	while (!drv_runs(b) && d.now_ns - from_ns < SEC) {
		submit(a, 0);
		drv_done(&d, a, 10 * MS);
	}
	assert_in_range(d.now_ns - from_ns, 300 * MS, 460 * MS);
}

/* A program that never ran alone runs alone once; what runs ends first. */
static void test_an_unknown_program_is_measured(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack, 0);
	know(0, 400);
	a = open_job(0);
	b = open_job(0);
	submit(a, 0);
	submit(b, 1); /* its first run: beside the other */
	assert_true(drv_runs(b));
	drv_done(&d, b, 5 * MS);
	submit(b, 1);
	submit(a, 0);
	assert_false(drv_runs(b));
	drv_done(&d, a, 5 * MS);
	assert_true(drv_runs(b));
	assert_false(drv_runs(a));
	SAL_ASSERT(b->s->running);
	b->s->running->busy_ns = 2 * MS;
	drv_done(&d, b, 4 * MS);
	assert_int_equal(paces[1].alone_ns, 4 * MS);
	assert_int_equal(paces[1].util_milli, 500);
	assert_true(drv_runs(a));
}

/* Side by side at half speed each, two that seemed to use half the device use all of it. */
static void test_runs_beside_others_teach(void **state)
{
	struct drv_job *a, *b;
	int i;

	(void)state;
	start(&sal_policy_pack, 0);
	know(0, 500);
	a = open_job(0);
	b = open_job(0);
	submit(a, 0);
	submit(b, 0);
	for (i = 0; i < 20 && drv_runs(a) && drv_runs(b); i++) {
		submit(a, 0);
		submit(b, 0);
		drv_done(&d, a, 20 * MS);
		end_now(b, 20 * MS);
	}
	assert_in_range(i, 1, 19);
	assert_in_range(paces[0].util_milli, 950, 1000);
}

/* If the device itself says that there is room, they are tried again after a while. */
static void test_what_did_not_pay_is_tried_again(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack, 0);
	know(0, 1000);
	paces[0].told_milli = 500;
	a = open_job(0);
	b = open_job(0);
	submit(a, 0);
	submit(b, 0);
	assert_false(drv_runs(b));
	drv_pass(&d, 1100 * MS);
	submit(b, 0);
	assert_true(drv_runs(b));
	assert_int_equal(paces[0].util_milli, 500);
	end_now(a, 10 * MS);
	end_now(b, 10 * MS);
	paces[0].util_milli = 1000; /* in vain: the next time takes longer */
	drv_pass(&d, 1100 * MS);
	submit(a, 0);
	submit(b, 0);
	assert_false(drv_runs(a) && drv_runs(b));
	drv_pass(&d, SEC);
	submit(a, 0);
	submit(b, 0);
	assert_true(drv_runs(a) && drv_runs(b));
}

/* Other processes disturb a machine for a moment: that is no reason to give up what pays. */
static void test_a_hiccup_teaches_little(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_pack, 0);
	know(0, 700);
	paces[0].alone_ns = MS;
	paces[0].told_milli = 700;
	a = open_job(0);
	b = open_job(0);
	submit(a, 0);
	submit(b, 0);
	for (int i = 0; i < 10; i++) {
		submit(a, 0);
		submit(b, 0);
		drv_done(&d, a, 5 * MS);
		end_now(b, 5 * MS);
	}
	assert_in_range(paces[0].util_milli, 700, 949);
	assert_true(drv_runs(a) && drv_runs(b));
}

static void test_time_alone_is_charged(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_las, 0);
	know(0, 500);
	a = open_job(0);
	b = open_job(0);
	submit(a, 0);
	submit(b, 0);
	drv_done(&d, a, 20 * MS);
	assert_int_equal(a->s->used_ns, 10 * MS);
}

/* The speed of a machine varies: the time alone does not follow the fastest runs beside others. */
static void test_time_alone_follows_no_fast_run(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_las, 0);
	know(0, 400);
	a = open_job(0);
	b = open_job(0);
	submit(a, 0);
	submit(b, 0);
	for (int i = 0; i < 100; i++) {
		uint64_t used_ns = i % 2 ? 12 * MS : 8 * MS;

		submit(a, 0);
		submit(b, 0);
		drv_done(&d, a, used_ns);
		end_now(b, used_ns);
	}
	assert_in_range(paces[0].alone_ns, 9500 * US, 10 * MS);
}

/* A time alone that was measured too long is corrected beside others, if all runs say so. */
static void test_a_slow_run_alone_is_forgotten(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_las, 0);
	know(0, 400);
	paces[0].alone_ns = 20 * MS;
	a = open_job(0);
	b = open_job(0);
	submit(a, 0);
	submit(b, 0);
	for (int i = 0; i < 20; i++) {
		submit(a, 0);
		submit(b, 0);
		drv_done(&d, a, 10 * MS);
		end_now(b, 10 * MS);
	}
	assert_in_range(paces[0].alone_ns, 9 * MS, 11 * MS);
}

/* A lane that ran dry takes the first that waits in the other one, but not twice in a row. */
static void test_a_dry_lane_takes_who_waits(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_pack, 0);
	know(0, 500);
	a = open_job(0);
	b = open_job(0);
	c = open_job(0);
	submit(a, 0);
	submit(b, 0);
	submit(c, 0); /* shares the lane of a */
	assert_ptr_equal(c->s->lane, a->s->lane);
	drv_done(&d, b, 10 * MS);
	assert_true(drv_runs(c));
	assert_ptr_equal(c->s->lane, b->s->lane);
	submit(b, 0);
	drv_done(&d, a, 10 * MS);
	assert_true(drv_runs(b)); /* in the lane of a */
	submit(a, 0);
	submit(b, 0);
	drv_done(&d, b, 10 * MS);
	assert_true(drv_runs(a));
	drv_done(&d, c, 10 * MS);
	assert_false(drv_runs(b)); /* it moved a moment ago */
}

/* Lanes are for speed: they close when one that comes first needs their memory. */
static void test_lanes_make_room_for_jobs(void **state)
{
	struct sal_job large = { .declared = { 790, 100 }, .total_ns = SEC };
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_srtf, 1);
	d.tuning.page_bytes_per_s = 0;
	drv_set_tuning(&d, &d.tuning);
	know(0, 300);
	a = open_job(5 * SEC);
	b = open_job(6 * SEC);
	submit(a, 0);
	submit(b, 0);
	assert_int_equal(drv_lanes(&d), 2);
	c = drv_open_job(&d, &large);
	drv_submit(&d, c, 790, 100);
	assert_false(drv_is_in(c)); /* two lanes of 100, 20 and 790 */
	drv_done(&d, b, 10 * MS);
	assert_int_equal(drv_lanes(&d), 1);
	assert_true(drv_is_in(c));
}

/* One that comes first, but would not fit even if all shared one lane, gains nothing from fewer. */
static void test_lanes_stay_beside_one_that_does_not_fit(void **state)
{
	struct sal_job large = { .declared = { 890, 100 }, .total_ns = SEC };
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_srtf, 1);
	d.tuning.page_bytes_per_s = 0;
	drv_set_tuning(&d, &d.tuning);
	know(0, 300);
	a = open_job(5 * SEC);
	b = open_job(6 * SEC);
	c = drv_open_job(&d, &large);
	drv_submit(&d, c, 890, 100); /* one lane of 100, 20 and 890 */
	assert_false(drv_is_in(c));
	submit(a, 0);
	submit(b, 0);
	assert_true(drv_runs(a) && drv_runs(b));
	assert_int_equal(drv_lanes(&d), 2);
	drv_close(&d, b); /* now there is room, and one lane is enough */
	drv_done(&d, b, 10 * MS);
	assert_int_equal(drv_lanes(&d), 1);
	assert_true(drv_is_in(c));
}

/* Programs of which each uses so many thousandths of the device, by its own word. */
static void tell(uint32_t util_milli)
{
	know(0, util_milli);
	paces[0].told_milli = util_milli;
}

#define CROWD 5

/*
 * Five jobs run for some time. progress[k] is what k lanes achieve together, in thousandths of one.
 * Returns the mean number of lanes in the second half of the time, in thousandths.
 */
static uint64_t run_crowd(struct drv_job **jobs, const uint64_t *progress, uint64_t ns)
{
	uint64_t begin_ns = d.now_ns, lanes_ns = 0;

	while (d.now_ns < begin_ns + ns) {
		uint64_t count = 0, each_ns, i;
		bool ran[CROWD];

		for (i = 0; i < CROWD; i++) {
			ran[i] = drv_runs(jobs[i]);
			count += ran[i];
		}
		each_ns = 10 * MS * count * 1000 / progress[count];
		if (d.now_ns >= begin_ns + ns / 2)
			lanes_ns += count * each_ns;
		d.now_ns += each_ns;
		for (i = 0; i < CROWD; i++)
			if (ran[i]) {
				submit(jobs[i], 0);
				end_now(jobs[i], each_ns);
			}
	}
	return lanes_ns * 1000 / (ns / 2);
}

static void open_crowd(struct drv_job **jobs)
{
	for (uint32_t i = 0; i < CROWD; i++) {
		jobs[i] = open_job(0);
		submit(jobs[i], 0);
	}
}

/* The parts of the device of two add up to more than the device, but three get more done. */
static void test_a_lane_that_pays_after_all_stays(void **state)
{
	static const uint64_t progress[CROWD + 1] = { 0, 1000, 1200, 1600, 1600, 1600 };
	struct drv_job *jobs[CROWD];
	uint64_t lanes;

	(void)state;
	start(&sal_policy_las, 0);
	tell(800);
	open_crowd(jobs);
	lanes = run_crowd(jobs, progress, 60 * SEC);
	assert_in_range(lanes, 2900, 3100);
}

/* One lane more gains nothing: it is tried ever more rarely. */
static void test_a_lane_that_does_not_pay_closes(void **state)
{
	static const uint64_t progress[CROWD + 1] = { 0, 1000, 1250, 1250, 1250, 1250 };
	struct drv_job *jobs[CROWD];
	uint64_t lanes;

	(void)state;
	start(&sal_policy_las, 0);
	tell(800);
	open_crowd(jobs);
	lanes = run_crowd(jobs, progress, 60 * SEC);
	assert_in_range(lanes, 2000, 2050);
}

/* What paid once need not pay for ever. */
static void test_a_lane_closes_when_it_no_longer_pays(void **state)
{
	static const uint64_t before[CROWD + 1] = { 0, 1000, 1200, 1600, 1600, 1600 };
	static const uint64_t after[CROWD + 1] = { 0, 1000, 1250, 1250, 1250, 1250 };
	struct drv_job *jobs[CROWD];
	uint64_t lanes;

	(void)state;
	start(&sal_policy_las, 0);
	tell(800);
	open_crowd(jobs);
	(void)run_crowd(jobs, before, 10 * SEC);
	lanes = run_crowd(jobs, after, 60 * SEC);
	assert_in_range(lanes, 2000, 2100);
}

/* A program that fills the device by the device's own word is never paired to try. */
static void test_who_fills_the_device_takes_part_in_no_trial(void **state)
{
	static const uint64_t progress[CROWD + 1] = { 0, 1000, 2000, 2000, 2000, 2000 };
	struct drv_job *jobs[CROWD];

	(void)state;
	start(&sal_policy_las, 0);
	tell(960);
	open_crowd(jobs);
	assert_int_equal(run_crowd(jobs, progress, 60 * SEC) / 10, 100);
}

int main(void)
{
#define T(test) cmocka_unit_test_teardown(test, stop)
	const struct CMUnitTest tests[] = {
		T(test_halves_run_side_by_side),
		T(test_full_ones_take_turns),
		T(test_one_that_pays_passes_one_that_does_not),
		T(test_tier_one_has_what_is_left),
		T(test_the_first_in_rank_has_tier_zero),
		T(test_a_tier_that_costs_a_move_stays_for_a_while),
		T(test_a_light_one_is_an_equal),
		T(test_the_first_is_not_slowed),
		T(test_jobs_of_about_the_same_length_are_equals),
		T(test_the_first_is_spared_when_it_suffers),
		T(test_an_unknown_program_is_measured),
		T(test_runs_beside_others_teach),
		T(test_what_did_not_pay_is_tried_again),
		T(test_a_hiccup_teaches_little),
		T(test_time_alone_is_charged),
		T(test_time_alone_follows_no_fast_run),
		T(test_a_slow_run_alone_is_forgotten),
		T(test_a_dry_lane_takes_who_waits),
		T(test_lanes_make_room_for_jobs),
		T(test_lanes_stay_beside_one_that_does_not_fit),
		T(test_a_lane_that_pays_after_all_stays),
		T(test_a_lane_that_does_not_pay_closes),
		T(test_a_lane_closes_when_it_no_longer_pays),
		T(test_who_fills_the_device_takes_part_in_no_trial),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
