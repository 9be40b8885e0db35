/* SPDX-License-Identifier: Apache-2.0 */
/*
 * home - chooses the lane of a session, and the place of a lane on the device.
 */
#include <string.h>

#include "core/engine/engine_impl.h"

uint32_t sal_lane_limit(const struct sal_engine *e)
{
	bool is_number = e->tuning.lanes && e->tuning.lanes != SAL_LANES_AUTO;
	uint32_t limit = e->tuning.lanes ? e->tuning.lanes : e->policy->lanes;

	if (limit == 0 || e->squeezed)
		return 1;
	if (!is_number && e->tuning.lane_cap && limit > e->tuning.lane_cap)
		limit = e->tuning.lane_cap;
	return limit < SAL_LANES_MAX ? limit : SAL_LANES_MAX;
}

bool sal_may_share(const struct sal_engine *e, const struct sal_lane *lane,
		   const struct sal_session *s)
{
	if (lane->draining || lane->stuck)
		return false;
	return !e->policy->shares || e->policy->shares(e->state, lane, s);
}

uint32_t sal_open_count(const struct sal_engine *e)
{
	return (uint32_t)__builtin_popcountll(e->memory.open_mask) - e->stuck_count;
}

bool sal_policy_opens(const struct sal_engine *e, const struct sal_memory *m,
		      const struct sal_session *s)
{
	uint32_t of_kind = 0;
	uint64_t rest;

	if (!e->policy->opens)
		return true;
	for (rest = m->open_mask; rest; rest &= rest - 1) {
		const struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];

		of_kind += !lane->stuck && lane->kind_count[s->job.kind] > 0;
	}
	return e->policy->opens(e->state, s, of_kind);
}

/*
 * With --lanes auto a newcomer shares a lane, and fill.c opens lanes that pay. A policy that keeps
 * sessions apart wants its lanes at once.
 */
struct sal_lane_choice sal_lane_choice(const struct sal_engine *e, const struct sal_memory *m,
				       const struct sal_session *s)
{
	struct sal_lane_choice choice = { 0 };
	uint32_t open = 0;
	uint64_t rest;

	for (rest = m->open_mask; rest; rest &= rest - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(rest);

		open += !e->lanes[i].stuck;
		if (sal_may_share(e, &e->lanes[i], s))
			choice.allowed |= UINT64_C(1) << i;
	}
	choice.may_open = open < sal_lane_limit(e) && sal_policy_opens(e, m, s);
	if (e->tuning.lanes == SAL_LANES_AUTO && choice.allowed && !e->policy->shares)
		choice.may_open = false;
	return choice;
}

/*
 * The memory `m` without s. The lane of s shrinks to its other members, without those of a paging
 * plan; but a running lane retains its size.
 */
static void memory_without(const struct sal_memory *m, const struct sal_session *s,
			   struct sal_memory *out)
{
	struct sal_lane *lane = s->lane;
	struct sal_session *largest = RB_MIN(sal_size_tree, &lane->members);

	*out = *m;
	out->persist_bytes -= s->held_bytes;
	if (lane->running)
		return;
	while (largest && (largest == s || largest->in_plan))
		largest = RB_NEXT(sal_size_tree, &lane->members, largest);
	if (!largest)
		sal_memory_resize(out, lane->index, 0, false);
	else if (largest->ephem_bytes < out->lane_bytes[lane->index])
		sal_memory_resize(out, lane->index, largest->ephem_bytes, true);
}

int sal_find_home(const struct sal_engine *e, const struct sal_memory *m,
		  const struct sal_session *s)
{
	struct sal_needs wants = sal_wants(e, s);
	struct sal_needs more = wants;
	struct sal_memory without;

	if (!s->lane)
		return sal_memory_find(m, wants, sal_lane_choice(e, m, s));
	more.persist_bytes =
		wants.persist_bytes > s->held_bytes ? wants.persist_bytes - s->held_bytes : 0;
	if (!sal_is_stranded(s) && sal_memory_fits(m, more, s->lane->index))
		return (int)s->lane->index;
	if (s->running)
		return -1;
	memory_without(m, s, &without);
	return sal_memory_find(&without, wants, sal_lane_choice(e, &without, s));
}

static void open_lane(struct sal_engine *e, struct sal_lane *lane)
{
	uint32_t i;

	lane->open = true;
	lane->draining = false;
	lane->express_served = false;
	lane->last = NULL;
	lane->span = 0;
	memset(lane->slot, 0, sizeof(lane->slot));
	/* A new lane starts with the largest clock of all lanes, in the policy's unit. */
	for (i = 0; i < SAL_LANES_MAX; i++)
		if (e->lanes[i].clock > lane->clock)
			lane->clock = e->lanes[i].clock;
	sal_memory_resize(&e->memory, lane->index, 0, true);
}

void sal_enter_lane(struct sal_engine *e, struct sal_session *s, uint32_t index)
{
	struct sal_lane *lane = &e->lanes[index];

	if (!lane->open)
		open_lane(e, lane);
	s->lane = lane;
	sal_lane_join(lane, s);
	if (s->ephem_bytes > e->memory.lane_bytes[index])
		sal_memory_resize(&e->memory, index, s->ephem_bytes, true);
	if (e->policy->enter)
		e->policy->enter(e->state, s);
	sal_mark_dirty(e, lane);
}

void sal_fit_lane(struct sal_engine *e, struct sal_lane *lane)
{
	uint64_t need = sal_lane_need(lane);

	if (!lane->open || lane->running)
		return;
	if (lane->member_count == 0) {
		lane->open = false;
		lane->shifted = false;
		lane->reserved_until_ns = 0;
		sal_memory_resize(&e->memory, lane->index, 0, false);
		e->memory_changed = true;
		e->lanes_freed = true;
	} else if (need < e->memory.lane_bytes[lane->index]) {
		sal_memory_resize(&e->memory, lane->index, need, true);
		e->memory_changed = true;
		e->lanes_freed = true;
	}
}

void sal_leave_lane(struct sal_engine *e, struct sal_session *s)
{
	struct sal_lane *lane = s->lane;

	sal_unfile(e, s);
	sal_lane_leave(lane, s);
	s->lane = NULL;
	if (e->stuck_count > 0) /* the policy may now admit a session from a stuck lane */
		e->memory_changed = true;
	sal_fit_lane(e, lane);
}

void sal_move_home(struct sal_engine *e, struct sal_session *s, uint32_t index)
{
	sal_leave_lane(e, s);
	sal_enter_lane(e, s, index);
	sal_refile(e, s);
	sal_emit(e, SAL_MOVE, s, NULL, 0);
}

/* The session that is next after the one that runs, or runs next; NULL: none. */
static struct sal_session *first_to_wait(struct sal_lane *lane)
{
	struct sal_session *s = RB_MIN(sal_ready_tree, &lane->ready);

	return s && !lane->running ? RB_NEXT(sal_ready_tree, &lane->ready, s) : s;
}

/* The first session that waits in the most crowded lane, if a new lane can be opened for it. */
static struct sal_session *find_crowded(struct sal_engine *e)
{
	struct sal_session *best = NULL;
	uint32_t most = 1;
	uint64_t rest;

	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];
		uint32_t crowd = lane->ready_count + (lane->running ? 1 : 0);
		struct sal_session *s = first_to_wait(lane);
		struct sal_needs needs = { 0 };

		if (crowd <= most || !s || TAILQ_EMPTY(&s->queue))
			continue;
		needs.ephem_bytes = s->ephem_bytes;
		if (sal_memory_find(&e->memory, needs,
				    (struct sal_lane_choice){
					    .may_open = sal_lane_choice(e, &e->memory, s).may_open,
				    }) < 0)
			continue;
		most = crowd;
		best = s;
	}
	return best;
}

void sal_spread(struct sal_engine *e)
{
	struct sal_session *s;

	if (sal_lane_limit(e) == 1 || e->waiting_count > 0 || e->tuning.lanes == SAL_LANES_AUTO)
		return;
	while ((s = find_crowded(e)))
		sal_move_home(e, s, (uint32_t)__builtin_ctzll(~e->memory.open_mask));
}

/* Mark all lanes but the `limit` largest as draining. */
static void mark_draining(struct sal_engine *e)
{
	uint32_t limit = sal_lane_limit(e);
	uint32_t i, k;

	for (i = 0; i < SAL_LANES_MAX; i++) {
		uint32_t larger = 0;

		for (k = 0; k < SAL_LANES_MAX; k++)
			if (k != i && e->lanes[k].open && !e->lanes[k].stuck &&
			    (e->memory.lane_bytes[k] > e->memory.lane_bytes[i] ||
			     (e->memory.lane_bytes[k] == e->memory.lane_bytes[i] && k < i)))
				larger++;
		e->lanes[i].draining = e->lanes[i].open && !e->lanes[i].stuck && larger >= limit;
	}
}

/* Move out the sessions that may not stay in this lane. Returns true if one cannot move yet. */
static bool gather_lane(struct sal_engine *e, struct sal_lane *lane)
{
	struct sal_session *s, *next;
	bool left_over = false;

	for (s = RB_MIN(sal_size_tree, &lane->members); s; s = next) {
		struct sal_memory without;
		int index = -1;

		next = RB_NEXT(sal_size_tree, &lane->members, s);
		if (lane->stuck || sal_may_share(e, lane, s))
			continue;
		if (s->place == SAL_RESIDENT && !s->running) {
			struct sal_needs needs = { s->held_bytes, s->ephem_bytes };

			memory_without(&e->memory, s, &without);
			index = sal_memory_find(&without, needs, sal_lane_choice(e, &without, s));
		}
		if (index < 0)
			left_over = true;
		else if ((uint32_t)index != lane->index)
			sal_move_home(e, s, (uint32_t)index);
	}
	return left_over;
}

void sal_gather(struct sal_engine *e)
{
	uint64_t rest;
	bool left_over = false;

	mark_draining(e);
	for (rest = e->memory.open_mask; rest; rest &= rest - 1)
		left_over |= gather_lane(e, &e->lanes[__builtin_ctzll(rest)]);
	e->lanes_over = left_over;
}

/* Would the waiting session s fit if all sessions shared one lane? */
static bool fits_in_one_lane(const struct sal_engine *e, const struct sal_session *s)
{
	struct sal_needs wants = sal_wants(e, s);
	uint64_t largest = wants.ephem_bytes, rest;

	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		uint64_t bytes = e->memory.lane_bytes[__builtin_ctzll(rest)];

		largest = bytes > largest ? bytes : largest;
	}
	return e->memory.persist_bytes - s->held_bytes + wants.persist_bytes + largest <=
	       e->memory.capacity_bytes;
}

/* The first in rank that has work and waits for memory; NULL: none. */
static struct sal_session *first_waiting(const struct sal_engine *e)
{
	struct sal_session *s = RB_MIN(sal_waiting_tree, (struct sal_waiting_tree *)&e->waiting);

	return s && s->waits_with_work ? s : NULL;
}

bool sal_is_lane_needed(const struct sal_engine *e, const struct sal_session *s)
{
	const struct sal_session *waits = first_waiting(e);

	return waits && sal_session_before(waits, s) && fits_in_one_lane(e, waits);
}

/* Does an iteration of a session after s run? */
static bool is_before_one(const struct sal_engine *e, const struct sal_session *s)
{
	uint64_t rest;

	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		const struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];

		if (lane->running && !lane->stuck && sal_session_before(s, lane->running))
			return true;
	}
	return false;
}

/*
 * With --lanes auto, lanes are only for speed. If a session waits for memory that they take, and it
 * would run before one that runs, all lanes but one close at their boundaries. None opens before
 * the session has its memory.
 */
void sal_squeeze_lanes(struct sal_engine *e)
{
	const struct sal_session *s = first_waiting(e);
	bool squeezed = e->tuning.lanes == SAL_LANES_AUTO && s && !e->policy->shares &&
			(e->squeezed || (sal_open_count(e) > 1 && is_before_one(e, s))) &&
			fits_in_one_lane(e, s);

	if (squeezed == e->squeezed)
		return;
	e->squeezed = squeezed;
	e->lanes_over = true;
}

static bool is_free_range(const struct sal_engine *e, const struct sal_lane *lane, uint64_t at,
			  uint64_t span)
{
	uint64_t rest;

	if (at < e->memory.persist_bytes)
		return false;
	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		const struct sal_lane *other = &e->lanes[__builtin_ctzll(rest)];

		if (other != lane && other->running && at < other->at + other->span &&
		    other->at < at + span)
			return false;
	}
	return true;
}

static bool any_shifted(const struct sal_engine *e, const struct sal_lane *but)
{
	uint64_t rest;

	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		const struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];

		if (lane != but && lane->shifted)
			return true;
	}
	return false;
}

/*
 * The highest free range of `span` bytes. A stuck lane may leave the running lanes scattered. A
 * free range ends where a running lane begins, or at the end of the device.
 */
static bool find_gap(const struct sal_engine *e, const struct sal_lane *lane, uint64_t span,
		     uint64_t *out_at)
{
	uint64_t rest;
	bool found = false;

	*out_at = 0;
	for (rest = e->memory.open_mask | UINT64_C(1) << lane->index; rest; rest &= rest - 1) {
		const struct sal_lane *other = &e->lanes[__builtin_ctzll(rest)];
		uint64_t top = other->running ? other->at : 0;

		if (other == lane) /* `lane` itself stands for the end of the device */
			top = e->memory.capacity_bytes;
		if (top < span || !is_free_range(e, lane, top - span, span) ||
		    (found && top - span <= *out_at))
			continue;
		*out_at = top - span;
		found = true;
	}
	return found;
}

/*
 * Give a lane at its boundary a range. The first choice is the lane's own place. If a running
 * neighbour is in the way and no other lane waits for its range, the lane takes its last range
 * again. Otherwise the lane waits for the neighbour's boundary. Lanes that start meanwhile start in
 * their own places, so the wait is bounded. A stuck neighbour has no boundary: if a lane is stuck,
 * any free range will do.
 */
bool sal_place_range(struct sal_engine *e, struct sal_lane *lane)
{
	uint64_t span = e->memory.lane_bytes[lane->index];
	uint64_t home = sal_memory_home(&e->memory, lane->index);

	if (!is_free_range(e, lane, home, span)) {
		if (lane->span >= span && !any_shifted(e, lane) &&
		    is_free_range(e, lane, lane->at, span)) {
			home = lane->at;
		} else if (e->stuck_count == 0 || !find_gap(e, lane, span, &home)) {
			lane->shifted = true;
			return false;
		}
	}
	lane->shifted = false;
	lane->at = home;
	lane->span = span;
	return true;
}
