/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srtf - shortest remaining time first, preempting at the next iteration.
 */
#include "core/policy/srtf.h"

/* The first turn of a session of which nothing is known. */
#define TURN_NS UINT64_C(1000000000)
/*
 * A job that has used twice its length is expected to take at most so many times what it has used.
 * One that declares too little gets ahead of others by this part of what they need, and no more.
 */
#define OVERRUN 16

enum {
	PARAM_ALIKE
};

struct srtf_state {
	uint64_t guess_ns;
	uint64_t alike; /* a factor */
};

/*
 * A length is an estimate, and so is time alone beside others. A job that goes on after its end is
 * expected to take as much longer as it is late already. When it has used twice its length, nothing
 * is known about it.
 */
static bool is_known(const struct sal_session *s)
{
	return s->used_ns / 2 < s->job.total_ns;
}

uint64_t sal_srtf_remaining(const struct sal_session *s, uint64_t guess_ns)
{
	uint64_t unknown_ns = s->used_ns > guess_ns ? s->used_ns : guess_ns;

	if (s->job.total_ns > s->used_ns)
		return s->job.total_ns - s->used_ns;
	if (is_known(s))
		return s->used_ns - s->job.total_ns + 1;
	/* A job of a second that took two is no job of ten minutes. */
	if (s->job.total_ns > 0 && s->used_ns < unknown_ns / OVERRUN)
		return s->used_ns * OVERRUN;
	return unknown_ns;
}

static uint64_t remaining(const void *state, const struct sal_session *s)
{
	return sal_srtf_remaining(s, ((const struct srtf_state *)state)->guess_ns);
}

/*
 * Among sessions of which nothing is known, those that had the least go first. Those that had about
 * the same take turns that double, so that they do not change places all the time.
 */
static uint64_t attained(const struct sal_session *s)
{
	uint64_t had = s->used_ns / TURN_NS;

	return had ? 64 - (uint64_t)__builtin_clzll(had) : 0;
}

uint64_t sal_srtf_place(const struct sal_session *s, uint64_t guess_ns)
{
	uint64_t remaining_ns = sal_srtf_remaining(s, guess_ns);
	uint64_t turns = is_known(s) ? 0
				     : 1 + attained(s); /* as nanoseconds: they only break ties */

	return remaining_ns < UINT64_MAX - turns ? remaining_ns + turns : UINT64_MAX;
}

static struct sal_rank srtf_rank(const void *state, const struct sal_session *s)
{
	return (struct sal_rank){ .major = remaining(state, s),
				  .minor = is_known(s) ? 0 : 1 + attained(s) };
}

static void srtf_tune(void *state, const struct sal_tuning *tuning)
{
	((struct srtf_state *)state)->guess_ns = tuning->guess_ns;
}

static bool srtf_prefers(const void *state, const struct sal_session *in,
			 const struct sal_session *out, uint64_t cost_ns)
{
	return remaining(state, in) + cost_ns < remaining(state, out);
}

static void srtf_set(void *state, uint32_t param, uint64_t value)
{
	(void)param;
	((struct srtf_state *)state)->alike = value;
}

/*
 * Two jobs side by side get more done than one after the other. If they need about the same time,
 * the first loses less by that than all others gain.
 */
static bool srtf_is_equal(const void *state, const struct sal_session *first,
			  const struct sal_session *s)
{
	uint64_t alike = ((const struct srtf_state *)state)->alike;

	return remaining(state, s) / alike < remaining(state, first);
}

static uint32_t srtf_tier(const void *state, const struct sal_session *s, bool is_first)
{
	(void)state;
	(void)s;
	return is_first ? 0 : 1;
}

static const struct sal_param srtf_params[] = {
	[PARAM_ALIKE] = { "alike",
			  "jobs whose remaining times differ by a smaller factor are equals",
			  SAL_UNIT_COUNT, 8, 1, 1000 },
	{ 0 },
};

const struct sal_policy sal_policy_srtf = {
	.name = "srtf",
	.idea = "shortest remaining time first: the least waiting on average",
	.state_size = sizeof(struct srtf_state),
	.lanes = 1,
	.guards_first = true,
	.params = srtf_params,
	.rank = srtf_rank,
	.tune = srtf_tune,
	.set = srtf_set,
	.prefers = srtf_prefers,
	.tier = srtf_tier,
	.is_equal = srtf_is_equal,
};
