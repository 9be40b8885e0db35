/* SPDX-License-Identifier: Apache-2.0 */
/* contract: the promises of core/policy.h, checked by policies that watch the engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/lane.h"
#include "core/policy.h"
#include "support/driver.h"

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

/* Reading all ranks again, and the alarm */

/* Oldest first or youngest first. The order flips after every 10 ms of device time. */
struct flip_state {
	uint64_t flips;
	bool asks; /* call sal_policy_reread; set if the last joined session has a priority > 0 */
};

static struct sal_rank flip_rank(const void *state, const struct sal_session *s)
{
	const struct flip_state *flip = state;

	return (struct sal_rank){ .minor = flip->flips % 2 ? 1000 - s->id : s->id };
}

static void flip_join(void *state, struct sal_session *s)
{
	struct flip_state *flip = state;

	flip->asks = s->job.priority > 0;
	if (s->id == 1)
		sal_policy_wake_after(state, 10 * MS);
}

static void flip_alarm(void *state)
{
	struct flip_state *flip = state;

	flip->flips++;
	if (flip->asks)
		sal_policy_reread(state);
	sal_policy_wake_after(state, 10 * MS);
}

static const struct sal_policy flip_policy = {
	.name = "flip",
	.state_size = sizeof(struct flip_state),
	.lanes = 1,
	.rank = flip_rank,
	.join = flip_join,
	.alarm = flip_alarm,
};

static void start_flip(struct drv_job *j[3], uint32_t priority)
{
	struct sal_job job = { .declared = { 10, 10 }, .priority = priority };

	drv_start(&d, 1000, &flip_policy, NULL);
	for (int i = 0; i < 3; i++)
		j[i] = drv_open_job(&d, &job);
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 4; k++)
			drv_submit(&d, j[i], 10, 10);
}

static void test_ranks_are_read_again_on_request(void **state)
{
	struct drv_job *j[3];

	(void)state;
	start_flip(j, 1);
	drv_done(&d, j[0], 9 * MS);
	assert_true(drv_runs(j[0])); /* not yet */
	drv_done(&d, j[0], MS);
	assert_true(drv_runs(j[2]));
	drv_done(&d, j[2], 9 * MS);
	assert_true(drv_runs(j[2]));
	drv_done(&d, j[2], 50 * MS); /* one alarm call, even if several are overdue */
	assert_true(drv_runs(j[0]));
}

/* Without sal_policy_reread, the ranks of other sessions stay: c does not come first. */
static void test_ranks_of_others_stay_without_request(void **state)
{
	struct drv_job *j[3];

	(void)state;
	start_flip(j, 0);
	drv_done(&d, j[0], 10 * MS);
	assert_true(drv_runs(j[1]));
}

static void test_a_new_policy_hears_no_old_alarm(void **state)
{
	struct sal_policy quiet = flip_policy;
	struct drv_job *j[3];

	(void)state;
	quiet.join = NULL;
	start_flip(j, 1);
	drv_done(&d, j[0], 9 * MS);
	drv_set_policy(&d, &quiet);
	for (int i = 0; i < 3; i++)
		drv_done(&d, j[0], 10 * MS);
	assert_true(drv_runs(j[1])); /* a has no work left; the old alarm would have put c first */
}

/* The lane's slot */

/* Stores in the lane's slot which session ran there first, and picks that session while ready. */
static struct sal_rank faithful_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = s->id };
}

static void faithful_start(void *state, struct sal_session *s)
{
	(void)state;
	if (s->lane->slot[0] == 0)
		memset(s->lane->slot, (int)s->id, SAL_LANE_SLOT_BYTES);
}

static struct sal_session *faithful_pick(void *state, struct sal_lane *lane)
{
	struct sal_session *s;

	(void)state;
	for (s = sal_lane_first(lane); s; s = sal_lane_next(s))
		if (s->id == lane->slot[0])
			return s;
	return sal_lane_first(lane);
}

static const struct sal_policy faithful_policy = {
	.name = "faithful",
	.lane_slot_size = SAL_LANE_SLOT_BYTES,
	.lanes = 1,
	.rank = faithful_rank,
	.start = faithful_start,
	.pick = faithful_pick,
};

static void test_a_lane_remembers_for_the_policy(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	drv_start(&d, 1000, &faithful_policy, NULL);
	a = drv_open(&d, 10, 10);
	b = drv_open(&d, 10, 10);
	drv_submit(&d, b, 10, 10);
	drv_submit(&d, b, 10, 10);
	drv_submit(&d, a, 10, 10);
	drv_done(&d, b, MS);
	assert_true(drv_runs(b));
	/* After the policy is chosen again, the slots are zero: it picks a, the older session. */
	drv_submit(&d, b, 10, 10);
	drv_set_policy(&d, &faithful_policy);
	drv_done(&d, b, MS);
	assert_true(drv_runs(a));
}

static void test_a_lane_is_opened_with_an_empty_slot(void **state)
{
	struct drv_job *a, *b, *c;

	(void)state;
	drv_start(&d, 1000, &faithful_policy, NULL);
	a = drv_open(&d, 10, 10);
	drv_submit(&d, a, 10, 10);
	drv_done(&d, a, MS);
	drv_close(&d, a);
	assert_int_equal(drv_lanes(&d), 0);
	b = drv_open(&d, 10, 10);
	c = drv_open(&d, 10, 10);
	drv_submit(&d, c, 10, 10);
	assert_int_equal(c->s->lane->slot[0], c->s->id);
	drv_submit(&d, c, 10, 10);
	drv_submit(&d, b, 10, 10);
	drv_done(&d, c, MS);
	assert_true(drv_runs(c));
}

static void test_a_slot_that_is_too_large_is_refused(void **state)
{
	struct sal_policy huge = faithful_policy;
	struct sal_err err = { 0 };

	(void)state;
	huge.lane_slot_size++;
	drv_start(&d, 1000, &faithful_policy, NULL);
	assert_int_equal(sal_engine_set_policy(d.engine, d.now_ns, &huge, &err),
			 -SAL_INVALID_ARGUMENT);
	assert_ptr_equal(sal_engine_policy(d.engine), &faithful_policy);
}

/* Answers out of range */

static uint32_t deep_tier(const void *state, const struct sal_session *s, bool is_first)
{
	(void)state;
	(void)s;
	(void)is_first;
	return 77;
}

/* Callers index by the tier of a grant. */
static void test_a_tier_is_at_most_1(void **state)
{
	struct sal_policy deep = faithful_policy;
	struct sal_tuning tuning = drv_plain_tuning();
	struct drv_job *a;

	(void)state;
	deep.tier = deep_tier;
	tuning.lanes = 2;
	tuning.tiers = 2;
	drv_start(&d, 1000, &deep, &tuning);
	a = drv_open(&d, 10, 10);
	drv_submit(&d, a, 10, 10);
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->value, 1);
	assert_int_equal(a->s->tier, 1);
}

static bool opens_none(const void *state, const struct sal_session *s, uint32_t open)
{
	(void)state;
	(void)s;
	(void)open;
	return false;
}

/* Nobody would ever run. */
static void test_a_policy_that_opens_no_lane_is_ejected(void **state)
{
	struct sal_policy shut = faithful_policy;
	struct drv_job *a;

	(void)state;
	shut.opens = opens_none;
	drv_start(&d, 1000, &shut, NULL);
	a = drv_open(&d, 10, 10);
	drv_submit(&d, a, 10, 10);
	assert_int_equal(drv_last(&d, SAL_EJECT, NULL)->reason, SAL_EJECT_SHUT);
	assert_ptr_equal(sal_engine_policy(d.engine), &sal_policy_fifo);
	assert_true(drv_runs(a));
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_ranks_are_read_again_on_request),
		T(test_ranks_of_others_stay_without_request),
		T(test_a_new_policy_hears_no_old_alarm),
		T(test_a_lane_remembers_for_the_policy),
		T(test_a_lane_is_opened_with_an_empty_slot),
		T(test_a_slot_that_is_too_large_is_refused),
		T(test_a_tier_is_at_most_1),
		T(test_a_policy_that_opens_no_lane_is_ejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
