/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view - what callers of the engine see of sessions and lanes, and why a session does not run.
 *
 * A view is a copy of the moment. Sessions in it are the engine's: they can be given back to the
 * engine until the next event.
 */
#ifndef SAL_CORE_VIEW_H
#define SAL_CORE_VIEW_H

#include <stdbool.h>

#include "core/job.h"
#include "core/record.h"

struct sal_engine;
struct sal_session;

/* What a session does; the first that is true. */
enum sal_state {
	SAL_STATE_REFUSED, /* it declared more than it can ever have */
	SAL_STATE_RUNNING,
	SAL_STATE_PAGING_OUT,
	SAL_STATE_PAGING_IN,
	SAL_STATE_PAUSED, /* by a person */
	SAL_STATE_WAITING, /* for memory */
	SAL_STATE_PAGED, /* its bytes lie in host memory, and it has no work */
	SAL_STATE_IDLE, /* it has no work */
	SAL_STATE_READY /* it waits for its turn */
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
	uint64_t tracked_bytes; /* what the caller said it holds */
	uint64_t ephem_bytes; /* scratch its lane offers */
};

void sal_engine_view(const struct sal_engine *e, const struct sal_session *s,
		     struct sal_session_view *out);

/* Single facts, for those who need one of them often. */
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
	bool stuck; /* its iteration does not end, and nobody waits for that */
	uint64_t at, bytes; /* its range */
	struct sal_session *running; /* NULL at a boundary */
};

/* Whose iteration runs in that lane; NULL: nobody's. */
struct sal_session *sal_engine_running(const struct sal_engine *e, uint32_t lane);

void sal_engine_lane_view(const struct sal_engine *e, uint32_t index, struct sal_lane_view *out);

/* Sessions that an explanation names. */
#define SAL_AHEAD_MAX 64

/* Why a session waits for memory. */
struct sal_memory_wait {
	struct sal_needs needs; /* what it must have, growth of its next iteration included */
	uint64_t held_bytes; /* what it has of that */
	uint64_t free_bytes, capacity_bytes; /* of the device */
	bool lane_is_stuck; /* its lane's iteration does not end: it needs room in another lane */
	bool aged; /* it was passed over too often: nobody later is let in before it */
	uint32_t passed_over; /* so often */
	struct sal_session *first; /* room is kept for this one first; NULL: for nobody */
};

/* Why a session waits for its turn. */
struct sal_turn_wait {
	struct sal_session *running; /* in its lane; NULL: nobody */
	bool running_goes_first; /* the running one is before it in the policy's order, too */
	bool is_short; /* its program passes ahead of the order */
	bool waits_for_range; /* the lane waits for a neighbour's boundary */
	bool is_order_known; /* false: the policy picks, and tells only who is next */
	uint32_t ahead_count;
	struct sal_session *ahead[SAL_AHEAD_MAX]; /* in the order of their turns */
	uint64_t ahead_ns; /* what their turns take; UINT64_MAX: unknown */
};

struct sal_explanation {
	enum sal_state state;
	uint32_t queued; /* iterations */
	struct sal_memory_wait memory; /* of SAL_STATE_WAITING and SAL_STATE_REFUSED */
	struct sal_turn_wait turn; /* of SAL_STATE_READY */
	uint32_t in_failures; /* its bytes could not be brought back, so often in a row */
	uint64_t retry_ns; /* when that is tried again; 0: no failure */
};

/*
 * What the session waits for, as the engine would decide it now. Asks the policy for its pick, and
 * takes back whatever the policy changed meanwhile.
 */
void sal_engine_explain(struct sal_engine *e, struct sal_session *s, struct sal_explanation *out);

#endif
