/* SPDX-License-Identifier: Apache-2.0 */
/* two lanes - what policies that want one lane, or all, do with two. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/policy.h"
#include "support/driver.h"

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

static void start(const struct sal_policy *policy, uint32_t lanes)
{
	struct sal_tuning t = drv_plain_tuning();

	t.lanes = lanes;
	drv_start(&d, 1000, policy, &t);
}

static struct drv_load load_of(uint64_t iter_ns, uint32_t weight_milli)
{
	return (struct drv_load){
		.job = { .declared = { 10, 10 }, .weight_milli = weight_milli },
		.iter_ns = iter_ns,
	};
}

static struct drv_job *open_kind(enum sal_kind kind, uint64_t total_ns)
{
	struct sal_job job = { .kind = kind, .declared = { 10, 10 }, .total_ns = total_ns };

	return drv_open_job(&d, &job);
}

static void submit(struct drv_job *j)
{
	drv_submit(&d, j, 10, 10);
}

/* All */

/* Two iterations run at a time, never three, and never two of one lane. */
static void test_two_run_at_a_time(void **state)
{
	(void)state;
	for (size_t p = 0; sal_policies[p]; p++) {
		struct drv_load load = load_of(MS, 0);
		struct drv_job *jobs[5];

		if (sal_policies[p]->shares)
			continue; /* mix: below */
		start(sal_policies[p], 2);
		for (int i = 0; i < 5; i++)
			jobs[i] = drv_add(&d, &load);
		for (int k = 0; k < 500; k++) {
			const struct sal_lane *lanes[5];
			uint32_t running = 0;

			(void)drv_step(&d, DRV_NEVER);
			for (int i = 0; i < 5; i++)
				if (drv_runs(jobs[i]))
					lanes[running++] = jobs[i]->s->lane;
			if (running > 2 || (running == 2 && lanes[0] == lanes[1]) ||
			    (k > 20 && running < 2))
				fail_msg("%s: %u run at %" PRIu64, sal_policies[p]->name,
					 (unsigned)running, d.now_ns);
		}
		assert_int_equal(drv_lanes(&d), 2);
		drv_stop(&d);
	}
	drv_start(&d, 1, NULL, NULL); /* for stop() */
}

/* Fair */

/* Shares hold across lanes, and both lanes are busy all the time. */
static void test_fair_shares_across_lanes(void **state)
{
	struct drv_load slow = load_of(7 * MS, 1000), quick = load_of(MS, 3000);
	struct drv_job *jobs[4];
	uint64_t sum = 0;

	(void)state;
	start(&sal_policy_fair, 2);
	jobs[0] = drv_add(&d, &slow);
	jobs[1] = drv_add(&d, &quick);
	jobs[2] = drv_add(&d, &quick);
	jobs[3] = drv_add(&d, &slow);
	drv_run_until(&d, 20 * SEC);
	for (int i = 0; i < 4; i++) {
		const struct sal_session *s = jobs[i]->s;
		uint64_t share_ns = 40 * SEC * s->job.weight_milli / 8000;

		assert_in_range(s->used_ns, share_ns - 700 * MS, share_ns + 700 * MS);
		sum += s->used_ns;
	}
	assert_in_range(sum, 40 * SEC - 20 * MS, 40 * SEC);
}

/* The heaviest runs all the time; the others get no more than their shares beside it. */
static void test_fair_holds_back_for_a_heavy_one(void **state)
{
	struct drv_load heavy = load_of(MS, 8000), light = load_of(MS, 1000);
	struct drv_job *a, *b, *c;

	(void)state;
	start(&sal_policy_fair, 2);
	a = drv_add(&d, &heavy);
	b = drv_add(&d, &light);
	c = drv_add(&d, &light);
	drv_run_until(&d, 10 * SEC);
	assert_in_range(a->s->used_ns, 10 * SEC - 20 * MS, 10 * SEC);
	assert_in_range(b->s->used_ns, 1250 * MS - 250 * MS, 1250 * MS + 250 * MS);
	assert_in_range(b->s->used_ns, c->s->used_ns - 120 * MS, c->s->used_ns + 120 * MS);
}

/* A session that was held back owes at most a bounded time when the lanes become one. */
static void test_fair_moved_by_fewer_lanes(void **state)
{
	struct drv_load load = load_of(MS, 1000);
	struct drv_job *a, *b;
	uint64_t a_ns, b_ns;

	(void)state;
	start(&sal_policy_fair, 2);
	a = drv_add(&d, &load);
	drv_run_until(&d, 3 * SEC);
	load.start_ns = d.now_ns;
	load.job.weight_milli = 100; /* its clock runs ten times as fast */
	b = drv_add(&d, &load);
	drv_run_until(&d, 6 * SEC);
	assert_ptr_not_equal(a->s->lane, b->s->lane);
	load.job.weight_milli = 1000;
	drv_declare(&d, b, &load.job);
	d.tuning.lanes = 1;
	drv_set_tuning(&d, &d.tuning);
	drv_run_until(&d, d.now_ns + 2 * SEC);
	assert_int_equal(drv_lanes(&d), 1);
	a_ns = a->s->used_ns;
	b_ns = b->s->used_ns;
	drv_run_until(&d, d.now_ns + SEC);
	assert_in_range(a->s->used_ns - a_ns, 480 * MS, 520 * MS);
	assert_in_range(b->s->used_ns - b_ns, 480 * MS, 520 * MS);
}

/*
 * A new lane is level with the other; so one that waits outside meanwhile is level with either,
 * too.
 */
static void test_fair_waits_beside_a_new_lane(void **state)
{
	struct sal_job large = { .declared = { 100, 10 } };
	struct drv_job *a, *b, *c, *idle;

	(void)state;
	start(&sal_policy_fair, 2);
	d.tuning.page_bytes_per_s = 0;
	drv_set_tuning(&d, &d.tuning);
	a = open_kind(SAL_TRAINING, 0);
	for (int i = 0; i < 3; i++)
		submit(a);
	drv_done(&d, a, 3 * SEC);
	b = open_kind(SAL_TRAINING, 0);
	submit(b); /* what started last, in a lane of its own */
	assert_ptr_not_equal(a->s->lane, b->s->lane);
	idle = drv_open(&d, 900, 10);
	c = drv_open_job(&d, &large);
	for (int i = 0; i < 2; i++)
		drv_submit(&d, c, 100, 10);
	drv_close(&d, idle);
	assert_ptr_equal(a->s->lane, c->s->lane);
	drv_done(&d, a, MS);
	assert_true(drv_runs(c));
	drv_done(&d, c, MS);
	assert_true(drv_runs(a));
}

/* Mix */

/* One lane for each kind, however many there are of it. */
static void test_mix_keeps_kinds_apart(void **state)
{
	struct drv_job *t[2], *n[3];
	char order[16];

	(void)state;
	start(&sal_policy_mix, 2);
	n[0] = open_kind(SAL_INFERENCE, 0);
	n[1] = open_kind(SAL_INFERENCE, 0);
	t[0] = open_kind(SAL_TRAINING, 9 * SEC);
	t[1] = open_kind(SAL_TRAINING, 5 * SEC);
	n[2] = open_kind(SAL_INFERENCE, 0);
	for (int i = 0; i < 2; i++)
		assert_true(drv_is_in(t[i]));
	for (int i = 0; i < 3; i++) {
		assert_true(drv_is_in(n[i]));
		assert_ptr_equal(n[i]->s->lane, n[0]->s->lane);
	}
	assert_ptr_equal(t[0]->s->lane, t[1]->s->lane);
	assert_ptr_not_equal(t[0]->s->lane, n[0]->s->lane);
	/* Requests in the order in which they came; training by what remains. */
	submit(n[1]);
	d.now_ns += MS;
	submit(n[2]);
	d.now_ns += MS;
	submit(n[0]);
	submit(t[0]);
	submit(t[1]);
	submit(t[0]);
	drv_mark(&d);
	while (drv_runs(n[0]) || drv_runs(n[1]) || drv_runs(n[2]))
		drv_done(&d, drv_runs(n[0]) ? n[0] : drv_runs(n[1]) ? n[1] : n[2], MS);
	assert_string_equal(drv_grants(&d, order, sizeof(order)), "ea"); /* n[2], n[0] */
	drv_mark(&d);
	while (drv_runs(t[0]) || drv_runs(t[1]))
		drv_done(&d, drv_runs(t[0]) ? t[0] : t[1], MS);
	assert_string_equal(drv_grants(&d, order, sizeof(order)), "dc"); /* t[1], t[0] */
}

/*
 * Training comes first and inference later, and the other way round; and with the cap instead of
 * the limit.
 */
static void test_mix_leaves_a_lane_for_training(void **state)
{
	(void)state;
	for (int with_cap = 0; with_cap < 2; with_cap++) {
		struct drv_job *n[4], *t;

		start(&sal_policy_mix, with_cap ? 0 : 3);
		if (with_cap) {
			d.tuning.lane_cap = 3;
			drv_set_tuning(&d, &d.tuning);
		}
		for (int i = 0; i < 4; i++) {
			n[i] = open_kind(SAL_INFERENCE, 0);
			submit(n[i]);
		}
		assert_int_equal(drv_lanes(&d), 2);
		t = open_kind(SAL_TRAINING, SEC);
		submit(t);
		assert_true(drv_runs(t));
		assert_int_equal(drv_lanes(&d), 3);
		drv_stop(&d);
	}
	drv_start(&d, 1, NULL, NULL);
}

/* A job that changes its kind changes its lane. */
static void test_mix_declared_anew(void **state)
{
	struct sal_job training = { .declared = { 10, 10 } };
	struct drv_job *n, *t, *u;

	(void)state;
	start(&sal_policy_mix, 2);
	t = open_kind(SAL_TRAINING, SEC);
	n = open_kind(SAL_INFERENCE, 0);
	u = open_kind(SAL_INFERENCE, 0);
	assert_ptr_equal(n->s->lane, u->s->lane);
	drv_declare(&d, u, &training);
	assert_ptr_equal(t->s->lane, u->s->lane);
	assert_ptr_not_equal(n->s->lane, u->s->lane);
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_two_run_at_a_time),
		T(test_fair_shares_across_lanes),
		T(test_fair_holds_back_for_a_heavy_one),
		T(test_fair_moved_by_fewer_lanes),
		T(test_fair_waits_beside_a_new_lane),
		T(test_mix_keeps_kinds_apart),
		T(test_mix_leaves_a_lane_for_training),
		T(test_mix_declared_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
