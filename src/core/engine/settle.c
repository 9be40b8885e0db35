/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settle - the work after every event: move sessions to their lanes, admit waiting sessions, make
 * room, start idle lanes, and ask the caller for a tick if time alone can change a decision.
 */
#include "core/engine/engine_impl.h"

static void run_lanes(struct sal_engine *e)
{
	bool is_wide = sal_lane_limit(e) > 1 || sal_open_count(e) > 1;

	if (is_wide && e->dirty_mask)
		sal_fill_lanes(e);
	if (!is_wide && e->holds_back) { /* only one lane is left: its sessions may run */
		e->dirty_mask |= e->memory.open_mask;
		e->holds_back = false;
	}
	while (e->dirty_mask) {
		uint32_t i = (uint32_t)__builtin_ctzll(e->dirty_mask);

		e->dirty_mask &= e->dirty_mask - 1;
		sal_run_lane(e, &e->lanes[i]);
	}
}

/* Does a session wait for memory while no other session runs, copies or is ready? */
static bool nothing_moves(const struct sal_engine *e)
{
	return e->waiting_count > 0 && !sal_makes_progress(e) && e->copying_count == 0 &&
	       e->ready_count == 0;
}

static void ask_to_wake(struct sal_engine *e)
{
	uint64_t wake = sal_next_rest_end(e);
	uint64_t rest;

	if (sal_next_stuck(e) < wake)
		wake = sal_next_stuck(e);
	if (e->retry_ns && e->retry_ns < wake)
		wake = e->retry_ns;
	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		const struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];

		/* A reserved turn needs no alarm if no other session wants the lane. */
		if (lane->reserved_until_ns && lane->reserved_until_ns < wake &&
		    (e->ready_count > 1 || e->waiting_count > 0))
			wake = lane->reserved_until_ns;
	}
	if (wake == UINT64_MAX || (e->wake_ns && e->wake_ns <= wake))
		return;
	e->wake_ns = wake;
	sal_emit(e, SAL_WAKE_AT, NULL, NULL, wake);
}

void sal_settle(struct sal_engine *e)
{
	sal_end_rests(e);
	sal_find_stuck(e);
	if (e->reread)
		sal_reread_ranks(e);
	do {
		sal_squeeze_lanes(e);
		if (e->lanes_over)
			sal_gather(e);
		sal_admit_waiting(e);
		sal_make_room(e);
		if (e->lanes_freed)
			sal_spread(e);
		if (e->waiting_count > 0) /* an expired reservation may block waiting sessions */
			e->dirty_mask |= e->memory.open_mask;
		run_lanes(e);
	} while (e->memory_changed || (nothing_moves(e) && sal_break_deadlock(e)));
	e->lanes_freed = false;
	ask_to_wake(e);
}
