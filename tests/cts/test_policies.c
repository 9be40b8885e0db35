/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policies - runs every policy through one suite, and tests the promises of each policy, the faults
 * of the original Salus (by the numbers that the Salus paper gives), and policies that misbehave.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/policy.h"
#include "support/driver.h"

#define STEPS 2000000

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

static void start_one_lane(const struct sal_policy *policy)
{
	struct sal_tuning t = drv_plain_tuning();

	t.lanes = 1;
	drv_start(&d, 1000, policy, &t);
}

/* A job that needs very little memory. */
static struct drv_load small_load(uint64_t count, uint64_t iter_ns)
{
	return (struct drv_load){
		.job = { .declared = { 10, 10 } },
		.count = count,
		.iter_ns = iter_ns,
	};
}

/* The suite */

/* Jobs that compete for memory and time. Some declare wrong needs. */
static void add_random_jobs(uint64_t seed, uint32_t count)
{
	struct rng rng = { .state = seed };

	d.rng.state = seed;
	for (uint32_t i = 0; i < count; i++) {
		struct drv_load load = {
			.job = {
				.kind = rng_chance(&rng, 25) ? SAL_INFERENCE : SAL_TRAINING,
				.kind_undeclared = rng_chance(&rng, 50),
				.weight_milli = (uint32_t)rng_range(&rng, 1, 4) * 1000,
				.priority = (uint32_t)rng_below(&rng, 3),
				.total_ns = rng_chance(&rng, 60) ? rng_below(&rng, SEC) : 0,
				.deadline_ns = rng_chance(&rng, 20) ? 100 * SEC : 0,
				.declared = { rng_below(&rng, 300), rng_below(&rng, 300) },
			},
			.needs = { rng_below(&rng, 400), rng_below(&rng, 400) + 1 },
			.start_ns = rng_below(&rng, 200 * MS),
			.count = rng_range(&rng, 1, 30),
			.iter_ns = rng_skewed(&rng, 20 * MS),
			.jitter_ns = rng_skewed(&rng, 5 * MS),
			.gap_ns = rng_chance(&rng, 30) ? rng_skewed(&rng, 10 * MS) : 0,
			.depth = (uint32_t)rng_range(&rng, 1, 4),
		};

		(void)drv_add(&d, &load);
	}
}

static void start_random(const struct sal_policy *policy, uint64_t seed)
{
	struct sal_tuning t;

	sal_tuning_default(&t);
	t.page_bytes_per_s = 100000;
	t.idle_ns = 20 * MS;
	drv_start(&d, 1000, policy, &t);
	add_random_jobs(seed, 25);
}

static void test_every_session_ends_the_same_way_twice(void **state)
{
	(void)state;
	for (size_t p = 0; sal_policies[p]; p++) {
		for (uint64_t seed = 1; seed <= 5; seed++) {
			uint64_t hash = 0;

			for (int run = 0; run < 2; run++) {
				start_random(sal_policies[p], seed);
				drv_run(&d, STEPS);
				assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 0);
				assert_int_equal(drv_said(&d, SAL_EJECT, NULL), 0);
				if (run == 1 && d.hash != hash)
					fail_msg("%s, seed %" PRIu64 ": two runs differ",
						 sal_policies[p]->name, seed);
				hash = d.hash;
				drv_stop(&d);
			}
		}
	}
	drv_start(&d, 1, NULL, NULL); /* for stop() */
}

/* One lane, all jobs fit: the lane is never idle, so the end is the sum of all iterations. */
static void test_work_conservation(void **state)
{
	(void)state;
	for (size_t p = 0; sal_policies[p]; p++) {
		struct rng rng = { .state = 11 };
		uint64_t sum_ns = 0;

		start_one_lane(sal_policies[p]);
		for (int i = 0; i < 12; i++) {
			struct drv_load load =
				small_load(rng_range(&rng, 1, 40), rng_range(&rng, 1, MS));

			load.job.total_ns = load.count * load.iter_ns;
			sum_ns += load.job.total_ns;
			(void)drv_add(&d, &load);
		}
		drv_run(&d, STEPS);
		if (d.now_ns != sum_ns)
			fail_msg("%s: ended at %" PRIu64 ", the work is %" PRIu64,
				 sal_policies[p]->name, d.now_ns, sum_ns);
		drv_stop(&d);
	}
	drv_start(&d, 1, NULL, NULL);
}

/* Five equal jobs, submitted in reverse order: the smaller id runs first. */
static void test_ties_go_to_the_older(void **state)
{
	(void)state;
	for (size_t p = 0; sal_policies[p]; p++) {
		struct drv_job *j[6];
		char order[16];

		if (sal_policies[p]->draws_lots)
			continue;

		start_one_lane(sal_policies[p]);
		for (int i = 0; i < 6; i++)
			j[i] = drv_open(&d, 10, 10);
		drv_submit(&d, j[0], 10, 10);
		for (int i = 5; i > 0; i--)
			drv_submit(&d, j[i], 10, 10);
		for (int i = 0; i < 6; i++) {
			drv_close(&d, j[i]);
			if (j[i]->s)
				drv_done(&d, j[i], MS);
		}
		if (strcmp(drv_grants(&d, order, sizeof(order)), "abcdef") != 0)
			fail_msg("%s: %s", sal_policies[p]->name, order);
		drv_stop(&d);
	}
	drv_start(&d, 1, NULL, NULL);
}

static void switch_policies(const struct sal_policy *from, const struct sal_policy *to)
{
	start_random(from, 3);
	for (int i = 0; i < 400; i++) {
		(void)drv_step(&d, DRV_NEVER);
		if (i % 40 == 20)
			drv_set_policy(&d, i / 40 % 2 ? from : to);
	}
	drv_run(&d, STEPS);
	assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 0);
	assert_int_equal(drv_said(&d, SAL_EJECT, NULL), 0);
	drv_stop(&d);
}

static void test_switching_between_any_two(void **state)
{
	(void)state;
	for (size_t p = 0; sal_policies[p]; p++)
		for (size_t q = 0; sal_policies[q]; q++)
			switch_policies(sal_policies[p], sal_policies[q]);
	drv_start(&d, 1, NULL, NULL);
}

static void test_all_can_be_found_by_name(void **state)
{
	(void)state;
	for (size_t p = 0; sal_policies[p]; p++) {
		assert_ptr_equal(sal_policy_find(sal_policies[p]->name), sal_policies[p]);
		assert_true(strlen(sal_policies[p]->idea) > 10);
	}
	assert_null(sal_policy_find("best"));
	drv_start(&d, 1, NULL, NULL);
}

/* Each parameter has a unique name, a sentence, and a default within its range. */
static void check_params(const struct sal_policy *policy)
{
	for (uint32_t i = 0; policy->params && policy->params[i].name; i++) {
		const struct sal_param *param = &policy->params[i];

		assert_true(i < SAL_PARAMS_MAX);
		assert_true(strlen(param->name) < SAL_PARAM_NAME_BYTES);
		assert_true(strlen(param->about) > 10);
		assert_in_range(param->standard, param->min, param->max);
		for (uint32_t k = 0; k < i; k++)
			assert_string_not_equal(param->name, policy->params[k].name);
		for (uint32_t k = 0; sal_knobs[k].name; k++)
			assert_string_not_equal(param->name, sal_knobs[k].name);
	}
}

/* The smallest and the largest value of each parameter break nothing. */
static void test_parameters(void **state)
{
	(void)state;
	for (size_t p = 0; sal_policies[p]; p++) {
		const struct sal_param *params = sal_policies[p]->params;

		check_params(sal_policies[p]);
		for (uint32_t i = 0; params && params[i].name; i++) {
			for (int end = 0; end < 2; end++) {
				start_random(sal_policies[p], 7);
				drv_run_until(&d, 50 * MS);
				sal_engine_set_param(d.engine, d.now_ns, i,
						     end ? params[i].max : params[i].min);
				drv_run(&d, STEPS);
				assert_int_equal(drv_said(&d, SAL_EJECT, NULL), 0);
				drv_stop(&d);
			}
		}
	}
	drv_start(&d, 1, NULL, NULL);
}

/* Promises of each policy */

static void test_fifo_owner_keeps_the_lane(void **state)
{
	struct drv_load load = small_load(5, MS);
	char order[32];

	(void)state;
	start_one_lane(&sal_policy_fifo);
	load.gap_ns = 50 * MS; /* longer than any reservation */
	load.depth = 1;
	(void)drv_add(&d, &load);
	(void)drv_add(&d, &load);
	drv_run(&d, STEPS);
	assert_string_equal(drv_grants(&d, order, sizeof(order)), "aaaaabbbbb");
}

static void test_srtf_order_and_preemption(void **state)
{
	static const uint64_t lengths[] = { 30, 10, 20 };
	struct drv_job *j[4];
	struct drv_load load;

	(void)state;
	start_one_lane(&sal_policy_srtf);
	for (int i = 0; i < 4; i++) {
		load = small_load(i < 3 ? lengths[i] : 5, MS);
		load.job.total_ns = load.count * MS;
		load.start_ns = i < 3 ? 0 : 12 * MS + 1;
		j[i] = drv_add(&d, &load);
	}
	drv_run(&d, STEPS);
	/* a runs once, then b. c has started when d comes; c is preempted and goes on later. */
	assert_int_equal(j[1]->end_ns, 11 * MS);
	assert_int_equal(j[2]->first_ns, 11 * MS);
	assert_int_equal(j[3]->first_ns, 13 * MS);
	assert_int_equal(j[3]->end_ns, 18 * MS);
	assert_int_equal(j[2]->end_ns, 36 * MS);
	assert_int_equal(j[0]->end_ns, 65 * MS);
}

static void test_pack_opens_as_many_lanes_as_fit(void **state)
{
	struct drv_job *j[6];
	uint32_t running = 0;

	(void)state;
	drv_start(&d, 1000, &sal_policy_pack, NULL);
	for (int i = 0; i < 6; i++) {
		j[i] = drv_open(&d, 40, 150);
		drv_submit(&d, j[i], 40, 150);
		running += drv_runs(j[i]);
	}
	assert_int_equal(running, 5); /* 5 * 190 bytes; 50 are left, so the sixth shares */
	assert_int_equal(drv_lanes(&d), 5);
	assert_true(drv_is_in(j[5]) && !drv_runs(j[5]));
}

/* The device time of j in a window is its share, in thousandths. */
static void has_share(const struct drv_job *j, uint64_t before_ns, uint64_t window_ns,
		      uint32_t share_milli)
{
	uint64_t got = j->s ? (j->s->used_ns - before_ns) * 1000 / window_ns : 0;

	if (got + 10 < share_milli || got > share_milli + 10)
		fail_msg("job %" PRIu64 " got %" PRIu64 " of %u thousandths", j->id, got,
			 share_milli);
}

/* Jobs with unequal iterations get equal time, also right after a job joins or leaves. */
static void test_fair_equal_time(void **state)
{
	static const uint64_t iter_ns[] = { 500 * US, 2 * MS, 3 * MS };
	struct drv_job *j[3];
	uint64_t used[3];

	(void)state;
	start_one_lane(&sal_policy_fair);
	for (uint64_t i = 0; i < 3; i++) {
		struct drv_load load = small_load(0, iter_ns[i]);

		load.start_ns = i * SEC;
		j[i] = drv_add(&d, &load);
	}
	drv_run_until(&d, SEC - 1);
	assert_int_equal(j[0]->done, 1999);
	drv_run_until(&d, 2 * SEC - 1); /* two jobs share from the first iteration on */
	has_share(j[0], 1999 * iter_ns[0], SEC, 500);
	has_share(j[1], 0, SEC, 500);
	used[0] = j[0]->s->used_ns;
	used[1] = j[1]->s->used_ns;
	drv_run_until(&d, 3 * SEC - 1);
	has_share(j[0], used[0], SEC, 333);
	has_share(j[1], used[1], SEC, 333);
	has_share(j[2], 0, SEC, 333);
	drv_close(&d, j[0]);
	while (j[0]->s)
		(void)drv_step(&d, DRV_NEVER);
	for (int i = 1; i < 3; i++)
		used[i] = j[i]->s->used_ns;
	drv_run_until(&d, 4 * SEC - 1);
	has_share(j[1], used[1], SEC, 500);
	has_share(j[2], used[2], SEC, 500);
}

/* Shares are 1:2:4 in every hundred rounds of seven, also right after a job joins. */
static void test_fair_weights(void **state)
{
	struct drv_job *j[3];
	uint64_t used[3] = { 0 };

	(void)state;
	start_one_lane(&sal_policy_fair);
	for (uint64_t i = 0; i < 3; i++) {
		struct drv_load load = small_load(0, MS);

		load.job.weight_milli = 1000U << i;
		load.start_ns = i * 300 * MS;
		j[i] = drv_add(&d, &load);
	}
	drv_run_until(&d, 300 * MS);
	used[0] = j[0]->s->used_ns;
	drv_run_until(&d, 600 * MS);
	has_share(j[0], used[0], 300 * MS, 333);
	has_share(j[1], 0, 300 * MS, 667);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 3; i++)
			used[i] = j[i]->s ? j[i]->s->used_ns : 0;
		drv_run_until(&d, d.now_ns + 700 * MS);
		has_share(j[0], used[0], 700 * MS, 143);
		has_share(j[1], used[1], 700 * MS, 286);
		has_share(j[2], used[2], 700 * MS, 571);
	}
}

static void test_rr_equal_iterations(void **state)
{
	struct drv_load fast = small_load(0, 100 * US), slow = small_load(0, 7 * MS);
	struct drv_job *a, *b, *c;

	(void)state;
	start_one_lane(&sal_policy_rr);
	a = drv_add(&d, &fast);
	b = drv_add(&d, &slow);
	slow.job.weight_milli = 2000;
	c = drv_add(&d, &slow);
	drv_run_until(&d, 10 * SEC);
	assert_true(a->done > 100);
	assert_in_range(b->done, a->done - 1, a->done + 1);
	assert_in_range(c->done, 2 * a->done - 2, 2 * a->done + 2);
}

static void test_priority_preempts_at_the_next_boundary(void **state)
{
	struct sal_job low = { .declared = { 10, 10 }, .priority = 5 };
	struct sal_job high = { .declared = { 10, 10 }, .priority = 1 };
	struct drv_job *a, *b;
	char order[16];

	(void)state;
	start_one_lane(&sal_policy_priority);
	a = drv_open_job(&d, &low);
	b = drv_open_job(&d, &high);
	for (int i = 0; i < 4; i++)
		drv_submit(&d, a, 10, 10);
	drv_done(&d, a, MS);
	drv_submit(&d, b, 10, 10);
	drv_submit(&d, b, 10, 10);
	while (drv_runs(a) || drv_runs(b))
		drv_done(&d, drv_runs(a) ? a : b, MS);
	assert_string_equal(drv_grants(&d, order, sizeof(order)), "aabbaa");
	/* After its priority is raised, a goes first. */
	drv_mark(&d);
	drv_submit(&d, b, 10, 10);
	drv_submit(&d, b, 10, 10);
	drv_submit(&d, a, 10, 10);
	low.priority = 0;
	drv_declare(&d, a, &low);
	while (drv_runs(a) || drv_runs(b))
		drv_done(&d, drv_runs(a) ? a : b, MS);
	assert_string_equal(drv_grants(&d, order, sizeof(order)), "bab");
}

/* Unlike under fair, a new job runs alone until it has had as much time as the others. */
static void test_las_newcomer_catches_up(void **state)
{
	struct drv_load load = small_load(0, MS);
	struct drv_job *a, *b;

	(void)state;
	start_one_lane(&sal_policy_las);
	a = drv_add(&d, &load);
	load.start_ns = 100 * MS;
	b = drv_add(&d, &load);
	drv_run_until(&d, 190 * MS);
	assert_in_range(a->done, 100, 101);
	assert_in_range(b->done, 88, 90);
	drv_run_until(&d, 300 * MS);
	assert_in_range(a->done, 149, 151);
	assert_in_range(b->done, 149, 151);
}

static void test_mix_inference_has_lanes_of_its_own(void **state)
{
	struct sal_job training = { .declared = { 50, 150 }, .total_ns = 10 * SEC };
	struct sal_job inference = { .kind = SAL_INFERENCE, .declared = { 20, 50 } };
	struct drv_job *t[3], *n[2];

	(void)state;
	drv_start(&d, 1000, &sal_policy_mix, NULL);
	for (int i = 0; i < 3; i++) {
		training.total_ns -= SEC;
		t[i] = drv_open_job(&d, &training);
		drv_submit(&d, t[i], 50, 150);
	}
	for (int i = 0; i < 2; i++)
		n[i] = drv_open_job(&d, &inference);
	assert_ptr_equal(t[0]->s->lane, t[1]->s->lane);
	assert_ptr_equal(t[0]->s->lane, t[2]->s->lane);
	assert_ptr_not_equal(n[0]->s->lane, t[0]->s->lane);
	assert_ptr_not_equal(n[0]->s->lane, n[1]->s->lane);
	/* A request starts at once, even while training runs. */
	drv_submit(&d, n[0], 20, 50);
	drv_submit(&d, n[1], 20, 50);
	assert_true(drv_runs(n[0]) && drv_runs(n[1]) && drv_runs(t[0]));
	/* Training jobs run by shortest remaining time. */
	drv_done(&d, t[0], MS);
	assert_true(drv_runs(t[2]));
}

static void test_mix_training_makes_room_for_inference(void **state)
{
	struct sal_job training = { .declared = { 500, 400 } };
	struct sal_job inference = { .kind = SAL_INFERENCE, .declared = { 200, 50 } };
	struct drv_job *t, *n;

	(void)state;
	drv_start(&d, 1000, &sal_policy_mix, NULL);
	t = drv_open_job(&d, &training);
	drv_submit(&d, t, 500, 400);
	drv_submit(&d, t, 500, 400);
	n = drv_open_job(&d, &inference);
	drv_submit(&d, n, 200, 50);
	drv_done(&d, t, MS);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, t), 1);
	drv_copied(&d, t);
	assert_true(drv_runs(n));
}

/* Faults of the original Salus */

/* (5) The original counted in whole ms, so short iterations were free. */
static void test_fault_5_iterations_are_charged_to_the_ns(void **state)
{
	static const struct sal_policy *const by_time[] = { &sal_policy_fair, &sal_policy_las };
	struct sal_job job = { .declared = { 10, 10 }, .total_ns = MS };
	struct drv_job *s;

	(void)state;
	for (size_t p = 0; p < 2; p++) {
		struct drv_load brief = small_load(0, 300), lengthy = small_load(0, 100 * US);
		struct drv_job *a, *b;

		start_one_lane(by_time[p]);
		a = drv_add(&d, &brief);
		b = drv_add(&d, &lengthy);
		drv_run_until(&d, 10 * MS);
		assert_in_range(a->s->used_ns, 4900 * US, 5100 * US);
		assert_in_range(b->s->used_ns, 4900 * US, 5100 * US);
		drv_stop(&d);
	}
	start_one_lane(&sal_policy_srtf);
	s = drv_open_job(&d, &job);
	for (int i = 0; i < 999; i++) {
		drv_submit(&d, s, 10, 10);
		drv_done(&d, s, 7);
	}
	assert_int_equal(s->s->rank.major, MS - UINT64_C(999 * 7));
}

/* (5), with weights: the remainders of divisions are not lost, even for short iterations. */
static void test_fault_5_weights_lose_nothing(void **state)
{
	struct drv_load heavy = small_load(0, 3), light = small_load(0, 3);
	struct drv_job *a, *b;

	(void)state;
	start_one_lane(&sal_policy_fair);
	heavy.job.weight_milli = 8000;
	a = drv_add(&d, &heavy);
	b = drv_add(&d, &light);
	drv_run_until(&d, 90 * US);
	assert_in_range(a->s->used_ns, 79 * US, 81 * US);
	assert_in_range(b->s->used_ns, 9 * US, 11 * US);
}

/* (6) In the original, a new job ran alone until it caught up, or all history was lost. */
static void test_fault_6_newcomers_start_level(void **state)
{
	static const struct sal_policy *const sharing[] = { &sal_policy_fair, &sal_policy_rr };

	(void)state;
	for (size_t p = 0; p < 2; p++) {
		struct drv_load load = small_load(0, MS);
		struct drv_job *a, *b, *c;
		uint64_t a_done, b_done;

		start_one_lane(sharing[p]);
		a = drv_add(&d, &load);
		b = drv_add(&d, &load);
		load.start_ns = 1000 * MS;
		c = drv_add(&d, &load);
		drv_run_until(&d, 1000 * MS);
		a_done = a->done;
		b_done = b->done;
		assert_int_equal(a_done + b_done, 1000);
		drv_run_until(&d, 1030 * MS); /* ten rounds of three */
		assert_in_range(c->done, 9, 11);
		assert_in_range(a->done - a_done, 9, 11);
		assert_in_range(b->done - b_done, 9, 11);
		drv_stop(&d);
	}
	drv_start(&d, 1, NULL, NULL);
}

/* (6), for a job that was idle, or paused with work in its queue. */
static void test_fault_6_no_credit_for_absence(void **state)
{
	static const struct sal_policy *const sharing[] = { &sal_policy_fair, &sal_policy_rr };

	(void)state;
	for (size_t p = 0; p < 4; p++) {
		struct drv_load load = small_load(0, MS);
		struct drv_job *a, *b;
		uint64_t a_done, b_done;

		start_one_lane(sharing[p % 2]);
		a = drv_add(&d, &load);
		load.gap_ns = p < 2 ? 500 * MS : 0;
		load.depth = p < 2 ? 1 : 2;
		b = drv_add(&d, &load);
		drv_run_until(&d, 10 * MS);
		if (p >= 2)
			drv_pause(&d, b);
		drv_run_until(&d, 490 * MS);
		if (p >= 2)
			drv_resume(&d, b);
		b->load.gap_ns = 0;
		b->load.depth = 2;
		drv_run_until(&d, 600 * MS);
		a_done = a->done;
		b_done = b->done;
		drv_run_until(&d, 620 * MS);
		if (a->done - a_done < 9 || b->done - b_done < 9)
			fail_msg("%s, %s: %d against %d", sharing[p % 2]->name,
				 p < 2 ? "idle" : "paused", (int)(a->done - a_done),
				 (int)(b->done - b_done));
		drv_stop(&d);
	}
	drv_start(&d, 1, NULL, NULL);
}

/* (7) In the original, a job without a declared time, or past its declared time, always won. */
static void test_fault_7_missing_durations_do_not_win(void **state)
{
	struct drv_load known = small_load(20, MS), unknown = small_load(20, MS);
	struct drv_job *a, *b;

	(void)state;
	start_one_lane(&sal_policy_srtf);
	known.job.total_ns = 20 * MS;
	a = drv_add(&d, &unknown);
	b = drv_add(&d, &known);
	drv_run(&d, STEPS);
	assert_true(b->end_ns < a->end_ns);
	assert_int_equal(b->end_ns, 21 * MS); /* one iteration of a was running */
}

static void test_fault_7_overruns_do_not_win(void **state)
{
	struct drv_load overrun = small_load(100, MS), known = small_load(50, MS);
	struct drv_job *a, *b;

	(void)state;
	start_one_lane(&sal_policy_srtf);
	overrun.job.total_ns = 10 * MS; /* the job takes ten times as long */
	known.job.total_ns = 50 * MS;
	a = drv_add(&d, &overrun);
	b = drv_add(&d, &known);
	drv_run(&d, STEPS);
	assert_int_equal(b->first_ns, 20 * MS); /* a has used twice its declared time */
	assert_int_equal(b->end_ns, 70 * MS);
	assert_int_equal(a->end_ns, 150 * MS);
}

/* Nothing is known about both: the newcomer has its first second at once, then they take turns. */
static void test_a_newcomer_of_unknown_length_goes_first(void **state)
{
	struct drv_load old = small_load(80, 100 * MS), newcomer = small_load(15, 100 * MS);
	struct drv_job *a, *b;

	(void)state;
	start_one_lane(&sal_policy_srtf);
	newcomer.start_ns = 3 * SEC - 1;
	a = drv_add(&d, &old);
	b = drv_add(&d, &newcomer);
	drv_run(&d, STEPS);
	assert_int_equal(b->first_ns, 3 * SEC);
	assert_int_equal(b->end_ns, 3 * SEC + 1500 * MS);
	assert_int_equal(a->end_ns, 9 * SEC + 500 * MS);
}

/* A job that is a little late stays ahead of those that have much more to do. */
static void test_a_late_job_is_not_the_last(void **state)
{
	struct drv_load late = small_load(15, MS), known = small_load(50, MS);
	struct drv_load brief = small_load(4, MS);
	struct drv_job *a, *b, *c;

	(void)state;
	start_one_lane(&sal_policy_srtf);
	late.job.total_ns = 10 * MS;
	known.job.total_ns = 50 * MS;
	brief.job.total_ns = 4 * MS;
	brief.start_ns = 14 * MS - 1; /* a is 4 ms late by then, and expected to take longer */
	a = drv_add(&d, &late);
	b = drv_add(&d, &known);
	c = drv_add(&d, &brief);
	drv_run(&d, STEPS);
	assert_int_equal(c->end_ns, 18 * MS);
	assert_int_equal(a->end_ns, 19 * MS);
	assert_int_equal(b->end_ns, 69 * MS);
}

/* A short job that takes four times its length waits for jobs of about that time, not for long ones. */
static void test_a_short_late_job_is_no_long_one(void **state)
{
	struct drv_load late = small_load(40, MS), known = small_load(20, 100 * MS);
	struct drv_job *a, *b;

	(void)state;
	start_one_lane(&sal_policy_srtf);
	late.job.total_ns = 10 * MS;
	known.job.total_ns = 2 * SEC;
	a = drv_add(&d, &late);
	b = drv_add(&d, &known);
	drv_run(&d, STEPS);
	assert_int_equal(a->end_ns, 40 * MS);
	assert_int_equal(b->end_ns, 2040 * MS);
}

/*
 * (7), for jobs without a declared time: the remaining time is taken to be the time already used.
 */
static void test_fault_7_long_runs_do_not_win(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start_one_lane(&sal_policy_srtf);
	a = drv_open(&d, 10, 10);
	for (int i = 0; i < 3; i++)
		drv_submit(&d, a, 10, 10);
	drv_done(&d, a, d.tuning.guess_ns + SEC);
	b = drv_open(&d, 10, 10);
	drv_submit(&d, b, 10, 10);
	drv_done(&d, a, SEC);
	assert_true(drv_runs(b));
}

/* (8) In the original, a large job waited for ever while small jobs kept coming. */
static void large_among_small(const struct sal_policy *policy, bool paging)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_load small = small_load(5, MS), large = small_load(5, MS);
	struct drv_job *big;
	uint32_t before = 0;

	t.pass_bound = 20;
	t.lanes = 1;
	t.page_bytes_per_s = paging ? 1000 : 0;
	drv_start(&d, 1000, policy, &t);
	large.job.declared = (struct sal_needs){ 800, 100 };
	large.start_ns = 10 * MS;
	small.job.declared = (struct sal_needs){ 300, 100 };
	big = drv_add(&d, &large);
	for (uint64_t i = 0; i < 300; i++) { /* a new job always comes before the last one ends */
		small.start_ns = i * 4 * MS;
		(void)drv_add(&d, &small);
	}
	drv_run(&d, STEPS);
	for (size_t i = 1; i < d.job_count; i++)
		before += d.jobs[i]->load.start_ns > large.start_ns &&
			  d.jobs[i]->first_ns < big->first_ns;
	if (before > t.pass_bound + 5)
		fail_msg("%s%s: %u small ones went before it", policy->name,
			 paging ? "" : " without paging", before);
	drv_stop(&d);
}

static void test_fault_8_a_large_job_gets_in(void **state)
{
	static const struct sal_policy *const bounded[] = {
		&sal_policy_fifo, &sal_policy_fair, &sal_policy_rr,
		&sal_policy_las,  &sal_policy_pack, &sal_policy_priority,
	};

	(void)state;
	for (size_t p = 0; p < sizeof(bounded) / sizeof(bounded[0]); p++) {
		large_among_small(bounded[p], true);
		large_among_small(bounded[p], false);
	}
	drv_start(&d, 1, NULL, NULL);
}

/* Policies that misbehave */

/* Stores the last session that joined, to pick it at the wrong time. */
struct bad_state {
	struct sal_session *last;
};

static struct sal_rank bad_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = s->id };
}

static void bad_join(void *state, struct sal_session *s)
{
	((struct bad_state *)state)->last = s;
}

static void bad_leave(void *state, struct sal_session *s)
{
	struct bad_state *bad = state;

	if (bad->last == s)
		bad->last = NULL;
}

static struct sal_session *pick_nobody(void *state, struct sal_lane *lane)
{
	(void)state;
	(void)lane;
	return NULL;
}

/* Picks the last session that joined, even if it is not ready or lives in another lane. */
static struct sal_session *pick_last(void *state, struct sal_lane *lane)
{
	struct sal_session *last = ((struct bad_state *)state)->last;

	return last ? last : sal_lane_first(lane);
}

static bool prefer_everybody(const void *state, const struct sal_session *in,
			     const struct sal_session *out, uint64_t cost_ns)
{
	(void)state;
	(void)in;
	(void)out;
	(void)cost_ns;
	return true;
}

static const struct sal_policy bad_nobody = {
	.name = "nobody",
	.lanes = 1,
	.rank = bad_rank,
	.pick = pick_nobody,
};

static const struct sal_policy bad_last = {
	.name = "last",
	.state_size = sizeof(struct bad_state),
	.lanes = 1,
	.rank = bad_rank,
	.join = bad_join,
	.leave = bad_leave,
	.pick = pick_last,
};

static const struct sal_policy bad_elsewhere = {
	.name = "elsewhere",
	.state_size = sizeof(struct bad_state),
	.lanes = SAL_LANES_MAX,
	.rank = bad_rank,
	.join = bad_join,
	.leave = bad_leave,
	.pick = pick_last,
};

static const struct sal_policy bad_preference = {
	.name = "preference",
	.lanes = 1,
	.rank = bad_rank,
	.prefers = prefer_everybody,
};

static void test_misbehaving_policy_is_replaced(void **state)
{
	static const struct {
		const struct sal_policy *policy;
		enum sal_reason reason;
	} bad[] = {
		{ &bad_nobody, SAL_EJECT_PICK },
		{ &bad_last, SAL_EJECT_PICK },
		{ &bad_elsewhere, SAL_EJECT_PICK },
		{ &bad_preference, SAL_EJECT_PREFERS },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		start_random(bad[i].policy, 5);
		drv_run(&d, STEPS);
		if (drv_said(&d, SAL_EJECT, NULL) != 1)
			fail_msg("%s was ejected %zu times", bad[i].policy->name,
				 drv_said(&d, SAL_EJECT, NULL));
		assert_int_equal(drv_last(&d, SAL_EJECT, NULL)->reason, bad[i].reason);
		assert_ptr_equal(sal_engine_policy(d.engine), &sal_policy_fifo);
		assert_int_equal(drv_said(&d, SAL_REFUSE, NULL), 0);
		drv_stop(&d);
	}
	drv_start(&d, 1, NULL, NULL);
}

/* The picked session is ready, but in another lane, where its turn is reserved. */
static void test_pick_of_another_lane(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b;

	(void)state;
	t.anticipate_ns = 5 * MS;
	drv_start(&d, 1000, &bad_elsewhere, &t);
	a = drv_open(&d, 10, 10);
	b = drv_open(&d, 10, 10);
	drv_submit(&d, b, 10, 10);
	drv_done(&d, b, MS);
	assert_int_equal(drv_said(&d, SAL_EJECT, NULL), 0);
	drv_submit(&d, a, 10, 10);
	assert_int_equal(drv_said(&d, SAL_EJECT, NULL), 1);
	assert_true(drv_runs(a));
}

/* A policy finds a zeroed state and zeroed slots when it is chosen. */
static void join_empty_slot(void *state, struct sal_session *s)
{
	static const unsigned char zero[SAL_STATE_BYTES];

	assert_memory_equal(state, zero, SAL_STATE_BYTES);
	assert_memory_equal(s->slot, zero, SAL_SLOT_BYTES);
	memset(s->slot, 0xff, SAL_SLOT_BYTES);
}

static void test_slots_are_empty(void **state)
{
	struct sal_policy policy = sal_policy_pack;

	(void)state;
	policy.join = join_empty_slot;
	policy.slot_size = SAL_SLOT_BYTES;
	policy.state_size = SAL_STATE_BYTES;
	start_random(&sal_policy_fair, 5);
	for (int i = 0; i < 4; i++) {
		drv_run_until(&d, (100 + 20 * i) * MS);
		drv_set_policy(&d, i % 2 ? &sal_policy_rr : &policy);
	}
	drv_run(&d, STEPS);
}

static void test_impossible_policy_is_rejected(void **state)
{
	struct sal_policy slot = sal_policy_las, huge = sal_policy_las, no_rank = sal_policy_las;
	const struct sal_policy *const bad[] = { &slot, &huge, &no_rank };
	struct sal_engine_config cfg = { .capacity_bytes = 1000, .tuning = drv_plain_tuning() };
	struct sal_engine *engine;

	(void)state;
	slot.slot_size = SAL_SLOT_BYTES + 1;
	huge.state_size = SAL_STATE_BYTES + 1;
	no_rank.rank = NULL;
	start_random(&sal_policy_fair, 5);
	for (size_t i = 0; i < 3; i++) {
		struct sal_err err = { 0 };

		for (int k = 0; k < 20; k++)
			(void)drv_step(&d, DRV_NEVER);
		assert_int_equal(sal_engine_set_policy(d.engine, d.now_ns, bad[i], &err),
				 -SAL_INVALID_ARGUMENT);
		assert_non_null(strstr(err.text, "las"));
		assert_ptr_equal(sal_engine_policy(d.engine), &sal_policy_fair);
		cfg.policy = bad[i];
		assert_true(sal_engine_create(&cfg, &engine, &err) < 0);
		assert_null(engine);
	}
	drv_run(&d, STEPS);
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_every_session_ends_the_same_way_twice),
		T(test_work_conservation),
		T(test_ties_go_to_the_older),
		T(test_switching_between_any_two),
		T(test_all_can_be_found_by_name),
		T(test_parameters),
		T(test_fifo_owner_keeps_the_lane),
		T(test_srtf_order_and_preemption),
		T(test_pack_opens_as_many_lanes_as_fit),
		T(test_fair_equal_time),
		T(test_fair_weights),
		T(test_rr_equal_iterations),
		T(test_priority_preempts_at_the_next_boundary),
		T(test_las_newcomer_catches_up),
		T(test_mix_inference_has_lanes_of_its_own),
		T(test_mix_training_makes_room_for_inference),
		T(test_fault_5_iterations_are_charged_to_the_ns),
		T(test_fault_5_weights_lose_nothing),
		T(test_fault_6_newcomers_start_level),
		T(test_fault_6_no_credit_for_absence),
		T(test_fault_7_missing_durations_do_not_win),
		T(test_fault_7_overruns_do_not_win),
		T(test_a_newcomer_of_unknown_length_goes_first),
		T(test_a_late_job_is_not_the_last),
		T(test_a_short_late_job_is_no_long_one),
		T(test_fault_7_long_runs_do_not_win),
		T(test_fault_8_a_large_job_gets_in),
		T(test_misbehaving_policy_is_replaced),
		T(test_pick_of_another_lane),
		T(test_slots_are_empty),
		T(test_impossible_policy_is_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
