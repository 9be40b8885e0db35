/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priority - the most important job with work runs; other jobs run when it has no work.
 *
 * Smaller numbers are more important. Among equal priorities, the older session runs first.
 */
#include "core/policy.h"

static struct sal_rank priority_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .major = s->job.priority, .minor = s->id };
}

static bool priority_prefers(const void *state, const struct sal_session *in,
			     const struct sal_session *out, uint64_t cost_ns)
{
	(void)state;
	(void)cost_ns;
	return in->job.priority < out->job.priority;
}

static uint32_t priority_tier(const void *state, const struct sal_session *s, bool is_first)
{
	(void)state;
	(void)s;
	return is_first ? 0 : 1;
}

const struct sal_policy sal_policy_priority = {
	.name = "priority",
	.idea = "the most important job first, preempting at the next iteration",
	.lanes = 1,
	.guards_first = true,
	.rank = priority_rank,
	.prefers = priority_prefers,
	.tier = priority_tier,
};
