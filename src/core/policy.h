/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - the contract between the engine and a scheduling policy.
 *
 * A policy gives every session a rank. The engine sorts sessions by rank: the ready sessions of a
 * lane, the sessions that wait for memory, and the candidates for paging out. The engine manages
 * the memory and calls the policy after events. A policy never sees a clock, allocates nothing and
 * cannot block. The same calls give the same answers, even for a policy that draws lots: such a
 * policy has its own random generator in its state.
 *
 * Memory of a policy: `state` (one per engine), each session's `slot` and each lane's `slot`. The
 * engine zeroes all of them when the policy is chosen. The engine then calls `tune`, `set` for each
 * parameter, `join` for each session, and `enter` for each session in a lane. The engine also
 * zeroes a lane's slot when it opens the lane. A policy may change its state, the slots and a
 * lane's `clock`; all other fields are read-only.
 *
 * When ranks are read. The engine reads a session's rank again after every event about that
 * session: the session was opened, declared something, asked for memory, submitted, started or
 * ended an iteration, was copied, moved, paused or resumed. So a rank may depend on any field of
 * the session, and on changes that an op made when the engine called the op for that session. After
 * `tune` and `set` the engine reads all ranks again. A policy that changes the ranks of other
 * sessions (a common clock, a boost) must call sal_policy_reread().
 *
 * The engine replaces a policy that misbehaves by fifo at once, and emits SAL_EJECT. A policy
 * misbehaves if it picks a session that is not ready, prefers a over b and b over a, or lets no
 * session into the empty device.
 */
#ifndef SAL_CORE_POLICY_H
#define SAL_CORE_POLICY_H

#include "core/policies.h"
#include "core/record.h"
#include "core/session.h"
#include "core/tuning.h"

struct sal_policy {
	const char *name;
	const char *idea; /* one line for people */
	size_t slot_size; /* of a session; at most SAL_SLOT_BYTES */
	size_t lane_slot_size; /* at most SAL_LANE_SLOT_BYTES */
	size_t state_size; /* at most SAL_STATE_BYTES */

	/* Lanes to open if the operator sets no number: 1, or SAL_LANES_MAX for all that fit. */
	uint32_t lanes;

	/* The first session of a lane owns the lane until the session closes, also between its
	 * iterations. Sessions outside are admitted strictly in the order of their ranks. */
	bool owns_lane;

	/* A session goes behind the others after its turn, so a waiting time can be estimated. */
	bool takes_turns;

	/*
	 * The first in rank comes first: sessions beside it may slow it by at most
	 * tuning.slow_percent. They should have tier 1.
	 */
	bool guards_first;

	/* The policy picks at random: equal sessions do not run in order of age. */
	bool draws_lots;

	/*
	 * The policy's parameters, at most SAL_PARAMS_MAX; the last entry has no name. NULL: no
	 * parameters. A parameter must not have the name of a knob.
	 */
	const struct sal_param *params;

	/*
	 * Required. Returns the rank of s. The smaller rank runs first; if ranks are equal, the
	 * older session does. Must have no side effects.
	 */
	struct sal_rank (*rank)(const void *state, const struct sal_session *s);

	/* Optional. The policy was chosen (state is zero), or the tuning changed. */
	void (*tune)(void *state, const struct sal_tuning *tuning);

	/*
	 * Required if there are params. The policy was chosen (one call for each parameter, with
	 * its default), or a person changed this parameter. The engine reads all ranks again.
	 */
	void (*set)(void *state, uint32_t param, uint64_t value);

	/* Optional. s was opened, or was open when the policy was chosen. */
	void (*join)(void *state, struct sal_session *s);

	/* Optional. s entered s->lane: s was admitted or moved, its page-in starts, or its page-out
	 * failed. */
	void (*enter)(void *state, struct sal_session *s);

	/*
	 * Optional. s submits `it`. Returns SAL_REASON_NONE to accept the iteration. Returns
	 * SAL_REFUSE_DEADLINE or SAL_REFUSE_LOAD to refuse it, with the value of the record in
	 * *out_value. The engine reads any other answer as SAL_REASON_NONE. Default: accept.
	 */
	enum sal_reason (*accepts)(void *state, struct sal_session *s,
				   const struct sal_iteration *it, uint64_t *out_value);

	/* Optional. s has work again. Before, s was paused, or had no work and no reserved turn. */
	void (*wake)(void *state, struct sal_session *s);

	/*
	 * Optional. An iteration of s starts in s->lane. Either s was picked, or the iteration is a
	 * short program that goes ahead of the order.
	 */
	void (*start)(void *state, struct sal_session *s);

	/* Optional. An iteration ended; used_ns is device time, already added to s->used_ns. */
	void (*charge)(void *state, struct sal_session *s, uint64_t used_ns);

	/* Optional. The sessions have used the device time given to sal_policy_wake_after(). */
	void (*alarm)(void *state);

	/* Optional. The engine is about to free s. */
	void (*leave)(void *state, struct sal_session *s);

	/*
	 * Optional. Is it worth paging `out` out to let `in` run, if the copies take cost_ns? The
	 * engine asks only if `in` would run next. The policy must not prefer each of two sessions
	 * over the other. Default: no.
	 */
	bool (*prefers)(const void *state, const struct sal_session *in,
			const struct sal_session *out, uint64_t cost_ns);

	/* Optional. May s live in `lane`? Default: yes. */
	bool (*shares)(const void *state, const struct sal_lane *lane, const struct sal_session *s);

	/* Optional. May the engine open another lane for s? `open` is the number of open lanes with
	 * sessions of the same kind. The operator or .lanes limits the number of lanes in any case.
	 * Default: yes. */
	bool (*opens)(const void *state, const struct sal_session *s, uint32_t open);

	/*
	 * Optional. The tier of an iteration of s: 0, or 1 if the iteration must make way for those
	 * of tier 0 that run beside it. is_first: s is the first in rank of all sessions that have
	 * work. A session with tier 0 although it is not the first is urgent: it starts even if
	 * that does not pay. The engine reads any answer above 1 as 1. Default: 0, but nobody is
	 * urgent.
	 */
	uint32_t (*tier)(const void *state, const struct sal_session *s, bool is_first);

	/*
	 * Optional, for guards_first. `first` is the first in rank. Does it hardly matter which of
	 * the two is first? Then s is an equal of `first` and may slow it by any amount: side by
	 * side both get more done. Default: no.
	 */
	bool (*is_equal)(const void *state, const struct sal_session *first,
			 const struct sal_session *s);

	/*
	 * Optional. `first` runs, or has its turn reserved, and s comes after it in rank. Must s
	 * wait although there is a lane for it, because it is too far ahead? Default: no.
	 */
	bool (*waits)(const void *state, const struct sal_session *s,
		      const struct sal_session *first);

	/*
	 * Optional. Pick one of the ready sessions of the lane (sal_lane_first, sal_lane_next). A
	 * ready session may run now, or has nothing queued and a reserved turn. If the policy picks
	 * a session with a reserved turn, the lane waits for that session. Must return a ready
	 * session. Default: the first.
	 *
	 * The engine may call `pick` several times for one turn: after every event that concerns
	 * the lane while the lane is idle. A short program may go ahead of the picked session. So a
	 * policy that draws lots must store the drawn session in the lane's slot. The draw holds
	 * until `start` is called for that session, or until that session is no longer ready.
	 *
	 * sal_engine_explain() calls `pick` at any time, and then restores the state and the lane's
	 * slot. So `pick` must not change anything else.
	 */
	struct sal_session *(*pick)(void *state, struct sal_lane *lane);
};

/*
 * For policies, in any op that gets a mutable state. The engine reads the ranks of all sessions
 * again: in this event if the engine has not begun to decide, else in the next event. Costs one
 * call of `rank` per session.
 */
void sal_policy_reread(void *state);

/*
 * For policies. The engine calls `alarm` once, when all sessions together have used device_ns more
 * device time. A new call replaces the last one.
 */
void sal_policy_wake_after(void *state, uint64_t device_ns);

/* The ready sessions of a lane in rank order; NULL at the end. */
struct sal_session *sal_lane_first(const struct sal_lane *lane);
struct sal_session *sal_lane_next(const struct sal_session *s);

#endif
