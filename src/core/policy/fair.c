/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair - equal or weighted device time, counted in nanoseconds.
 */
#include "core/policy/share.h"

/* With several lanes, a session may be ahead of another by so much device time. */
#define AHEAD_NS UINT64_C(100000000)

static void fair_charge(void *state, struct sal_session *s, uint64_t used_ns)
{
	(void)state;
	sal_share_add(s, used_ns);
}

static bool fair_prefers(const void *state, const struct sal_session *in,
			 const struct sal_session *out, uint64_t cost_ns)
{
	const struct sal_share_state *share = state;

	return sal_share_arrears(in, out) > cost_ns * share->margin;
}

/* Iterations have a length: a session is ahead by one of its own before it can wait. */
static bool fair_waits(const void *state, const struct sal_session *s,
		       const struct sal_session *first)
{
	uint64_t each_ns = s->done_iterations ? s->used_ns / s->done_iterations : 0;

	(void)state;
	return sal_share_arrears(first, s) * sal_session_weight(s) / 1000 > AHEAD_NS + each_ns;
}

const struct sal_policy sal_policy_fair = {
	.name = "fair",
	.idea = "equal device time for all, or in proportion to their weights",
	.slot_size = sizeof(struct sal_share_slot),
	.state_size = sizeof(struct sal_share_state),
	.lanes = 1,
	.takes_turns = true,
	.rank = sal_share_rank,
	.tune = sal_share_tune,
	.join = sal_share_join,
	.wake = sal_share_wake,
	.start = sal_share_start,
	.charge = fair_charge,
	.prefers = fair_prefers,
	.waits = fair_waits,
};
