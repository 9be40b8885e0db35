/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view - copies of sessions and lanes for callers, and explanations why a session does not run.
 *
 * A view is a snapshot. The engine owns the sessions that a view points to. Their pointers are
 * valid until the next event.
 */
#ifndef SAL_CORE_VIEW_H
#define SAL_CORE_VIEW_H

#include <stdbool.h>

#include "core/job.h"
#include "core/record.h"

struct sal_engine;
struct sal_session;

/* What a session does. If several apply, the first in this list counts. */
enum sal_state {
	SAL_STATE_REFUSED, /* its declared needs can never fit */
	SAL_STATE_RUNNING,
	SAL_STATE_PAGING_OUT,
	SAL_STATE_PAGING_IN,
	SAL_STATE_PAUSED, /* by a person */
	SAL_STATE_WAITING, /* for memory */
	SAL_STATE_PAGED, /* outside after an admission; it has no work, or rests */
	SAL_STATE_IDLE, /* it has no work */
	SAL_STATE_READY /* it has work and waits for its turn */
};

struct sal_session_view {
	enum sal_state state;
	enum sal_place place;
	uint16_t lane; /* SAL_NO_LANE: none */
	bool paused, closing, refused;
	bool has_work; /* an iteration runs or is queued */
	struct sal_iteration *running; /* borrowed: the caller's; NULL between iterations */
	struct sal_job job;
	uint32_t weight_milli; /* never 0 */
	uint64_t used_ns, waited_ns, done_iterations, idle_since_ns;
	uint64_t held_bytes; /* persistent bytes counted against the device */
	uint64_t paged_bytes; /* persistent bytes in host memory */
	uint64_t tracked_bytes; /* bytes that it holds, as the caller reported */
	uint64_t ephem_bytes; /* scratch that its lane offers */
};

void sal_engine_view(const struct sal_engine *e, const struct sal_session *s,
		     struct sal_session_view *out);

/* Does the policy tell urgent work from other work? */
bool sal_engine_has_tiers(const struct sal_engine *e);

/* Single facts, for callers that need one of them often. */
uint64_t sal_session_id(const struct sal_session *s);
void *sal_session_user(const struct sal_session *s);
uint16_t sal_session_lane(const struct sal_session *s); /* SAL_NO_LANE: none */

struct sal_session_memory {
	enum sal_place place;
	uint64_t held_bytes, tracked_bytes; /* as in the view */
};
struct sal_session_memory sal_session_memory(const struct sal_session *s);

struct sal_lane_view {
	bool open;
	bool stuck; /* its iteration runs too long; no session waits for its end */
	uint64_t at, bytes; /* its range */
	struct sal_session *running; /* NULL at a boundary */
};

/*
 * What the lanes gain, measured over the last seconds in which the device was busy. 1000 lanes_milli
 * is one lane; 1000 rate_milli is the progress of one session that runs alone. 0: not known yet.
 */
struct sal_gain_view {
	uint32_t lanes_milli; /* iterations that ran side by side, on average */
	uint32_t rate_milli; /* progress of all of them together */
};

void sal_engine_gain_view(const struct sal_engine *e, struct sal_gain_view *out);

/* The session whose iteration runs in `lane`; NULL: none. */
struct sal_session *sal_engine_running(const struct sal_engine *e, uint32_t lane);

void sal_engine_lane_view(const struct sal_engine *e, uint32_t index, struct sal_lane_view *out);

/* Most sessions that an explanation names. */
#define SAL_AHEAD_MAX 64

/* Why a session waits for memory. */
struct sal_memory_wait {
	struct sal_needs needs; /* bytes that it needs, with the growth of its next iteration */
	uint64_t held_bytes; /* persistent bytes that it has */
	uint64_t free_bytes, capacity_bytes; /* of the device */
	bool lane_is_stuck; /* its lane is stuck: it needs room in another lane */
	bool aged; /* passed over too often: no later session is admitted first */
	uint32_t passed_over; /* how many later sessions were admitted before it */
	struct sal_session *first; /* this session gets room first; NULL: none */
};

/* Why a session waits although a lane is idle, or could be opened. */
enum sal_hold {
	SAL_HOLD_NONE,
	SAL_HOLD_NO_GAIN, /* beside those that run it would add too little */
	SAL_HOLD_FIRST, /* it would slow the first in rank too much */
	SAL_HOLD_SHARE, /* it had more than its share */
	SAL_HOLD_SOLO /* a program that is not understood yet runs alone, or is about to */
};

/* Why a session waits for its turn. */
struct sal_turn_wait {
	struct sal_session *running; /* in its lane; NULL: none */
	bool running_goes_first; /* `running` is also before it in the policy's order */
	bool is_short; /* its next program is short and goes ahead of the order */
	bool waits_for_range; /* its lane waits for a neighbour's boundary */
	enum sal_hold hold; /* why it does not run beside those that run */
	uint32_t rate_milli, rate_with_milli; /* expected progress of all, without and with it */
	bool is_order_known; /* false: the policy picks; only the next session is known */
	uint32_t ahead_count;
	struct sal_session *ahead[SAL_AHEAD_MAX]; /* in the order of their turns */
	uint64_t ahead_ns; /* time that their turns take; UINT64_MAX: unknown */
};

struct sal_explanation {
	enum sal_state state;
	uint32_t queued; /* iterations */
	struct sal_memory_wait memory; /* for SAL_STATE_WAITING and SAL_STATE_REFUSED */
	struct sal_turn_wait turn; /* for SAL_STATE_READY */
	uint32_t in_failures; /* failed page-ins in a row */
	uint64_t retry_ns; /* no page-in before this time; 0: it may be tried now */
};

/*
 * Tells what the session waits for, as the engine would decide now. Calls the policy's `pick`, and
 * then restores the policy's state.
 */
void sal_engine_explain(struct sal_engine *e, struct sal_session *s, struct sal_explanation *out);

#endif
