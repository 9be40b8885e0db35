/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain - tells why a session does not run. Calls the functions that decide, and changes nothing.
 */
#include <string.h>

#include "core/engine/engine_impl.h"

/* Under a policy with owns_lane, sessions outside are admitted strictly in order. */
static struct sal_session *first_outside(const struct sal_engine *e)
{
	struct sal_session *s = RB_MIN(sal_waiting_tree, (struct sal_waiting_tree *)&e->waiting);

	while (s && s->place != SAL_OUTSIDE)
		s = RB_NEXT(sal_waiting_tree, &e->waiting, s);
	return s;
}

/*
 * The session that gets room before s: the claimant, for whom the engine makes room; an aged
 * session that is earlier in the order; with owns_lane, the first session outside. NULL: none.
 */
static struct sal_session *first_for_room(const struct sal_engine *e, const struct sal_session *s)
{
	struct sal_session *aged = TAILQ_FIRST(&e->aged), *first;

	if (e->claimant && e->claimant != s)
		return e->claimant;
	if (s->place != SAL_OUTSIDE)
		return NULL;
	if (aged && aged != s && sal_session_before(aged, s))
		return aged;
	first = e->policy->owns_lane ? first_outside(e) : NULL;
	return first != s ? first : NULL;
}

static void explain_memory(const struct sal_engine *e, const struct sal_session *s,
			   struct sal_memory_wait *out)
{
	*out = (struct sal_memory_wait){
		.needs = s->refused ? s->job.declared : sal_wants(e, s),
		.held_bytes = s->held_bytes,
		.free_bytes = sal_memory_free(&e->memory),
		.capacity_bytes = e->memory.capacity_bytes,
		.lane_is_stuck = sal_is_stranded(s),
		.aged = s->aged,
		.passed_over = s->passed_over,
		.first = first_for_room(e, s),
	};
}

/* Time that the next turn of a ready session takes; UINT64_MAX: unknown. */
static uint64_t turn_ns(const struct sal_engine *e, const struct sal_session *s)
{
	const struct sal_iteration *head = TAILQ_FIRST(&s->queue);

	if (head)
		return head->expected_ns ? head->expected_ns : UINT64_MAX;
	return s->reserved_until_ns > e->now_ns ? s->reserved_until_ns - e->now_ns : 0;
}

static void add_ahead(const struct sal_engine *e, struct sal_turn_wait *out, struct sal_session *s)
{
	uint64_t ns = turn_ns(e, s);

	if (out->ahead_count < SAL_AHEAD_MAX)
		out->ahead[out->ahead_count] = s;
	out->ahead_count++;
	out->ahead_ns = out->ahead_ns > UINT64_MAX - ns ? UINT64_MAX : out->ahead_ns + ns;
}

/* Call the policy's `pick`, then restore the policy's memory. */
static struct sal_session *ask_pick(struct sal_engine *e, struct sal_lane *lane)
{
	unsigned char state[sizeof(e->state)], slot[sizeof(lane->slot)];
	uint64_t alarm_ns = e->alarm_ns;
	bool reread = e->reread;
	struct sal_session *s;

	memcpy(state, e->state, sizeof(state));
	memcpy(slot, lane->slot, sizeof(slot));
	s = e->policy->pick(e->state, lane);
	memcpy(e->state, state, sizeof(state));
	memcpy(lane->slot, slot, sizeof(slot));
	e->alarm_ns = alarm_ns;
	e->reread = reread;
	return s && s->in_ready && s->lane == lane ? s : NULL;
}

static void explain_order(struct sal_engine *e, struct sal_session *s, struct sal_turn_wait *out)
{
	struct sal_session *other;

	out->is_order_known = !e->policy->pick;
	if (out->is_order_known) {
		for (other = sal_lane_first(s->lane); other && other != s;
		     other = sal_lane_next(other))
			add_ahead(e, out, other);
		return;
	}
	other = ask_pick(e, s->lane);
	if (other && other != s)
		add_ahead(e, out, other);
}

/* Would s run beside those that run, if it had a lane? */
static void explain_hold(struct sal_engine *e, struct sal_session *s, struct sal_turn_wait *out)
{
	struct sal_crowd crowd;

	sal_crowd_running(e, NULL, &crowd);
	out->hold = sal_hold_back(e, &crowd, s);
	out->rate_milli = sal_crowd_rate(&crowd);
	sal_crowd_add(&crowd, s, sal_next_tier(e, s));
	out->rate_with_milli = sal_crowd_rate(&crowd);
}

static void explain_turn(struct sal_engine *e, struct sal_session *s, struct sal_turn_wait *out)
{
	const struct sal_lane *lane = s->lane;

	*out = (struct sal_turn_wait){
		.running = lane->running,
		.running_goes_first = lane->running && sal_session_before(lane->running, s),
		.is_short = s->in_express,
		.waits_for_range = !lane->running && lane->shifted,
		.is_order_known = true,
	};
	if (!s->in_express && s->in_ready) {
		explain_order(e, s, out);
		if (sal_lane_limit(e) > 1)
			explain_hold(e, s, out);
	}
}

void sal_engine_explain(struct sal_engine *e, struct sal_session *s, struct sal_explanation *out)
{
	const struct sal_iteration *it;
	struct sal_session_view view;

	sal_engine_view(e, s, &view);
	*out = (struct sal_explanation){
		.state = view.state,
		.in_failures = s->in_failures,
		.retry_ns = s->rests ? s->rest_until_ns : 0,
	};
	TAILQ_FOREACH(it, &s->queue, queue_link)
		out->queued++;
	if (view.state == SAL_STATE_WAITING || view.state == SAL_STATE_REFUSED)
		explain_memory(e, s, &out->memory);
	if (view.state == SAL_STATE_READY)
		explain_turn(e, s, &out->turn);
}
