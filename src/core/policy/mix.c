/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mix - inference beside training.
 *
 * Inference gets its own lanes (apart.h). In an inference lane, the oldest request runs first.
 * Training sessions share one lane by shortest remaining time, after sessions of unknown kind.
 * Training is paged out to make room for inference.
 */
#include "core/policy/apart.h"
#include "core/policy/srtf.h"

struct mix_state {
	uint64_t guess_ns;
	uint32_t lanes; /* most lanes; 0: no limit */
};

static struct sal_rank mix_rank(const void *state, const struct sal_session *s)
{
	const struct sal_iteration *head = TAILQ_FIRST(&s->queue);
	const struct mix_state *mix = state;

	if (s->job.kind == SAL_INFERENCE)
		return (struct sal_rank){ .minor = head ? head->submit_ns : s->open_ns };
	return (struct sal_rank){ .major = sal_apart_is_new(s) ? 1 : 2,
				  .minor = sal_srtf_place(s, mix->guess_ns) };
}

static void mix_tune(void *state, const struct sal_tuning *tuning)
{
	struct mix_state *mix = state;

	mix->guess_ns = tuning->guess_ns;
	mix->lanes = tuning->lanes && tuning->lanes != SAL_LANES_AUTO ? tuning->lanes
								      : tuning->lane_cap;
}

static bool mix_prefers(const void *state, const struct sal_session *in,
			const struct sal_session *out, uint64_t cost_ns)
{
	const struct mix_state *mix = state;

	if (in->job.kind != out->job.kind)
		return in->job.kind == SAL_INFERENCE;
	return in->job.kind == SAL_TRAINING && sal_srtf_remaining(in, mix->guess_ns) + cost_ns <
						       sal_srtf_remaining(out, mix->guess_ns);
}

static bool mix_shares(const void *state, const struct sal_lane *lane, const struct sal_session *s)
{
	(void)state;
	return sal_apart_shares(lane, s);
}

static uint32_t mix_tier(const void *state, const struct sal_session *s, bool is_first)
{
	(void)state;
	(void)is_first;
	return s->job.kind == SAL_INFERENCE ? 0 : 1;
}

static bool mix_opens(const void *state, const struct sal_session *s, uint32_t open)
{
	return sal_apart_opens(s, open, ((const struct mix_state *)state)->lanes);
}

const struct sal_policy sal_policy_mix = {
	.name = "mix",
	.idea = "inference in lanes of its own, training by shortest remaining time",
	.state_size = sizeof(struct mix_state),
	.lanes = SAL_LANES_MAX,
	.rank = mix_rank,
	.tune = mix_tune,
	.prefers = mix_prefers,
	.shares = mix_shares,
	.opens = mix_opens,
	.tier = mix_tier,
};
