/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run - whose turn it is in a lane.
 *
 * At a boundary, a lane runs the session that the policy puts first. If that session is in a gap
 * between two iterations, the lane reserves the turn: it stays idle for a short, learned time.
 * Without the reservation, a job that submits one iteration at a time would lose the lane after
 * each iteration. Short programs go ahead of the order, one for each turn.
 */
#include "core/engine/engine_impl.h"

/* A reservation is twice the learned gap plus this. */
#define RESERVE_SLACK_NS 50000u
#define GAP_UNKNOWN UINT64_MAX

static bool may_run(const struct sal_session *s)
{
	return s->place == SAL_RESIDENT && !s->paused && !s->closing && !s->evicting &&
	       !s->running && !sal_is_stranded(s);
}

bool sal_is_express(const struct sal_engine *e, const struct sal_session *s)
{
	const struct sal_iteration *head = TAILQ_FIRST(&s->queue);

	return head && sal_is_short(e, head) && may_run(s) && sal_is_satisfied(s);
}

bool sal_is_ready(const struct sal_engine *e, const struct sal_session *s)
{
	if (!may_run(s))
		return false;
	if (!TAILQ_EMPTY(&s->queue))
		return sal_is_satisfied(s);
	return !s->need_open && (e->policy->owns_lane || e->now_ns < s->reserved_until_ns);
}

uint64_t sal_reserve_window(const struct sal_engine *e, const struct sal_session *s)
{
	uint64_t most = e->tuning.anticipate_ns;

	if (s->gap_ns == GAP_UNKNOWN)
		return most;
	if (s->gap_ns > most)
		return 0; /* its gaps are longer than the longest reservation */
	return s->gap_ns * 2 + RESERVE_SLACK_NS < most ? s->gap_ns * 2 + RESERVE_SLACK_NS : most;
}

void sal_learn_gap(struct sal_engine *e, struct sal_session *s)
{
	uint64_t gap = e->now_ns - s->idle_since_ns;
	uint64_t most = e->tuning.anticipate_ns * 8; /* a single long gap must not count for long */

	if (gap > most)
		gap = most;
	s->gap_ns = s->gap_ns == GAP_UNKNOWN ? gap : (s->gap_ns * 3 + gap) / 4;
}

struct sal_session *sal_pick(struct sal_engine *e, struct sal_lane *lane)
{
	struct sal_session *s = sal_lane_first(lane);

	if (s && e->policy->pick) {
		s = e->policy->pick(e->state, lane);
		if (!s || !s->in_ready || s->lane != lane) {
			sal_eject_policy(e, SAL_EJECT_PICK);
			s = sal_lane_first(lane);
		}
	}
	return s;
}

static bool has_reserved_turn(const struct sal_session *s)
{
	return TAILQ_EMPTY(&s->queue);
}

/* The session that runs next: the policy's pick or a short program. NULL: none. */
static struct sal_session *next(struct sal_engine *e, struct sal_lane *lane)
{
	struct sal_session *brief = TAILQ_FIRST(&lane->express);
	struct sal_session *s;

	if (brief && !lane->express_served) {
		lane->express_served = true;
		return brief;
	}
	s = sal_pick(e, lane);
	lane->express_served = false;
	return brief && (!s || has_reserved_turn(s)) ? brief : s;
}

static void set_tier(struct sal_engine *e, struct sal_session *s)
{
	uint32_t tier = sal_next_tier(e, s);

	if (tier == s->tier)
		return;
	s->tier = tier;
	if (e->tuning.tiers == 1)
		s->tiered_ns = e->now_ns;
}

void sal_grant(struct sal_engine *e, struct sal_lane *lane, struct sal_session *s)
{
	struct sal_iteration *it = TAILQ_FIRST(&s->queue);

	set_tier(e, s);
	TAILQ_REMOVE(&s->queue, it, queue_link);
	s->waited_ns += e->now_ns - (it->submit_ns > s->done_ns ? it->submit_ns : s->done_ns);
	if (e->policy->start)
		e->policy->start(e->state, s);
	sal_pace_start(e, s);
	s->running = it;
	lane->running = s;
	lane->start_ns = e->now_ns;
	sal_watch_lane(e, lane);
	e->running_count++;
	if (lane->at < e->memory.floor_bytes)
		e->memory.floor_bytes = lane->at;
	sal_refile(e, s);
	sal_emit(e, SAL_GRANT, s, it, s->tier);
}

void sal_run_lane(struct sal_engine *e, struct sal_lane *lane)
{
	lane->reserved_until_ns = 0;
	while (lane->open && !lane->running) {
		struct sal_session *s = next(e, lane);

		if (!s)
			return;
		if (has_reserved_turn(s)) {
			if (!sal_is_ready(e, s)) {
				sal_refile(e, s); /* its reservation has expired */
				continue;
			}
			lane->reserved_until_ns = e->policy->owns_lane ? UINT64_MAX
								       : s->reserved_until_ns;
			return;
		}
		if (!sal_place_range(e, lane))
			return;
		sal_grant(e, lane, s);
	}
}
