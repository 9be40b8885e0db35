/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check - verifies every invariant of the engine: computes sums and orders from the sessions, and
 * compares them with the engine's own. Tests call sal_engine_check after every event.
 */
#include "core/engine/engine_impl.h"

#include <inttypes.h>

/* Sums over all sessions, to compare with the engine's own sums. */
struct tally {
	uint64_t held_bytes;
	uint64_t need_bytes[SAL_LANES_MAX];
	uint32_t members[SAL_LANES_MAX], ready_in[SAL_LANES_MAX];
	uint32_t resident, waiting, running, copying, ready, idle, aged, evicting;
};

static bool broken(struct sal_err *err, const char *what, uint64_t id)
{
	(void)sal_err_set(err, SAL_INTERNAL, "%s (%" PRIu64 ")", what, id);
	return false;
}

static bool check_session(const struct sal_engine *e, const struct sal_session *s,
			  struct sal_err *err)
{
	bool has_lane = s->place == SAL_RESIDENT || s->place == SAL_PAGING_IN;

	if ((s->lane != NULL) != has_lane)
		return broken(err, "a session has a lane if and only if it is in", s->id);
	if (s->place == SAL_OUTSIDE && s->held_bytes != 0)
		return broken(err, "a session outside holds device memory", s->id);
	if (s->running && s->place != SAL_RESIDENT)
		return broken(err, "an iteration runs without its data", s->id);
	if (s->running && s->lane->running != s)
		return broken(err, "lane and session disagree about what runs", s->id);
	if (s->running && s->running->needs.persist_bytes > s->held_bytes)
		return broken(err, "an iteration holds more than its session", s->id);
	if (s->running && s->running->needs.ephem_bytes > s->lane->span)
		return broken(err, "an iteration has less scratch than it needs", s->id);
	if (s->in_waiting != sal_waits_for_memory(e, s))
		return broken(err, "waiting for memory is filed wrongly", s->id);
	if (s->in_resident != (s->place == SAL_RESIDENT && !s->closing))
		return broken(err, "residence is filed wrongly", s->id);
	if (sal_is_ready(e, s) && !s->in_ready && !s->in_express)
		return broken(err, "a session that may run is not ready", s->id);
	if (s->in_ready && !TAILQ_EMPTY(&s->queue) && !sal_is_ready(e, s))
		return broken(err, "a session that may not run is ready", s->id);
	if (sal_is_stranded(s) && s->in_waiting && sal_find_home(e, &e->memory, s) >= 0)
		return broken(err, "a session stays in a stuck lane without need", s->id);
	if (s->rests && s->place != SAL_OUTSIDE)
		return broken(err, "a session rests although it is in", s->id);
	if (s->in_plan)
		return broken(err, "a paging plan was left behind", s->id);
	return true;
}

static bool check_sessions(const struct sal_engine *e, struct tally *t, struct sal_err *err)
{
	const struct sal_session *s;

	TAILQ_FOREACH(s, &e->sessions, session_link) {
		if (!check_session(e, s, err))
			return false;
		t->held_bytes += s->held_bytes;
		t->resident += s->in_resident;
		t->waiting += s->in_waiting;
		t->running += s->running != NULL;
		t->copying += s->place == SAL_PAGING_IN || s->place == SAL_PAGING_OUT;
		t->ready += s->in_ready || s->in_express;
		t->idle += s->in_idle;
		t->aged += s->aged;
		t->evicting += s->evicting;
		if (s->lane) {
			uint32_t i = s->lane->index;

			t->members[i]++;
			t->ready_in[i] += s->in_ready;
			if (s->ephem_bytes > t->need_bytes[i])
				t->need_bytes[i] = s->ephem_bytes;
		}
	}
	return true;
}

static bool check_range(const struct sal_engine *e, const struct sal_lane *lane,
			struct sal_err *err)
{
	uint32_t i;

	if (!lane->running)
		return true;
	if (lane->at < e->memory.persist_bytes)
		return broken(err, "a running lane reaches into persistent memory", lane->index);
	if (lane->span > e->memory.capacity_bytes ||
	    lane->at > e->memory.capacity_bytes - lane->span)
		return broken(err, "a running lane reaches past the end", lane->index);
	for (i = 0; i < lane->index; i++) {
		const struct sal_lane *other = &e->lanes[i];

		if (other->running && lane->at < other->at + other->span &&
		    other->at < lane->at + lane->span)
			return broken(err, "two running lanes overlap", lane->index);
	}
	return true;
}

/* Does a session wait with good reason although a lane is idle? Then another one goes on. */
static bool holds_back(const struct sal_engine *e)
{
	uint32_t i;

	if (!e->holds_back)
		return false;
	for (i = 0; i < SAL_LANES_MAX; i++)
		if (e->lanes[i].open && e->lanes[i].reserved_until_ns)
			return true;
	return sal_makes_progress(e);
}

static bool check_lane(const struct sal_engine *e, const struct tally *t, uint32_t i,
		       struct sal_err *err)
{
	const struct sal_lane *lane = &e->lanes[i];
	uint64_t bytes = e->memory.lane_bytes[i];

	if (lane->open != (e->memory.open_mask >> i & 1) || (!lane->open && bytes))
		return broken(err, "memory and lane disagree about which are open", i);
	if (lane->open != (t->members[i] > 0) || lane->member_count != t->members[i])
		return broken(err, "a lane is open if and only if it has members", i);
	if (bytes < t->need_bytes[i] || (!lane->running && bytes != t->need_bytes[i]))
		return broken(err, "a lane is as large as its hungriest member", i);
	if (lane->stuck && !(lane->running && lane->stuck_at_ns <= e->now_ns))
		return broken(err, "a lane is stuck before its time", i);
	if (lane->ready_count != t->ready_in[i])
		return broken(err, "ready sessions are miscounted", i);
	if (lane->open && !lane->running && !lane->shifted && !lane->reserved_until_ns &&
	    !holds_back(e) && (lane->ready_count || !TAILQ_EMPTY(&lane->express)))
		return broken(err, "a lane is idle although somebody could run", i);
	return check_range(e, lane, err);
}

static bool check_memory(const struct sal_engine *e, const struct tally *t, struct sal_err *err)
{
	const struct sal_memory *m = &e->memory;
	uint64_t lanes = 0;
	uint32_t i, stuck = 0;

	for (i = 0; i < SAL_LANES_MAX; i++) {
		lanes += m->lane_bytes[i];
		stuck += e->lanes[i].stuck;
		if (!check_lane(e, t, i, err))
			return false;
	}
	if (stuck != e->stuck_count)
		return broken(err, "stuck lanes are miscounted", stuck);
	if (m->persist_bytes != t->held_bytes || m->lane_sum_bytes != lanes)
		return broken(err, "a sum of bytes is wrong", m->persist_bytes);
	if (m->persist_bytes > m->capacity_bytes || lanes > m->capacity_bytes - m->persist_bytes)
		return broken(err, "more memory is given out than there is", m->capacity_bytes);
	return true;
}

static bool check_order(const struct sal_engine *e, struct sal_err *err)
{
	struct sal_session *s, *next;
	uint32_t n = 0;

	for (s = RB_MIN(sal_resident_tree, (struct sal_resident_tree *)&e->resident); s; s = next) {
		next = sal_resident_tree_RB_NEXT(s);
		if (next && sal_order_by_rank(s, next) >= 0)
			return broken(err, "residents are out of order", s->id);
		n++;
	}
	for (s = RB_MIN(sal_waiting_tree, (struct sal_waiting_tree *)&e->waiting); s; s = next) {
		next = sal_waiting_tree_RB_NEXT(s);
		if (next && sal_order_waiting(s, next) >= 0)
			return broken(err, "those that wait are out of order", s->id);
		n++;
	}
	if (n != e->resident_count + e->waiting_count)
		return broken(err, "sessions are lost in the orders", n);
	return true;
}

bool sal_engine_check(const struct sal_engine *e, struct sal_err *err)
{
	struct tally t = { 0 };

	if (!check_sessions(e, &t, err) || !check_memory(e, &t, err) || !check_order(e, err))
		return false;
	if (t.resident != e->resident_count || t.waiting != e->waiting_count ||
	    t.running != e->running_count || t.copying != e->copying_count ||
	    t.ready != e->ready_count)
		return broken(err, "a count of sessions is wrong", t.resident);
	if (t.evicting && !e->claimant)
		return broken(err, "somebody is to leave for nobody", t.evicting);
	if (e->claimant && !t.evicting && !t.copying && !sal_makes_progress(e))
		return broken(err, "somebody is waited for without end", e->claimant->id);
	if (e->dirty_mask || e->memory_changed)
		return broken(err, "something was left undone", e->dirty_mask);
	return true;
}
