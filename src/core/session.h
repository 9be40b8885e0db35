/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session - the engine's data about one job. For the core, its policies and its tests; callers of
 * the engine see a struct sal_session_view (view.h).
 *
 * Only the engine creates and changes sessions. Policies read them and own the `slot`. Callers own
 * `user`.
 *
 * Threads: none. The caller of the engine holds its lock while anything here is used.
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
 * Bytes reserved for the policy in force: in each session, in each lane, and once in the engine.
 */
#define SAL_SLOT_BYTES 64
#define SAL_LANE_SLOT_BYTES 32
#define SAL_STATE_BYTES 128

struct sal_lane;

/* The policy's order: the smaller rank runs first. If ranks are equal, the smaller id does. */
struct sal_rank {
	uint64_t major;
	uint64_t minor;
};

/* The iterations and gaps of a session in the current window of time: kind.c. */
struct sal_rhythm {
	uint64_t start_ns; /* of the window; 0: none yet */
	uint64_t start_bytes; /* tracked_bytes then */
	uint64_t used_ns, idle_ns; /* sums of iterations, and of gaps between them */
	uint64_t iteration_max_ns, gap_max_ns;
	uint32_t requests; /* iterations after a pause */
	uint32_t agrees, differs; /* windows in a row that say so about job.kind */
};

struct sal_session {
	uint64_t id; /* rises in order of opening */
	void *user; /* borrowed: the caller's */
	struct sal_job job;

	uint64_t open_ns;
	uint64_t used_ns; /* device time so far */
	uint64_t done_iterations;
	uint64_t done_ns; /* when the last iteration ended */
	uint64_t waited_ns; /* time with an iteration queued and none running */

	enum sal_place place;
	struct sal_lane *lane; /* borrowed: engine; set while resident or paging in */
	bool paused;
	bool closing; /* closed by the caller; waits for its last iteration or copy to end */
	bool refused; /* its declared needs do not fit even alone: not admitted */
	bool admitted; /* was resident at least once */
	bool evicting; /* chosen to be paged out at its next boundary */

	/* memory */
	uint64_t held_bytes; /* persistent bytes counted against the device */
	uint64_t paged_bytes; /* persistent bytes in host memory */
	uint64_t tracked_bytes; /* bytes that it holds now, as its caller reports */
	uint64_t asked_bytes; /* bytes that it asked to hold, if need_open */
	uint64_t ephem_bytes; /* scratch that its lane must offer */
	uint64_t seen_ephem_bytes;
	uint64_t resident_since_ns;
	bool need_open; /* its request for more bytes is not answered yet */
	uint32_t passed_over; /* how many later sessions were admitted before it */
	bool aged; /* passed over too often: no later session is admitted first */

	/* failed copies in a row, and their consequences */
	uint32_t out_failures, in_failures;
	uint64_t stay_until_ns; /* it is not paged out before then */
	bool rests; /* it is not admitted before rest_until_ns */
	uint64_t rest_until_ns;
	uint64_t owed_bytes; /* the request that paged_in will answer; 0: none */

	/* work */
	struct sal_iteration_list queue;
	struct sal_iteration *running; /* borrowed: the caller's; NULL between iterations */
	uint64_t idle_since_ns;
	uint64_t reserved_until_ns; /* its turn is reserved until then */
	uint64_t gap_ns; /* learned: time from one iteration's end to the next submission */

	/* lanes that pay (pace.c, pay.c) */
	uint32_t tier; /* of its last grant */
	uint64_t moved_ns; /* when it last changed its lane; 0: never */
	uint64_t tiered_ns; /* when it last changed its tier, if that costs anything; 0: never */
	uint32_t util_milli; /* of its last program; 0: unknown */
	uint64_t crowd_from_ns; /* engine->crowd_ns when its iteration started */
	uint32_t speed_milli; /* beside others, in thousandths of its speed alone */
	uint32_t speed_runs; /* how many runs count in speed_milli */
	uint64_t speed_ns; /* when speed_milli was measured; 0: never */
	bool solo; /* its iteration runs alone, to be measured */
	uint64_t solo_ns; /* when it last ran alone to be measured; 0: never */
	uint64_t spared_until_ns; /* it suffered beside others: no company until then */
	/* Its runs beside others since then, as the first in rank; and what they take alone. */
	uint64_t beside_ns, beside_alone_ns;

	struct sal_rhythm rhythm;

	/* order; a flag for each tree or list tells whether it is in there */
	struct sal_rank rank;
	bool in_ready, in_express, in_resident, in_waiting, in_idle, in_plan;
	bool grows; /* in engine->growing: resident, and waiting for more memory */
	bool waits_with_work; /* first key of the waiting tree; the rank is the second */
	RB_ENTRY(sal_session) ready_link; /* lane->ready */
	RB_ENTRY(sal_session) turn_link; /* engine->turns */
	RB_ENTRY(sal_session) resident_link; /* engine->resident */
	RB_ENTRY(sal_session) waiting_link; /* engine->waiting */
	RB_ENTRY(sal_session) size_link; /* lane->members */
	TAILQ_ENTRY(sal_session) express_link; /* lane->express */
	TAILQ_ENTRY(sal_session) idle_link; /* engine->idle */
	TAILQ_ENTRY(sal_session) aged_link; /* engine->aged */
	TAILQ_ENTRY(sal_session) growing_link; /* engine->growing */
	TAILQ_ENTRY(sal_session) resting_link; /* engine->resting */
	TAILQ_ENTRY(sal_session) plan_link; /* plan->victims or engine->evictees */
	TAILQ_ENTRY(sal_session) session_link; /* engine->sessions */

	_Alignas(max_align_t) unsigned char slot[SAL_SLOT_BYTES]; /* for the policy */
};

RB_HEAD(sal_ready_tree, sal_session);
RB_HEAD(sal_turn_tree, sal_session);
RB_HEAD(sal_resident_tree, sal_session);
RB_HEAD(sal_waiting_tree, sal_session);
RB_HEAD(sal_size_tree, sal_session);
TAILQ_HEAD(sal_session_list, sal_session);

/* Does a come before b in the policy's order? */
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
