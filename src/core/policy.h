/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - the contract between the engine and a scheduling policy.
 *
 * A policy gives every session a rank; the engine keeps the orders (of each lane's ready sessions,
 * of those that wait for memory, of those that may be paged out), does the memory, and asks again
 * when something changed. A policy never sees a clock, allocates nothing and cannot block.
 *
 * Its memory is `state` (one per engine, state_size bytes) and each session's `slot` (slot_size
 * bytes). Both are zeroed when the policy is chosen; `tune` and then `join` for every session follow.
 *
 * A session's rank is read again after each of tune, join, enter, wake, charge and after the job's
 * facts (weight, priority, total time) changed, and only then.
 *
 * A policy that misbehaves (picks what cannot run, or prefers a over b and b over a) is replaced by
 * fifo on the spot, and the engine emits SAL_EJECT.
 */
#ifndef SAL_CORE_POLICY_H
#define SAL_CORE_POLICY_H

#include "core/session.h"

#define SAL_LANES_MAX 64

/* Knobs. sal_tuning_default() fills in what suits most machines. */
struct sal_tuning {
	uint32_t lanes; /* most lanes at once; 0: as many as the policy wants */
	uint32_t lane_cap; /* most the policy may want; 0: no bound */
	uint64_t page_bytes_per_s; /* between device and host; 0: no paging */
	uint32_t page_margin; /* a swap must buy this many times the time its copies take */
	uint32_t pass_bound; /* times a waiting session may be passed over before it blocks */
	uint64_t anticipate_ns; /* longest a turn is kept for a session between two iterations */
	uint64_t short_ns; /* iterations expected to be shorter pass without a decision */
	uint64_t idle_ns; /* a session idle that long gives up its memory to one that waits */
	uint64_t guess_ns; /* srtf: least a job of unknown length is taken to need */
	uint64_t stuck_ns; /* others leave a lane whose iteration runs that long; 0: they wait for it */
};

/* What salusd uses: others go on within a second. The simulator's iterations all end. */
#define SAL_STUCK_NS UINT64_C(500000000)

struct sal_policy {
	const char *name;
	const char *idea; /* one line for people */
	size_t slot_size;
	size_t state_size;

	/* Lanes it wants if the operator names no number: 1, or SAL_LANES_MAX for all that fit. */
	uint32_t lanes;

	/* The first session of a lane owns it while it lives, also between its iterations; and
	 * nobody is let in before one that goes before it. */
	bool keeps_lane;

	/* Required. The order of sessions. No side effects. */
	struct sal_rank (*rank)(const void *state, const struct sal_session *s);

	/* Optional. Chosen just now (state is zero), or the tuning changed. */
	void (*tune)(void *state, const struct sal_tuning *tuning);

	/* Optional. s was opened, or was there when the policy was chosen. It has no lane yet. */
	void (*join)(void *state, struct sal_session *s);

	/* Optional. s got s->lane: admitted, paged in or moved. lane->clock is the policy's. */
	void (*enter)(void *state, struct sal_session *s);

	/* Optional. s has work again after it had none and its turn was no longer kept. */
	void (*wake)(void *state, struct sal_session *s);

	/* Optional. An iteration of s starts in s->lane. Its rank is still that of its wait. */
	void (*start)(void *state, struct sal_session *s);

	/* Optional. An iteration ended; used_ns is device time, already added to s->used_ns. */
	void (*charge)(void *state, struct sal_session *s, uint64_t used_ns);

	/* Optional. s is about to be forgotten. */
	void (*leave)(void *state, struct sal_session *s);

	/*
	 * Optional. Is it worth paging `out` out to let `in` run, when the copies take cost_ns? Asked
	 * only if `in` would run next. Must not say yes both ways round. Default: no.
	 */
	bool (*prefers)(const void *state, const struct sal_session *in,
			const struct sal_session *out, uint64_t cost_ns);

	/* Optional. May s live in that lane? Default: yes. */
	bool (*shares)(const void *state, const struct sal_lane *lane, const struct sal_session *s);

	/* Optional. May one more lane be opened for s, with `open` of its kind open? Default: yes.
	 * The number of lanes is bounded by the operator or by .lanes in any case. */
	bool (*opens)(const void *state, const struct sal_session *s, uint32_t open);

	/*
	 * Optional. Choose among lane->ready (walk it with sal_lane_first and sal_lane_next). Must
	 * return one of them. Default: the first.
	 */
	struct sal_session *(*pick)(void *state, const struct sal_lane *lane);
};

/* sal_policy_fifo and all others of the list. */
#define SAL_POLICY(name) extern const struct sal_policy sal_policy_##name;
#include "core/policy/list.h"
#undef SAL_POLICY

/* All policies of core/policy/list.h, in that order, ended by NULL. */
extern const struct sal_policy *const sal_policies[];

/* NULL if there is none of that name. */
const struct sal_policy *sal_policy_find(const char *name);

/* Room for the names of all. */
#define SAL_POLICY_NAMES_BYTES 400

/* Their names with `between` in between, cut to fit; returns text. */
const char *sal_policy_names(const char *between, char *text, size_t size);

/* Its place in sal_policies, from 1; 0 if it is not in there. And back: NULL if there is none. */
uint64_t sal_policy_number(const struct sal_policy *policy);
const struct sal_policy *sal_policy_numbered(uint64_t number);

void sal_tuning_default(struct sal_tuning *tuning);

/* The ready sessions of a lane in rank order; NULL at the end. */
struct sal_session *sal_lane_first(const struct sal_lane *lane);
struct sal_session *sal_lane_next(const struct sal_session *s);

#endif
