/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rr - equal or weighted numbers of iterations, however long each iteration takes.
 */
#include "core/policy/share.h"

/* With several lanes, a session may be ahead of another by so many thousandths of iterations. */
#define AHEAD UINT64_C(2000)

static void rr_charge(void *state, struct sal_session *s, uint64_t used_ns)
{
	(void)state;
	(void)used_ns;
	sal_share_add(s, 1000); /* in thousandths, so that division by weights stays exact enough */
}

/* True if the iterations that `in` is behind take longer than the copies times the margin. */
static bool rr_prefers(const void *state, const struct sal_session *in,
		       const struct sal_session *out, uint64_t cost_ns)
{
	const struct sal_share_state *share = state;
	uint64_t each_ns = out->done_iterations ? out->used_ns / out->done_iterations : 0;

	return sal_share_arrears(in, out) / 1000 * each_ns > cost_ns * share->margin;
}

static bool rr_waits(const void *state, const struct sal_session *s,
		     const struct sal_session *first)
{
	(void)state;
	return sal_share_arrears(first, s) * sal_session_weight(s) / 1000 > AHEAD;
}

const struct sal_policy sal_policy_rr = {
	.name = "rr",
	.idea = "equal numbers of iterations for all, in turn",
	.slot_size = sizeof(struct sal_share_slot),
	.state_size = sizeof(struct sal_share_state),
	.lanes = 1,
	.takes_turns = true,
	.rank = sal_share_rank,
	.tune = sal_share_tune,
	.join = sal_share_join,
	.wake = sal_share_wake,
	.start = sal_share_start,
	.charge = rr_charge,
	.prefers = rr_prefers,
	.waits = rr_waits,
};
