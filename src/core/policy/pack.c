/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack - as many lanes as fit, for the highest throughput.
 *
 * Within a lane the oldest session with work runs. The policy never prefers one session to another,
 * so only idle sessions are paged out, or any session to break a deadlock.
 */
#include "core/policy.h"

static struct sal_rank pack_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = s->id };
}

const struct sal_policy sal_policy_pack = {
	.name = "pack",
	.idea = "as many jobs side by side as memory allows",
	.lanes = SAL_LANES_MAX,
	.rank = pack_rank,
};
