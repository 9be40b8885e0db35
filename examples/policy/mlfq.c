/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlfq - an example of a policy with an alarm: a multi-level feedback queue with a boost.
 *
 * Every session starts at the top level. A session that has used up the quantum of its level goes
 * one level down, where turns come later but are twice as long. At the lowest level sessions take
 * turns. After `boost` of device time all sessions return to the top, so no session waits for ever
 * behind new sessions. The boost changes the ranks of all sessions at once: the alarm increments
 * the era and calls sal_policy_reread(). A slot of an older era counts as a new slot.
 *
 * To use mlfq, name build/lib/policy/mlfq.so: `salus sim --policy build/lib/policy/mlfq.so ...`. To
 * build mlfq in, copy this file to src/core/policy/ and add it to src/core/policy/list.h.
 */
#include "core/policy/file.h"

#define LEVELS 4u

enum {
	PARAM_QUANTUM,
	PARAM_BOOST
};

struct mlfq_state {
	uint64_t era; /* number of boosts so far */
	uint64_t next_turn;
	uint64_t quantum_ns, boost_ns;
};

struct mlfq_slot {
	uint64_t era;
	uint64_t turn; /* order within a level */
	uint64_t used_ns; /* used part of the quantum */
	uint32_t level;
};

static struct mlfq_slot *slot_of(struct sal_session *s)
{
	return (struct mlfq_slot *)s->slot;
}

static uint32_t level_of(const void *state, const struct sal_session *s)
{
	const struct mlfq_slot *slot = (const struct mlfq_slot *)s->slot;

	return slot->era == ((const struct mlfq_state *)state)->era ? slot->level : 0;
}

static struct sal_rank mlfq_rank(const void *state, const struct sal_session *s)
{
	return (struct sal_rank){
		.major = level_of(state, s),
		.minor = ((const struct mlfq_slot *)s->slot)->turn,
	};
}

static void mlfq_set(void *state, uint32_t param, uint64_t value)
{
	struct mlfq_state *mlfq = state;

	if (param == PARAM_QUANTUM)
		mlfq->quantum_ns = value;
	else
		sal_policy_wake_after(state, mlfq->boost_ns = value);
}

static void mlfq_join(void *state, struct sal_session *s)
{
	struct mlfq_state *mlfq = state;

	*slot_of(s) = (struct mlfq_slot){ .era = mlfq->era, .turn = mlfq->next_turn++ };
}

static void mlfq_charge(void *state, struct sal_session *s, uint64_t used_ns)
{
	struct mlfq_state *mlfq = state;
	struct mlfq_slot *slot = slot_of(s);

	if (slot->era != mlfq->era)
		*slot = (struct mlfq_slot){ .era = mlfq->era, .turn = slot->turn };
	slot->used_ns += used_ns;
	if (slot->used_ns < mlfq->quantum_ns << slot->level)
		return;
	slot->used_ns = 0;
	slot->turn = mlfq->next_turn++;
	if (slot->level + 1 < LEVELS)
		slot->level++;
}

static void mlfq_alarm(void *state)
{
	struct mlfq_state *mlfq = state;

	mlfq->era++;
	sal_policy_reread(state);
	sal_policy_wake_after(state, mlfq->boost_ns);
}

/* True if `in` is at a higher level and the copies take less than the top level's quantum. */
static bool mlfq_prefers(const void *state, const struct sal_session *in,
			 const struct sal_session *out, uint64_t cost_ns)
{
	return level_of(state, in) < level_of(state, out) &&
	       cost_ns < ((const struct mlfq_state *)state)->quantum_ns;
}

#define MS UINT64_C(1000000)
#define HOUR (UINT64_C(3600000) * MS)

static const struct sal_param mlfq_params[] = {
	[PARAM_QUANTUM] = { "quantum", "device time at the top level; twice as much at each below",
			    SAL_UNIT_TIME, 100 * MS, MS, HOUR },
	[PARAM_BOOST] = { "boost", "device time after which all are at the top again",
			  SAL_UNIT_TIME, 10000 * MS, MS, 1000 * HOUR },
	{ 0 },
};

const struct sal_policy sal_policy_mlfq = {
	.name = "mlfq",
	.idea = "feedback queue: who used much goes down a level, and up again with the boost",
	.slot_size = sizeof(struct mlfq_slot),
	.state_size = sizeof(struct mlfq_state),
	.lanes = 1,
	.params = mlfq_params,
	.rank = mlfq_rank,
	.set = mlfq_set,
	.join = mlfq_join,
	.charge = mlfq_charge,
	.alarm = mlfq_alarm,
	.prefers = mlfq_prefers,
};

SAL_POLICY_FILE(sal_policy_mlfq);
