/* SPDX-License-Identifier: Apache-2.0 */
#include "core/order.h"

#include <string.h>

#include "core/engine/engine_impl.h"

int sal_order_by_rank(const struct sal_session *a, const struct sal_session *b)
{
	if (a == b)
		return 0;
	return sal_session_before(a, b) ? -1 : 1;
}

int sal_order_waiting(const struct sal_session *a, const struct sal_session *b)
{
	if (a->waits_with_work != b->waits_with_work)
		return a->waits_with_work ? -1 : 1;
	return sal_order_by_rank(a, b);
}

int sal_order_by_size(const struct sal_session *a, const struct sal_session *b)
{
	if (a->ephem_bytes != b->ephem_bytes)
		return a->ephem_bytes > b->ephem_bytes ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

RB_GENERATE(sal_ready_tree, sal_session, ready_link, sal_order_by_rank)
RB_GENERATE(sal_turn_tree, sal_session, turn_link, sal_order_by_rank)
RB_GENERATE(sal_resident_tree, sal_session, resident_link, sal_order_by_rank)
RB_GENERATE(sal_waiting_tree, sal_session, waiting_link, sal_order_waiting)
RB_GENERATE(sal_size_tree, sal_session, size_link, sal_order_by_size)

static void file_ready(struct sal_engine *e, struct sal_session *s, bool in)
{
	if (in == s->in_ready)
		return;
	s->in_ready = in;
	if (in) {
		RB_INSERT(sal_ready_tree, &s->lane->ready, s);
		RB_INSERT(sal_turn_tree, &e->turns, s);
		s->lane->ready_count++;
		e->ready_count++;
	} else {
		if (e->solo_next == s)
			e->solo_next = NULL;
		RB_REMOVE(sal_ready_tree, &s->lane->ready, s);
		RB_REMOVE(sal_turn_tree, &e->turns, s);
		s->lane->ready_count--;
		e->ready_count--;
	}
	sal_mark_dirty(e, s->lane);
}

static void file_express(struct sal_engine *e, struct sal_session *s, bool in)
{
	if (in == s->in_express)
		return;
	s->in_express = in;
	if (in) {
		TAILQ_INSERT_TAIL(&s->lane->express, s, express_link);
		e->ready_count++;
	} else {
		TAILQ_REMOVE(&s->lane->express, s, express_link);
		e->ready_count--;
	}
	sal_mark_dirty(e, s->lane);
}

static void file_resident(struct sal_engine *e, struct sal_session *s, bool in)
{
	if (in == s->in_resident)
		return;
	s->in_resident = in;
	if (in) {
		RB_INSERT(sal_resident_tree, &e->resident, s);
		e->resident_count++;
	} else {
		RB_REMOVE(sal_resident_tree, &e->resident, s);
		e->resident_count--;
	}
}

static void file_waiting(struct sal_engine *e, struct sal_session *s, bool in)
{
	bool with_work = sal_session_has_work(s) || s->need_open;

	if (in == s->in_waiting && (!in || with_work == s->waits_with_work))
		return;
	if (s->in_waiting) {
		RB_REMOVE(sal_waiting_tree, &e->waiting, s);
		e->waiting_count--;
	} else {
		e->memory_changed = true;
	}
	s->in_waiting = in;
	s->waits_with_work = with_work;
	if (in) {
		RB_INSERT(sal_waiting_tree, &e->waiting, s);
		e->waiting_count++;
	} else if (s->aged) {
		TAILQ_REMOVE(&e->aged, s, aged_link);
		s->aged = false;
	}
}

static void file_idle(struct sal_engine *e, struct sal_session *s, bool in)
{
	if (in == s->in_idle)
		return;
	s->in_idle = in;
	if (in)
		TAILQ_INSERT_TAIL(&e->idle, s, idle_link);
	else
		TAILQ_REMOVE(&e->idle, s, idle_link);
}

static void file_growing(struct sal_engine *e, struct sal_session *s)
{
	bool grows = s->in_waiting && s->place == SAL_RESIDENT;

	if (grows == s->grows)
		return;
	s->grows = grows;
	if (grows)
		TAILQ_INSERT_TAIL(&e->growing, s, growing_link);
	else
		TAILQ_REMOVE(&e->growing, s, growing_link);
}

/* Is the new rank of s between the ranks of these two neighbours? */
static bool stands(const struct sal_session *before, const struct sal_session *s,
		   const struct sal_session *after)
{
	return (!before || sal_session_before(before, s)) &&
	       (!after || sal_session_before(s, after));
}

/* Give s its new rank. Leaves the ready and resident trees alone if s stays in the same place. */
static void rerank(struct sal_engine *e, struct sal_session *s, struct sal_rank rank)
{
	bool ready, turn, resident, waiting;

	if (rank.major == s->rank.major && rank.minor == s->rank.minor)
		return;
	ready = s->in_ready;
	turn = s->in_ready;
	resident = s->in_resident;
	waiting = s->in_waiting;
	s->rank = rank;
	if (ready && stands(RB_PREV(sal_ready_tree, &s->lane->ready, s), s,
			    RB_NEXT(sal_ready_tree, &s->lane->ready, s)))
		ready = false;
	if (turn &&
	    stands(RB_PREV(sal_turn_tree, &e->turns, s), s, RB_NEXT(sal_turn_tree, &e->turns, s)))
		turn = false;
	if (resident && stands(RB_PREV(sal_resident_tree, &e->resident, s), s,
			       RB_NEXT(sal_resident_tree, &e->resident, s)))
		resident = false;
	/* RB_REMOVE follows links and compares no ranks, so the rank may change first. */
	if (ready)
		RB_REMOVE(sal_ready_tree, &s->lane->ready, s);
	if (turn)
		RB_REMOVE(sal_turn_tree, &e->turns, s);
	if (resident)
		RB_REMOVE(sal_resident_tree, &e->resident, s);
	if (waiting)
		RB_REMOVE(sal_waiting_tree, &e->waiting, s);
	if (ready)
		RB_INSERT(sal_ready_tree, &s->lane->ready, s);
	if (turn) {
		RB_INSERT(sal_turn_tree, &e->turns, s);
		sal_mark_dirty(e, s->lane);
	}
	if (resident)
		RB_INSERT(sal_resident_tree, &e->resident, s);
	if (waiting)
		RB_INSERT(sal_waiting_tree, &e->waiting, s);
}

void sal_unfile(struct sal_engine *e, struct sal_session *s)
{
	file_ready(e, s, false);
	file_express(e, s, false);
	file_resident(e, s, false);
	file_waiting(e, s, false);
	file_idle(e, s, false);
	file_growing(e, s);
}

void sal_refile(struct sal_engine *e, struct sal_session *s)
{
	bool express = sal_is_express(e, s);

	rerank(e, s, e->policy->rank(e->state, s));
	file_ready(e, s, !express && sal_is_ready(e, s));
	file_express(e, s, express);
	file_resident(e, s, s->place == SAL_RESIDENT && !s->closing);
	file_waiting(e, s, sal_waits_for_memory(e, s));
	file_idle(e, s,
		  s->in_resident && !s->running &&
			  (s->paused || (TAILQ_EMPTY(&s->queue) && !s->need_open)));
	file_growing(e, s);
}
