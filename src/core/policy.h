/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - the contract between the engine and a scheduling policy.
 *
 * A policy gives every session a rank. The engine keeps sessions in that order where it matters:
 * ready in a lane, waiting for memory, candidates to be paged out. It does the memory and calls the
 * policy when something happened. A policy never sees a clock, allocates nothing and cannot block.
 * The same calls give the same answers, chance included: a policy that draws lots carries its own
 * generator.
 *
 * Memory of a policy: `state` (one for the engine), each session's `slot` and each lane's `slot`.
 * All are zeroed when the policy is chosen; then come `tune`, `set` for every parameter, `join` for
 * every session, and `enter` for those in a lane. A lane's slot is also zeroed when the lane is
 * opened. Fields of sessions and lanes that are not the policy's are read-only.
 *
 * When ranks are read. The engine reads a session's rank again after every event about that
 * session: it was opened, declared something, asked for memory, submitted, started or ended an
 * iteration, was copied, moved, paused or resumed. So a rank may depend on anything in the session,
 * and on what an op changed when it was called for that session. After `tune` and `set` the engine
 * reads all ranks again. A policy that changes the rank of other sessions (a common clock, a boost)
 * must say so: sal_policy_reread().
 *
 * A policy that misbehaves (picks what is not ready, or prefers a over b and b over a) is replaced
 * by fifo on the spot, and the engine emits SAL_EJECT.
 */
#ifndef SAL_CORE_POLICY_H
#define SAL_CORE_POLICY_H

#include "core/policies.h"
#include "core/session.h"
#include "core/tuning.h"

struct sal_policy {
	const char *name;
	const char *idea; /* one line for people */
	size_t slot_size; /* of a session; at most SAL_SLOT_BYTES */
	size_t lane_slot_size; /* at most SAL_LANE_SLOT_BYTES */
	size_t state_size; /* at most SAL_STATE_BYTES */

	/* Lanes it wants if the operator names no number: 1, or SAL_LANES_MAX for all that fit. */
	uint32_t lanes;

	/* The first session of a lane owns it while it lives, also between its iterations; and
	 * nobody is let in before one that goes before it. */
	bool owns_lane;

	/* Whoever had a turn goes behind the others. So who waits can be told how long. */
	bool takes_turns;

	/* Chance decides: equal sessions do not go in order of age. */
	bool draws_lots;

	/*
	 * Parameters of its own, at most SAL_PARAMS_MAX, ended by one without a name; NULL: none.
	 * No name is that of a knob.
	 */
	const struct sal_param *params;

	/*
	 * Required. The order of sessions: the smaller rank runs first, ties go to the older. No
	 * side effects.
	 */
	struct sal_rank (*rank)(const void *state, const struct sal_session *s);

	/* Optional. The policy was chosen (state is zero), or the tuning changed. */
	void (*tune)(void *state, const struct sal_tuning *tuning);

	/*
	 * Required if there are params. The policy was chosen (a call for each parameter, with its
	 * default), or a person changed this one. All ranks are read again.
	 */
	void (*set)(void *state, uint32_t param, uint64_t value);

	/* Optional. s was opened, or was there when the policy was chosen. */
	void (*join)(void *state, struct sal_session *s);

	/* Optional. s got s->lane: admitted, paged in or moved. */
	void (*enter)(void *state, struct sal_session *s);

	/* Optional. s has work again after it had none and its turn was no longer reserved. */
	void (*wake)(void *state, struct sal_session *s);

	/*
	 * Optional. An iteration of s starts in s->lane: the one that was picked, or a short
	 * program that passes ahead of the order.
	 */
	void (*start)(void *state, struct sal_session *s);

	/* Optional. An iteration ended; used_ns is device time, already added to s->used_ns. */
	void (*charge)(void *state, struct sal_session *s, uint64_t used_ns);

	/* Optional. The device time that sal_policy_wake_after() named has been used. */
	void (*alarm)(void *state);

	/* Optional. s is about to be forgotten. */
	void (*leave)(void *state, struct sal_session *s);

	/*
	 * Optional. Is it worth paging `out` out to let `in` run, when the copies take cost_ns?
	 * Asked only if `in` would run next. Must not say yes both ways round. Default: no.
	 */
	bool (*prefers)(const void *state, const struct sal_session *in,
			const struct sal_session *out, uint64_t cost_ns);

	/* Optional. May s live in that lane? Default: yes. */
	bool (*shares)(const void *state, const struct sal_lane *lane, const struct sal_session *s);

	/* Optional. May one more lane be opened for s, with `open` of its kind open? Default: yes.
	 * The number of lanes is bounded by the operator or by .lanes in any case. */
	bool (*opens)(const void *state, const struct sal_session *s, uint32_t open);

	/*
	 * Optional. Choose among the ready sessions of the lane (sal_lane_first, sal_lane_next):
	 * those that may run now, and those with nothing queued whose turn is reserved. If one of
	 * the latter is picked, the lane waits for it. Must return one of them. Default: the first.
	 *
	 * Called any number of times for one turn: after every event that concerns the lane while
	 * nothing runs in it. A short program may go ahead of the session that was picked. So a
	 * draw must be remembered, in the lane's slot, until `start` is called for the session that
	 * was drawn, or until that session is not among the ready ones any more.
	 *
	 * sal_engine_explain() asks at any time, and takes back what the answer changed in the
	 * state and in the lane's slot. So `pick` must not change anything else.
	 */
	struct sal_session *(*pick)(void *state, struct sal_lane *lane);
};

/*
 * For policies, from within any op that gets a mutable state. Read the ranks of all sessions again,
 * before the next decision: within this event if its decision is not made yet, else with the next
 * event. Costs a call of `rank` for each session.
 */
void sal_policy_reread(void *state);

/*
 * Call `alarm` once, when all sessions together have used so much more device time. The last call
 * counts.
 */
void sal_policy_wake_after(void *state, uint64_t device_ns);

/* The ready sessions of a lane in rank order; NULL at the end. */
struct sal_session *sal_lane_first(const struct sal_lane *lane);
struct sal_session *sal_lane_next(const struct sal_session *s);

#endif
