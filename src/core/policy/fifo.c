/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fifo - the oldest session of a lane owns the lane until the session ends, busy or idle.
 *
 * fifo has no state and cannot misbehave, so fifo replaces a policy that misbehaves.
 */
#include "core/policy.h"

static struct sal_rank fifo_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = s->id };
}

static bool fifo_prefers(const void *state, const struct sal_session *in,
			 const struct sal_session *out, uint64_t cost_ns)
{
	(void)state;
	(void)cost_ns;
	return in->id < out->id;
}

const struct sal_policy sal_policy_fifo = {
	.name = "fifo",
	.idea = "first come, first served: the oldest job owns its lane until it ends",
	.lanes = 1,
	.owns_lane = true,
	.rank = fifo_rank,
	.prefers = fifo_prefers,
};
