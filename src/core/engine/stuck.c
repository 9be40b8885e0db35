/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stuck - iterations that take too long, perhaps for ever.
 *
 * An iteration may run for STUCK_TIMES its expected time, but at most STUCK_MORE times stuck_ns
 * longer than expected; and for tuning.stuck_ns in any case. After that its lane is stuck. If the
 * session is closed or the expected time is unknown, only stuck_ns counts. A stuck lane
 *
 *   - retains its range and its bytes, because the iteration uses them;
 *   - takes no new session, and does not count against the lane limit: another lane may open;
 *   - loses its other members: members with work wait for memory, as if they needed more;
 *   - does not count as progress: if nothing else moves, sessions are paged out to make room.
 *
 * If the iteration ends later, the lane is an ordinary lane again, perhaps one over the limit.
 */
#include "core/engine/engine_impl.h"

#define STUCK_TIMES 4u
#define STUCK_MORE 10u

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* How long an iteration may run before its lane is stuck. */
static uint64_t patience(const struct sal_engine *e, const struct sal_session *s)
{
	uint64_t least_ns = e->tuning.stuck_ns;
	uint64_t expected_ns = s->closing ? 0 : s->running->expected_ns;
	uint64_t times_ns = expected_ns > UINT64_MAX / STUCK_TIMES ? UINT64_MAX
								   : expected_ns * STUCK_TIMES;
	uint64_t more_ns = least_ns > UINT64_MAX / STUCK_MORE
				   ? UINT64_MAX
				   : add(expected_ns, least_ns * STUCK_MORE);

	if (times_ns > more_ns)
		times_ns = more_ns;
	return times_ns > least_ns ? times_ns : least_ns;
}

void sal_watch_lane(struct sal_engine *e, struct sal_lane *lane)
{
	lane->stuck_at_ns = UINT64_MAX;
	if (e->tuning.stuck_ns && lane->running)
		lane->stuck_at_ns = add(lane->start_ns, patience(e, lane->running));
}

/* The members with work start to wait for memory, or stop waiting. */
static void set_stuck(struct sal_engine *e, struct sal_lane *lane, bool stuck)
{
	struct sal_session *s;

	lane->stuck = stuck;
	e->stuck_count += stuck ? 1 : -1u;
	RB_FOREACH(s, sal_size_tree, &lane->members)
		sal_refile(e, s);
	e->memory_changed = true;
	e->lanes_freed = true;
	e->lanes_over = true;
	sal_mark_dirty(e, lane);
}

void sal_unstick_lane(struct sal_engine *e, struct sal_lane *lane)
{
	if (lane->stuck)
		set_stuck(e, lane, false);
}

void sal_find_stuck(struct sal_engine *e)
{
	uint64_t rest;

	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];
		bool stuck = lane->running && lane->stuck_at_ns <= e->now_ns;

		if (stuck == lane->stuck)
			continue;
		set_stuck(e, lane, stuck);
		/* No boundary will come, so the plan does not make enough room. */
		if (stuck && lane->running->evicting)
			sal_drop_claim(e);
	}
}

uint64_t sal_next_stuck(const struct sal_engine *e)
{
	uint64_t soonest = UINT64_MAX, rest;

	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		const struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];

		/* No alarm is needed if no session waits for this lane or for memory. */
		if (lane->running && !lane->stuck && lane->stuck_at_ns < soonest &&
		    (lane->ready_count > 0 || !TAILQ_EMPTY(&lane->express) || e->waiting_count > 0))
			soonest = lane->stuck_at_ns;
	}
	return soonest;
}
