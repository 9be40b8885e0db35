/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fill - which sessions run when there are several lanes: the first in rank, wherever they live.
 *
 * A session that may run goes to its own lane if that is idle, else to another idle lane, else to a
 * new one if lanes may be opened. So a lane does not run dry while sessions queue in another. A
 * move can cost a copy: a session that has run moves at most once in tuning.move_ns, which is 0 where
 * moves cost nothing.
 *
 * A session that does not pay beside the others waits (pay.c). The sessions after it may still run.
 */
#include "core/engine/engine_impl.h"

/* A search gives up after so many sessions that may not run now. */
#define PASSED_OVER_MAX 8

static uint64_t bit(const struct sal_lane *lane)
{
	return UINT64_C(1) << lane->index;
}

bool sal_may_move(const struct sal_engine *e, const struct sal_session *s)
{
	return s->moved_ns == 0 || s->done_iterations == 0 ||
	       e->now_ns - s->moved_ns >= e->tuning.move_ns;
}

/* Open lanes at a boundary, without `held`. */
static uint64_t idle_lanes(const struct sal_engine *e, uint64_t held)
{
	uint64_t rest, idle = 0;

	for (rest = e->memory.open_mask & ~held; rest; rest &= rest - 1) {
		const struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];

		if (!lane->running)
			idle |= bit(lane);
	}
	return idle;
}

/* The idle lane for a session from another lane: one without ready sessions, if there is one. */
static int find_idle(const struct sal_engine *e, uint64_t idle, const struct sal_session *s)
{
	struct sal_needs needs = { .ephem_bytes = s->ephem_bytes };
	uint64_t rest;
	int best = -1;

	for (rest = idle; rest; rest &= rest - 1) {
		int i = __builtin_ctzll(rest);
		const struct sal_lane *lane = &e->lanes[i];

		if (!sal_may_share(e, lane, s) || !sal_memory_fits(&e->memory, needs, (uint32_t)i))
			continue;
		if (best < 0 || lane->ready_count < e->lanes[best].ready_count)
			best = i;
	}
	return best;
}

/*
 * A policy that wants its own number of lanes (0) opens them when sessions come in. With a number
 * that the operator set, those that wait for memory need it more.
 */
static bool may_open_more(const struct sal_engine *e)
{
	bool may = e->tuning.lanes == SAL_LANES_AUTO ||
		   (e->tuning.lanes > 0 && e->waiting_count == 0);

	return may && sal_open_count(e) < sal_lane_limit(e);
}

/* A session that comes before s needs the memory more than a new lane does. */
static int find_new(const struct sal_engine *e, const struct sal_session *s)
{
	struct sal_needs needs = { .ephem_bytes = s->ephem_bytes };

	if (!may_open_more(e) || !sal_policy_opens(e, &e->memory, s) || sal_is_lane_needed(e, s))
		return -1;
	return sal_memory_find(&e->memory, needs, (struct sal_lane_choice){ .may_open = true });
}

/* The lane in which s can start now; -1: none. */
static int find_place(const struct sal_engine *e, uint64_t held, const struct sal_session *s)
{
	uint64_t idle = idle_lanes(e, held);
	int index;

	if (idle & bit(s->lane))
		return (int)s->lane->index;
	if (!sal_may_move(e, s))
		return -1;
	index = find_idle(e, idle, s);
	return index >= 0 ? index : find_new(e, s);
}

static bool start(struct sal_engine *e, struct sal_session *s, uint64_t *held)
{
	int index = find_place(e, *held, s);

	if (index < 0)
		return false;
	if ((uint32_t)index != s->lane->index) {
		s->moved_ns = e->now_ns;
		sal_move_home(e, s, (uint32_t)index);
	}
	if (!sal_place_range(e, s->lane)) {
		*held |= bit(s->lane);
		return false;
	}
	s->lane->express_served = false;
	s->solo = sal_wants_solo(e, s);
	if (s->solo)
		s->solo_ns = e->now_ns;
	sal_grant(e, s->lane, s);
	return true;
}

/* The lane of s stays idle, because the turn is reserved for s. */
static void reserve(struct sal_engine *e, struct sal_session *s, struct sal_crowd *crowd,
		    uint64_t *held)
{
	struct sal_lane *lane = s->lane;

	if (lane->running || (*held & bit(lane)))
		return;
	lane->reserved_until_ns = e->policy->owns_lane ? UINT64_MAX : s->reserved_until_ns;
	*held |= bit(lane);
	sal_crowd_add(crowd, s, s->tier);
}

/*
 * Does s wait although there may be a lane for it? A session before it that must stay in a busy
 * lane for now does not gain if s waits for the sake of shares.
 */
static bool must_wait(struct sal_engine *e, const struct sal_crowd *crowd, struct sal_session *s,
		      bool one_stays)
{
	enum sal_hold hold = sal_hold_back(e, crowd, s);

	if (sal_is_extra(e, crowd, s)) {
		e->trial.matters |= hold == SAL_HOLD_NONE || hold == SAL_HOLD_NO_GAIN;
		e->trial.starves |= hold == SAL_HOLD_NO_GAIN;
	}
	return hold != SAL_HOLD_NONE && !(hold == SAL_HOLD_SHARE && one_stays);
}

/* When the device is idle, measure the session that waits for this. */
static bool start_solo(struct sal_engine *e)
{
	struct sal_session *s = e->solo_next;
	struct sal_crowd crowd;
	uint64_t held = 0;

	e->holds_back = true;
	sal_crowd_running(e, NULL, &crowd);
	if (crowd.count > 0)
		return false;
	e->solo_next = NULL;
	if (sal_wants_solo(e, s))
		(void)start(e, s, &held);
	return true;
}

/*
 * Would s run if those after it in rank did not? Then they end first, and nobody else starts:
 * otherwise they could keep s out for ever, one after the other.
 */
static bool is_kept_out(const struct sal_engine *e, const struct sal_crowd *crowd,
			struct sal_session *s)
{
	struct sal_crowd before;

	sal_crowd_running(e, s, &before);
	return before.count < crowd->count && sal_hold_back(e, &before, s) == SAL_HOLD_NONE;
}

/* What a search for the next session knows. */
struct search {
	struct sal_crowd crowd; /* those that run, or have their turn reserved */
	uint64_t held; /* lanes that stay idle */
	bool one_stays; /* a session must stay in a busy lane for now */
};

enum outcome {
	STARTED, /* or its reservation has expired: search again */
	PASSED_OVER,
	ALL_WAIT /* for this session: nobody else may start */
};

/* May s start now? */
static enum outcome consider(struct sal_engine *e, struct search *f, struct sal_session *s)
{
	if (TAILQ_EMPTY(&s->queue)) {
		if (!sal_is_ready(e, s)) {
			sal_refile(e, s);
			return STARTED;
		}
		reserve(e, s, &f->crowd, &f->held);
		return PASSED_OVER;
	}
	if (must_wait(e, &f->crowd, s, f->one_stays)) {
		e->holds_back = true;
		if (sal_wants_solo(e, s))
			e->solo_next = s;
		return e->solo_next || is_kept_out(e, &f->crowd, s) ? ALL_WAIT : PASSED_OVER;
	}
	if (start(e, s, &f->held))
		return STARTED;
	f->one_stays |= !sal_may_move(e, s);
	return PASSED_OVER;
}

/* The search has given up: try what the idle lanes have themselves. */
static bool start_own(struct sal_engine *e, struct search *f)
{
	uint64_t rest;

	f->one_stays = true;
	for (rest = idle_lanes(e, f->held); rest; rest &= rest - 1) {
		struct sal_session *s = sal_lane_first(&e->lanes[__builtin_ctzll(rest)]);
		enum outcome outcome = s ? consider(e, f, s) : PASSED_OVER;

		if (outcome != PASSED_OVER)
			return outcome == STARTED;
	}
	return false;
}

/* Start the first session that can start. Returns true if there may be another one. */
static bool start_next(struct sal_engine *e)
{
	struct sal_session *s = RB_MIN(sal_turn_tree, &e->turns), *next;
	struct search search = { .held = 0 };
	uint32_t passed_over = 0;

	sal_crowd_running(e, NULL, &search.crowd);
	for (; s && passed_over < PASSED_OVER_MAX; s = next) {
		enum outcome outcome;

		next = RB_NEXT(sal_turn_tree, &e->turns, s);
		if (!idle_lanes(e, search.held) && !may_open_more(e))
			return false;
		outcome = consider(e, &search, s);
		if (outcome != PASSED_OVER)
			return outcome == STARTED;
		passed_over++;
	}
	return s && start_own(e, &search);
}

/*
 * With a policy that picks, each lane has its own order. Idle lanes come first; after them, what a
 * busy lane would run next may go to an idle or a new lane.
 */
static bool start_picked(struct sal_engine *e)
{
	uint64_t idle = idle_lanes(e, 0), busy = e->memory.open_mask & ~idle;
	struct search search = { .held = 0 };

	sal_crowd_running(e, NULL, &search.crowd);
	while (idle | busy) {
		uint64_t *lanes = idle ? &idle : &busy;
		struct sal_session *s = sal_pick(e, &e->lanes[__builtin_ctzll(*lanes)]);
		enum outcome outcome;

		*lanes &= *lanes - 1;
		if (!s)
			continue;
		if (!e->policy->pick) /* ejected */
			return true;
		outcome = consider(e, &search, s);
		if (outcome != PASSED_OVER)
			return outcome == STARTED;
	}
	return false;
}

/* Start one short program in each idle lane that has some and did not just serve one. */
static void start_express(struct sal_engine *e, bool again)
{
	uint64_t rest;

	for (rest = idle_lanes(e, 0); rest; rest &= rest - 1) {
		struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];
		struct sal_session *brief = TAILQ_FIRST(&lane->express);

		if (!brief || (lane->express_served && !again) || !sal_place_range(e, lane))
			continue;
		lane->express_served = !again;
		sal_grant(e, lane, brief);
	}
}

/* Start one iteration. Returns true if there may be another one. */
static bool start_one(struct sal_engine *e)
{
	if (e->solo_next)
		return start_solo(e);
	return e->policy->pick ? start_picked(e) : start_next(e);
}

void sal_fill_lanes(struct sal_engine *e)
{
	uint64_t rest;

	for (rest = e->memory.open_mask; rest; rest &= rest - 1)
		e->lanes[__builtin_ctzll(rest)].reserved_until_ns = 0;
	e->holds_back = false;
	e->trial.matters = e->trial.starves = false;
	start_express(e, false);
	while (start_one(e))
		;
	start_express(e, true);
	e->dirty_mask = 0;
}
