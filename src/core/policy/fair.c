/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair - equal or weighted device time, counted in nanoseconds.
 */
#include "core/policy/share.h"

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
	.enter = sal_share_enter,
	.wake = sal_share_wake,
	.start = sal_share_start,
	.charge = fair_charge,
	.prefers = fair_prefers,
};
