/* SPDX-License-Identifier: Apache-2.0 */
/*
 * las - least attained service: the session with the least device time so far runs next.
 *
 * Short jobs finish early although their lengths are unknown.
 */
#include "core/policy.h"

struct las_state {
	uint64_t margin;
};

static struct sal_rank las_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = s->used_ns };
}

static void las_tune(void *state, const struct sal_tuning *tuning)
{
	((struct las_state *)state)->margin = tuning->page_margin;
}

static bool las_prefers(const void *state, const struct sal_session *in,
			const struct sal_session *out, uint64_t cost_ns)
{
	const struct las_state *las = state;

	return out->used_ns > in->used_ns && out->used_ns - in->used_ns > cost_ns * las->margin;
}

const struct sal_policy sal_policy_las = {
	.name = "las",
	.idea = "least attained service: good for short jobs when no length is known",
	.state_size = sizeof(struct las_state),
	.lanes = 1,
	.takes_turns = true,
	.rank = las_rank,
	.tune = las_tune,
	.prefers = las_prefers,
};
