/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice - an example of a policy: sessions take turns of one second of device time each.
 *
 * slice is fairer than fifo and switches far less often than fair. A session's rank is the number
 * of its turn. When its second is used up, the session takes the next free number, and so goes to
 * the end of the line.
 */
#include "core/policy/file.h"

#define SLICE_NS UINT64_C(1000000000)

struct slice_state {
	uint64_t next_turn;
};

struct slice_slot {
	uint64_t turn;
	uint64_t used_ns; /* of this turn */
};

static struct slice_slot *slot_of(struct sal_session *s)
{
	return (struct slice_slot *)s->slot;
}

static struct sal_rank slice_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = ((const struct slice_slot *)s->slot)->turn };
}

/* A newcomer, and one whose turn is over, goes to the end of the line. */
static void slice_join(void *state, struct sal_session *s)
{
	*slot_of(s) = (struct slice_slot){ .turn = ((struct slice_state *)state)->next_turn++ };
}

static void slice_charge(void *state, struct sal_session *s, uint64_t used_ns)
{
	slot_of(s)->used_ns += used_ns;
	if (slot_of(s)->used_ns >= SLICE_NS)
		slice_join(state, s);
}

/* Worth a swap if its turn comes first and the copies are short against a turn. */
static bool slice_prefers(const void *state, const struct sal_session *in,
			  const struct sal_session *out, uint64_t cost_ns)
{
	(void)state;
	return slice_rank(state, in).minor < slice_rank(state, out).minor &&
	       cost_ns * 10 < SLICE_NS;
}

const struct sal_policy sal_policy_slice = {
	.name = "slice",
	.idea = "everybody in turn, for a second of device time each",
	.slot_size = sizeof(struct slice_slot),
	.state_size = sizeof(struct slice_state),
	.lanes = 1,
	.takes_turns = true,
	.rank = slice_rank,
	.join = slice_join,
	.charge = slice_charge,
	.prefers = slice_prefers,
};

SAL_POLICY_FILE(sal_policy_slice);
