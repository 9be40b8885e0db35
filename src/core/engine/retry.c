/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retry - failed copies. The engine takes its decision back, and does not repeat it at once.
 *
 * After a failed page-out the session is resident again. Other sessions may have taken its scratch
 * meanwhile. Then the session enters a lane without scratch, which always fits, and waits like any
 * resident session that needs more. So its bytes count all the time, and every rule about resident
 * sessions applies.
 *
 * After a failed page-in the session is outside again and rests. A resting session does not wait
 * for memory, so it blocks no other session.
 */
#include "core/engine/engine_impl.h"

#define NS_PER_S UINT64_C(1000000000)
#define STAY_NS (2 * NS_PER_S)
#define STAY_DOUBLINGS_MAX 5u
#define REST_NS NS_PER_S
#define REST_DOUBLINGS_MAX 3u

static uint64_t doubled(uint64_t ns, uint32_t failures, uint32_t most)
{
	return ns << (failures - 1 < most ? failures - 1 : most);
}

/* Put s back into a lane. If no lane suits, use any lane until s can move. */
static void go_home(struct sal_engine *e, struct sal_session *s)
{
	struct sal_lane_choice choice = sal_lane_choice(e, &e->memory, s);
	struct sal_needs needs = { .ephem_bytes = s->ephem_bytes };
	int index = sal_memory_find(&e->memory, needs, choice);

	if (index < 0) {
		s->ephem_bytes = needs.ephem_bytes = 0;
		index = sal_memory_find(&e->memory, needs, choice);
	}
	if (index < 0) {
		index = e->memory.open_mask ? __builtin_ctzll(e->memory.open_mask) : 0;
		e->lanes_over = true;
	}
	s->place = SAL_RESIDENT;
	sal_enter_lane(e, s, (uint32_t)index);
}

void sal_engine_page_out_failed(struct sal_engine *e, uint64_t now_ns, struct sal_session *s)
{
	SAL_ASSERT(s->place == SAL_PAGING_OUT);
	sal_begin(e, now_ns, SAL_PAGE_OUT_FAILED, s, NULL, s->paged_bytes);
	e->copying_count--;
	s->paged_bytes = 0;
	s->out_failures++;
	s->stay_until_ns = e->now_ns + doubled(STAY_NS, s->out_failures, STAY_DOUBLINGS_MAX);
	if (s->closing) {
		sal_session_release(e, s);
	} else {
		go_home(e, s);
		sal_give_back(e, s);
		sal_refile(e, s);
		if (!s->need_open)
			sal_emit(e, SAL_ADMIT, s, NULL, 0);
	}
	/* The plan no longer makes enough room: the sessions that have not left yet stay. */
	if (e->claimant)
		sal_spare_evictees(e);
	sal_settle(e);
}

/* Reopen the request that the page-in would have answered. */
static void reopen_need(struct sal_session *s)
{
	if (s->owed_bytes)
		s->tracked_bytes = s->paged_bytes;
	if (s->owed_bytes && !s->need_open) {
		s->need_open = true;
		s->asked_bytes = s->owed_bytes;
	}
	s->owed_bytes = 0;
}

static void refuse_all(struct sal_engine *e, struct sal_session *s)
{
	struct sal_iteration *it;

	while ((it = TAILQ_FIRST(&s->queue))) {
		sal_refuse(e, s, it->needs, it, SAL_REFUSE_PAGE_IN);
		TAILQ_REMOVE(&s->queue, it, queue_link);
	}
	if (s->need_open) {
		s->need_open = false;
		sal_refuse(e, s, (struct sal_needs){ .persist_bytes = s->asked_bytes }, NULL,
			   SAL_REFUSE_PAGE_IN);
	}
	s->idle_since_ns = e->now_ns;
}

static void start_rest(struct sal_engine *e, struct sal_session *s)
{
	s->rests = true;
	s->rest_until_ns = e->now_ns + doubled(REST_NS, s->in_failures, REST_DOUBLINGS_MAX);
	TAILQ_INSERT_TAIL(&e->resting, s, resting_link);
}

void sal_engine_page_in_failed(struct sal_engine *e, uint64_t now_ns, struct sal_session *s)
{
	SAL_ASSERT(s->place == SAL_PAGING_IN);
	sal_begin(e, now_ns, SAL_PAGE_IN_FAILED, s, NULL, s->paged_bytes);
	e->copying_count--;
	s->in_failures++;
	if (s->closing) {
		sal_session_release(e, s);
	} else {
		sal_leave_lane(e, s);
		s->place = SAL_OUTSIDE;
		sal_hold_bytes(e, s, 0);
		reopen_need(s);
		if (s->in_failures >= SAL_PAGE_TRIES_MAX)
			refuse_all(e, s);
		start_rest(e, s);
		sal_refile(e, s);
	}
	sal_settle(e);
}

void sal_end_rests(struct sal_engine *e)
{
	struct sal_session *s, *next;

	for (s = TAILQ_FIRST(&e->resting); s; s = next) {
		next = TAILQ_NEXT(s, resting_link);
		if (s->rest_until_ns > e->now_ns)
			continue;
		TAILQ_REMOVE(&e->resting, s, resting_link);
		s->rests = false;
		sal_refile(e, s);
	}
}

uint64_t sal_next_rest_end(const struct sal_engine *e)
{
	const struct sal_session *s;
	uint64_t soonest = UINT64_MAX;

	TAILQ_FOREACH(s, &e->resting, resting_link)
		if (s->rest_until_ns < soonest)
			soonest = s->rest_until_ns;
	return soonest;
}
