/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadline - earliest deadline first.
 *
 * An iteration of a session with a deadline must end within deadline_ns of its submission. Of two
 * such sessions, the one whose next iteration is due first runs first. Then follow inference
 * without a deadline, oldest request first, sessions of unknown kind, and training by shortest
 * remaining time. Inference and training have lanes of their own, as under mix.
 *
 * The policy refuses what cannot be met: load.h.
 */
#include "core/policy/apart.h"
#include "core/policy/load.h"
#include "core/policy/srtf.h"

struct deadline_state {
	uint64_t guess_ns;
	uint64_t load; /* sum of the loads of all sessions */
	uint32_t lanes; /* most lanes; 0: no limit */
};

/* The smaller one runs first, and may page out the larger one. */
enum standing {
	DUE,
	INFERENCE,
	TRAINING
};

static enum standing standing_of(const struct sal_session *s)
{
	if (s->job.deadline_ns)
		return DUE;
	return s->job.kind == SAL_INFERENCE ? INFERENCE : TRAINING;
}

static uint64_t remaining(const void *state, const struct sal_session *s)
{
	return sal_srtf_remaining(s, ((const struct deadline_state *)state)->guess_ns);
}

/* A session without work is last of its standing: no deadline waits for a reserved turn. */
static struct sal_rank deadline_rank(const void *state, const struct sal_session *s)
{
	const struct sal_iteration *head = TAILQ_FIRST(&s->queue);
	struct sal_rank rank = { .major = standing_of(s), .minor = UINT64_MAX };

	if (rank.major == TRAINING) {
		rank.major += sal_apart_is_new(s) ? 0 : 1;
		rank.minor = sal_srtf_place(s, ((const struct deadline_state *)state)->guess_ns);
	} else if (head &&
		   __builtin_add_overflow(head->submit_ns, s->job.deadline_ns, &rank.minor)) {
		rank.minor = UINT64_MAX;
	}
	return rank;
}

static void deadline_tune(void *state, const struct sal_tuning *tuning)
{
	struct deadline_state *d = state;

	d->guess_ns = tuning->guess_ns;
	d->lanes = tuning->lanes && tuning->lanes != SAL_LANES_AUTO ? tuning->lanes
								    : tuning->lane_cap;
}

static enum sal_reason deadline_accepts(void *state, struct sal_session *s,
					const struct sal_iteration *it, uint64_t *out_value)
{
	struct deadline_state *d = state;

	return sal_load_accepts(&d->load, (struct sal_load *)s->slot, s, it, out_value);
}

static void deadline_leave(void *state, struct sal_session *s)
{
	struct deadline_state *d = state;

	sal_load_drop(&d->load, (struct sal_load *)s->slot);
}

static bool deadline_prefers(const void *state, const struct sal_session *in,
			     const struct sal_session *out, uint64_t cost_ns)
{
	if (standing_of(in) != standing_of(out))
		return standing_of(in) < standing_of(out);
	return standing_of(in) == TRAINING &&
	       remaining(state, in) + cost_ns < remaining(state, out);
}

static bool deadline_shares(const void *state, const struct sal_lane *lane,
			    const struct sal_session *s)
{
	(void)state;
	return sal_apart_shares(lane, s);
}

static bool deadline_opens(const void *state, const struct sal_session *s, uint32_t open)
{
	return sal_apart_opens(s, open, ((const struct deadline_state *)state)->lanes);
}

static uint32_t deadline_tier(const void *state, const struct sal_session *s, bool is_first)
{
	(void)state;
	(void)is_first;
	return standing_of(s) == TRAINING ? 1 : 0;
}

const struct sal_policy sal_policy_deadline = {
	.name = "deadline",
	.idea = "earliest deadline first, training by shortest remaining time",
	.slot_size = sizeof(struct sal_load),
	.state_size = sizeof(struct deadline_state),
	.lanes = SAL_LANES_MAX,
	.rank = deadline_rank,
	.tune = deadline_tune,
	.accepts = deadline_accepts,
	.leave = deadline_leave,
	.prefers = deadline_prefers,
	.shares = deadline_shares,
	.opens = deadline_opens,
	.tier = deadline_tier,
};
