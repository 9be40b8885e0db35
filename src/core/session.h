/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session - one job as the engine keeps it. For the core, its policies and its tests: callers of
 * the engine see a struct sal_session_view (view.h).
 *
 * The engine creates sessions and is the only one to change them; policies read them and own the
 * `slot`, callers own `user`.
 *
 * Threads: none. Everything here is used under the lock of whoever calls the engine.
 */
#ifndef SAL_CORE_SESSION_H
#define SAL_CORE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bsd/sys/tree.h>
#include <sys/queue.h>

#include "core/job.h"

/*
 * Bytes that every session and every lane carries for the policy in force, and the policy for
 * itself.
 */
#define SAL_SLOT_BYTES 64
#define SAL_LANE_SLOT_BYTES 32
#define SAL_STATE_BYTES 128

struct sal_lane;

/* A policy's order: smaller runs first. The engine breaks ties by session id. */
struct sal_rank {
	uint64_t major;
	uint64_t minor;
};

struct sal_session {
	uint64_t id; /* in order of opening */
	void *user; /* the caller's */
	struct sal_job job;

	uint64_t open_ns;
	uint64_t used_ns; /* device time so far */
	uint64_t done_iterations;
	uint64_t done_ns; /* when the last one ended */
	uint64_t waited_ns; /* time with an iteration queued and none running */

	enum sal_place place;
	struct sal_lane *lane; /* borrowed: engine; set while resident or paging in */
	bool paused;
	bool closing; /* closed by the caller, waiting for its last iteration or copy */
	bool refused; /* cannot fit even alone: never admitted */
	bool admitted; /* was resident at least once */
	bool evicting; /* chosen to be paged out at its next boundary */

	/* memory */
	uint64_t held_bytes; /* persistent bytes counted against the device */
	uint64_t paged_bytes; /* persistent bytes that lie in host memory */
	uint64_t tracked_bytes; /* what it really holds now, by its own account */
	uint64_t asked_bytes; /* what it asked to hold, if need_open */
	uint64_t ephem_bytes; /* scratch its lane must offer it */
	uint64_t seen_ephem_bytes;
	uint64_t resident_since_ns;
	bool need_open; /* asked for more than it holds and has not got it */
	uint32_t passed_over; /* how often a later one was let in before it */
	bool aged; /* passed over too often: nobody later is let in */

	/* copies that failed, in a row */
	uint32_t out_failures, in_failures;
	uint64_t stay_until_ns; /* it is not asked to make room before then */
	bool rests; /* it is not let in before rest_until_ns */
	uint64_t rest_until_ns;
	uint64_t owed_bytes; /* a need that paged_in will answer; 0: none */

	/* work */
	struct sal_iteration_list queue;
	struct sal_iteration *running; /* borrowed: the caller's; NULL between iterations */
	uint64_t idle_since_ns;
	uint64_t reserved_until_ns; /* its turn is reserved until then */
	uint64_t gap_ns; /* learned: time from one iteration's end to the next submission */

	/* order; the flags tell which containers hold it */
	struct sal_rank rank;
	bool in_ready, in_express, in_resident, in_waiting, in_idle, in_plan;
	bool grows; /* resident and waiting for more */
	bool waits_with_work; /* key of the waiting tree beside the rank */
	RB_ENTRY(sal_session) ready_link; /* lane->ready */
	RB_ENTRY(sal_session) resident_link; /* engine->resident */
	RB_ENTRY(sal_session) waiting_link; /* engine->waiting */
	RB_ENTRY(sal_session) size_link; /* lane->members */
	TAILQ_ENTRY(sal_session) express_link; /* lane->express */
	TAILQ_ENTRY(sal_session) idle_link; /* engine->idle */
	TAILQ_ENTRY(sal_session) aged_link; /* engine->aged */
	TAILQ_ENTRY(sal_session) growing_link; /* engine->growing */
	TAILQ_ENTRY(sal_session) resting_link; /* engine->resting */
	TAILQ_ENTRY(sal_session) plan_link; /* a paging plan */
	TAILQ_ENTRY(sal_session) session_link; /* engine->sessions */

	_Alignas(max_align_t) unsigned char slot[SAL_SLOT_BYTES]; /* the policy's */
};

RB_HEAD(sal_ready_tree, sal_session);
RB_HEAD(sal_resident_tree, sal_session);
RB_HEAD(sal_waiting_tree, sal_session);
RB_HEAD(sal_size_tree, sal_session);
TAILQ_HEAD(sal_session_list, sal_session);

/* True if a goes before b in the policy's order. */
static inline bool sal_session_before(const struct sal_session *a, const struct sal_session *b)
{
	if (a->rank.major != b->rank.major)
		return a->rank.major < b->rank.major;
	if (a->rank.minor != b->rank.minor)
		return a->rank.minor < b->rank.minor;
	return a->id < b->id;
}

static inline bool sal_session_has_work(const struct sal_session *s)
{
	return s->running || !TAILQ_EMPTY(&s->queue);
}

static inline uint32_t sal_session_weight(const struct sal_session *s)
{
	return s->job.weight_milli ? s->job.weight_milli : 1000;
}

#endif
