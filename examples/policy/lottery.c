/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lottery - an example of a policy that draws lots: each turn goes to a random session, with a
 * probability in proportion to its weight.
 *
 * Over many turns lottery is as fair as rr, and its memory is only two numbers. The engine may call
 * `pick` several times for one turn, so the lane's slot stores the drawn session until that session
 * starts. The random generator is part of the state: the same events give the same schedule, in
 * salusd, in `salus sim` and in a replay.
 *
 * To use lottery, name build/lib/policy/lottery.so: `salus sim --policy build/lib/policy/lottery.so ...`. To
 * build lottery in, copy this file to src/core/policy/ and add it to src/core/policy/list.h.
 */
#include "core/policy/file.h"

struct lottery_state {
	uint64_t chance; /* state of the random generator */
};

struct lottery_lane {
	uint64_t drawn; /* id of the session that has this turn; 0: none */
};

static struct lottery_lane *slot_of(struct sal_lane *lane)
{
	return (struct lottery_lane *)lane->slot;
}

/* The rank decides about memory only: the oldest session first. */
static struct sal_rank lottery_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = s->id };
}

static void lottery_set(void *state, uint32_t param, uint64_t value)
{
	(void)param;
	((struct lottery_state *)state)->chance = value;
}

/* A random number below `bound`: upper half of a linear congruential generator, scaled. */
static uint64_t draw(struct lottery_state *lottery, uint64_t bound)
{
	lottery->chance = lottery->chance * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint64_t)(((unsigned __int128)(lottery->chance >> 32) * bound) >> 32);
}

static struct sal_session *holder_of(struct sal_lane *lane, uint64_t ticket)
{
	struct sal_session *s = sal_lane_first(lane);

	while (ticket >= sal_session_weight(s)) {
		ticket -= sal_session_weight(s);
		s = sal_lane_next(s);
	}
	return s;
}

static struct sal_session *lottery_pick(void *state, struct sal_lane *lane)
{
	struct sal_session *s;
	uint64_t tickets = 0;

	for (s = sal_lane_first(lane); s; s = sal_lane_next(s)) {
		if (s->id == slot_of(lane)->drawn)
			return s;
		tickets += sal_session_weight(s);
	}
	s = holder_of(lane, draw(state, tickets));
	slot_of(lane)->drawn = s->id;
	return s;
}

/* The drawn session starts: forget the draw. A short program of another session does not count. */
static void lottery_start(void *state, struct sal_session *s)
{
	(void)state;
	if (slot_of(s->lane)->drawn == s->id)
		slot_of(s->lane)->drawn = 0;
}

static const struct sal_param lottery_params[] = {
	{ "seed", "where chance starts: another seed, another order", SAL_UNIT_COUNT, 20200302, 0,
	  UINT32_MAX },
	{ 0 },
};

const struct sal_policy sal_policy_lottery = {
	.name = "lottery",
	.idea = "each turn by lot, in proportion to weights",
	.lane_slot_size = sizeof(struct lottery_lane),
	.state_size = sizeof(struct lottery_state),
	.lanes = 1,
	.draws_lots = true,
	.params = lottery_params,
	.rank = lottery_rank,
	.set = lottery_set,
	.start = lottery_start,
	.pick = lottery_pick,
};

SAL_POLICY_FILE(sal_policy_lottery);
