/* SPDX-License-Identifier: Apache-2.0 */
#include "core/view.h"

#include "core/engine/engine_impl.h"

uint64_t sal_session_id(const struct sal_session *s)
{
	return s->id;
}

void *sal_session_user(const struct sal_session *s)
{
	return s->user;
}

uint16_t sal_session_lane(const struct sal_session *s)
{
	return s->lane ? (uint16_t)s->lane->index : SAL_NO_LANE;
}

struct sal_session_memory sal_session_memory(const struct sal_session *s)
{
	return (struct sal_session_memory){ s->place, s->held_bytes, s->tracked_bytes };
}

struct sal_session *sal_engine_running(const struct sal_engine *e, uint32_t lane)
{
	return e->lanes[lane].running;
}

static enum sal_state state_of(const struct sal_session *s)
{
	if (s->refused)
		return SAL_STATE_REFUSED;
	if (s->running)
		return SAL_STATE_RUNNING;
	if (s->place == SAL_PAGING_OUT)
		return SAL_STATE_PAGING_OUT;
	if (s->place == SAL_PAGING_IN)
		return SAL_STATE_PAGING_IN;
	if (s->paused)
		return SAL_STATE_PAUSED;
	if (s->in_waiting)
		return SAL_STATE_WAITING;
	if (s->place == SAL_OUTSIDE && s->admitted)
		return SAL_STATE_PAGED;
	return TAILQ_EMPTY(&s->queue) || !s->lane ? SAL_STATE_IDLE : SAL_STATE_READY;
}

void sal_engine_view(const struct sal_engine *e, const struct sal_session *s,
		     struct sal_session_view *out)
{
	(void)e;
	*out = (struct sal_session_view){
		.state = state_of(s),
		.place = s->place,
		.lane = sal_session_lane(s),
		.paused = s->paused,
		.closing = s->closing,
		.refused = s->refused,
		.has_work = sal_session_has_work(s),
		.running = s->running,
		.job = s->job,
		.weight_milli = sal_session_weight(s),
		.used_ns = s->used_ns,
		.waited_ns = s->waited_ns,
		.done_iterations = s->done_iterations,
		.idle_since_ns = s->idle_since_ns,
		.held_bytes = s->held_bytes,
		.paged_bytes = s->paged_bytes,
		.tracked_bytes = s->tracked_bytes,
		.ephem_bytes = s->ephem_bytes,
	};
}

void sal_engine_lane_view(const struct sal_engine *e, uint32_t index, struct sal_lane_view *out)
{
	const struct sal_lane *lane = &e->lanes[index];

	SAL_ASSERT(index < SAL_LANES_MAX);
	*out = (struct sal_lane_view){
		.open = lane->open,
		.stuck = lane->stuck,
		.at = lane->at,
		.bytes = e->memory.lane_bytes[index],
		.running = lane->running,
	};
}

const struct sal_lane *sal_engine_lane(const struct sal_engine *e, uint32_t index)
{
	return index < SAL_LANES_MAX ? &e->lanes[index] : NULL;
}

const struct sal_policy *sal_engine_policy(const struct sal_engine *e)
{
	return e->policy;
}

bool sal_engine_has_tiers(const struct sal_engine *e)
{
	return e->policy->tier;
}

const struct sal_memory *sal_engine_memory(const struct sal_engine *e)
{
	return &e->memory;
}

uint32_t sal_engine_lane_limit(const struct sal_engine *e)
{
	return sal_lane_limit(e);
}

uint32_t sal_engine_resident_count(const struct sal_engine *e)
{
	return e->resident_count;
}

uint32_t sal_engine_waiting_count(const struct sal_engine *e)
{
	return e->waiting_count;
}
