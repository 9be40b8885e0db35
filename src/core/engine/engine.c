/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine.h"

#include <stdlib.h>
#include <string.h>

#include "core/engine/engine_impl.h"

static uint16_t lane_of(const struct sal_session *s)
{
	return s && s->lane ? (uint16_t)s->lane->index : SAL_NO_LANE;
}

void sal_emit(struct sal_engine *e, enum sal_what what, struct sal_session *s,
	      struct sal_iteration *it, uint64_t value)
{
	struct sal_record r = {
		.now_ns = e->now_ns,
		.session = s ? s->id : 0,
		.iteration = it ? it->id : 0,
		.value = value,
		.what = (uint16_t)what,
		.lane = lane_of(s),
	};

	if (!e->emit)
		return;
	if (it) {
		r.persist_bytes = it->needs.persist_bytes;
		r.ephem_bytes = it->needs.ephem_bytes;
		r.grow_bytes = it->grow_bytes;
	} else if (s) {
		r.persist_bytes = s->held_bytes;
		r.ephem_bytes = s->ephem_bytes;
	}
	e->emit(e->emit_ctx, &r, s, it);
}

/* The engine's time never goes back, even if the caller's clock does. */
void sal_pass_time(struct sal_engine *e, uint64_t now_ns)
{
	if (now_ns <= e->now_ns)
		return;
	if (e->running_count > 1)
		e->crowd_ns += now_ns - e->now_ns;
	sal_gain_pass_time(e, now_ns - e->now_ns);
	if (e->trial.matters)
		e->trial.passed_ns += now_ns - e->now_ns;
	e->now_ns = now_ns;
}

/* Every event starts here. */
void sal_begin(struct sal_engine *e, uint64_t now_ns, enum sal_what what, struct sal_session *s,
	       struct sal_iteration *it, uint64_t value)
{
	sal_pass_time(e, now_ns);
	if (e->emit_events)
		sal_emit(e, what, s, it, value);
}

int sal_engine_create(const struct sal_engine_config *cfg, struct sal_engine **out_engine,
		      struct sal_err *err)
{
	struct sal_engine *e;
	uint32_t i;

	*out_engine = NULL;
	if (cfg->capacity_bytes == 0)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "a device needs some memory");
	e = calloc(1, sizeof(*e));
	if (!e)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	sal_memory_init(&e->memory, cfg->capacity_bytes);
	for (i = 0; i < SAL_LANES_MAX; i++)
		sal_lane_init(&e->lanes[i], i);
	e->tuning = cfg->tuning;
	e->emit = cfg->emit;
	e->emit_ctx = cfg->emit_ctx;
	e->emit_events = cfg->emit_events;
	e->next_id = 1;
	TAILQ_INIT(&e->sessions);
	RB_INIT(&e->turns);
	RB_INIT(&e->resident);
	RB_INIT(&e->waiting);
	TAILQ_INIT(&e->idle);
	TAILQ_INIT(&e->aged);
	TAILQ_INIT(&e->growing);
	TAILQ_INIT(&e->resting);
	TAILQ_INIT(&e->evictees);
	if (sal_engine_set_policy(e, 0, cfg->policy ? cfg->policy : &sal_policy_fifo, err) < 0) {
		free(e);
		return -SAL_INVALID_ARGUMENT;
	}
	*out_engine = e;
	return SAL_OK;
}

void sal_engine_destroy(struct sal_engine *e)
{
	struct sal_session *s;

	if (!e)
		return;
	while ((s = TAILQ_FIRST(&e->sessions))) {
		TAILQ_REMOVE(&e->sessions, s, session_link);
		free(s);
	}
	free(e);
}

int sal_engine_open(struct sal_engine *e, uint64_t now_ns, const struct sal_job *job, void *user,
		    struct sal_session **out_session, struct sal_err *err)
{
	struct sal_session *s;

	*out_session = NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	s->id = e->next_id++;
	s->user = user;
	sal_take_job(s, job);
	s->gap_ns = UINT64_MAX;
	TAILQ_INIT(&s->queue);
	TAILQ_INSERT_TAIL(&e->sessions, s, session_link);
	*out_session = s;
	sal_begin(e, now_ns, SAL_OPEN, s, NULL, job->total_ns);
	s->open_ns = e->now_ns;
	s->idle_since_ns = e->now_ns;
	if (e->policy->join)
		e->policy->join(e->state, s);
	s->refused = sal_refuse_too_large(e, s, job->declared, NULL);
	sal_refile(e, s);
	sal_settle(e);
	return SAL_OK;
}

void sal_session_release(struct sal_engine *e, struct sal_session *s)
{
	if (e->policy->leave)
		e->policy->leave(e->state, s);
	if (s->evicting) {
		TAILQ_REMOVE(&e->evictees, s, plan_link);
		s->evicting = false;
		e->memory_changed = true;
	}
	if (s->rests)
		TAILQ_REMOVE(&e->resting, s, resting_link);
	if (s->lane)
		sal_leave_lane(e, s);
	else
		sal_unfile(e, s);
	sal_hold_bytes(e, s, 0);
	TAILQ_REMOVE(&e->sessions, s, session_link);
	free(s);
}

void sal_engine_close(struct sal_engine *e, uint64_t now_ns, struct sal_session *s)
{
	sal_begin(e, now_ns, SAL_CLOSE, s, NULL, 0);
	s->closing = true;
	e->lanes_freed = true;
	TAILQ_INIT(&s->queue);
	if (e->claimant == s)
		sal_drop_claim(e);
	if (s->running)
		sal_watch_lane(e, s->lane);
	if (s->running || s->place == SAL_PAGING_IN || s->place == SAL_PAGING_OUT)
		sal_refile(e, s);
	else
		sal_session_release(e, s);
	sal_settle(e);
}

void sal_engine_declare(struct sal_engine *e, uint64_t now_ns, struct sal_session *s,
			const struct sal_job *job)
{
	if (s->lane)
		s->lane->kind_count[s->job.kind]--;
	sal_take_job(s, job);
	if (s->lane)
		s->lane->kind_count[s->job.kind]++;
	sal_begin(e, now_ns, SAL_DECLARE, s, NULL, job->total_ns);
	if (s->refused || !s->admitted)
		s->refused = sal_refuse_too_large(e, s, job->declared, NULL);
	sal_drop_impossible(e, s);
	sal_refile(e, s);
	e->memory_changed = true;
	e->lanes_over = e->lanes_over || e->policy->shares;
	sal_settle(e);
}

/* Reduce held_bytes to the largest of: declared, tracked, needed by the running iteration. */
void sal_give_back(struct sal_engine *e, struct sal_session *s)
{
	uint64_t least = s->job.declared.persist_bytes;

	if (s->tracked_bytes > least)
		least = s->tracked_bytes;
	if (s->running && s->running->needs.persist_bytes > least)
		least = s->running->needs.persist_bytes;
	if (s->place == SAL_RESIDENT && least < s->held_bytes)
		sal_hold_bytes(e, s, least);
}

void sal_engine_need(struct sal_engine *e, uint64_t now_ns, struct sal_session *s,
		     uint64_t persist_bytes)
{
	struct sal_needs needs = { .persist_bytes = persist_bytes };
	bool more = persist_bytes > s->tracked_bytes;

	sal_begin(e, now_ns, SAL_NEED, s, NULL, persist_bytes);
	if (s->refused)
		sal_refuse(e, s, needs, NULL, SAL_REFUSE_CAPACITY);
	if (s->closing || s->refused || sal_refuse_too_large(e, s, needs, NULL))
		return;
	s->asked_bytes = persist_bytes;
	s->need_open = s->place != SAL_RESIDENT ? more : persist_bytes > s->held_bytes;
	if (!s->need_open) {
		s->tracked_bytes = persist_bytes;
		if (s->paged_bytes > persist_bytes)
			s->paged_bytes = persist_bytes;
		if (s->owed_bytes)
			s->owed_bytes = persist_bytes > s->paged_bytes ? persist_bytes : 0;
		sal_give_back(e, s);
		sal_drop_impossible(e, s);
	}
	sal_refile(e, s);
	if (sal_is_stranded(s)) /* its new needs may fit into another lane */
		e->memory_changed = true;
	if (more && !s->need_open)
		sal_emit(e, SAL_ADMIT, s, NULL, 0);
	sal_settle(e);
}

void sal_engine_submit(struct sal_engine *e, uint64_t now_ns, struct sal_session *s,
		       struct sal_iteration *it)
{
	bool was_idle = !sal_session_has_work(s);

	sal_begin(e, now_ns, SAL_SUBMIT, s, it, it->expected_ns);
	if (s->closing)
		return;
	if (s->refused) {
		sal_refuse(e, s, it->needs, it, SAL_REFUSE_CAPACITY);
		return;
	}
	it->submit_ns = e->now_ns;
	if (!sal_accept(e, s, it))
		return;
	sal_scratch_expect(s, it);
	sal_pace_forget(e, it->pace);
	TAILQ_INSERT_TAIL(&s->queue, it, queue_link);
	sal_drop_impossible(e, s);
	if (was_idle && sal_session_has_work(s)) {
		if (s->done_iterations > 0)
			sal_learn_gap(e, s);
		sal_note_gap(e, s, it);
		if (e->policy->wake && !s->in_ready)
			e->policy->wake(e->state, s);
	}
	sal_refile(e, s);
	if (s->lane)
		sal_mark_dirty(e, s->lane);
	if (sal_is_stranded(s)) /* its new needs may fit into another lane */
		e->memory_changed = true;
	sal_settle(e);
}

/* Set floor_bytes to the lowest byte that a running iteration uses. */
static void raise_floor(struct sal_engine *e)
{
	uint64_t floor = e->memory.capacity_bytes;
	uint64_t rest;

	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];

		if (lane->running && lane->at < floor)
			floor = lane->at;
		if (lane->shifted)
			sal_mark_dirty(e, lane);
	}
	/* A lane below its own place may have blocked persistent bytes. */
	if (e->memory.floor_bytes < e->memory.capacity_bytes - e->memory.lane_sum_bytes)
		e->memory_changed = true;
	e->memory.floor_bytes = floor;
}

/* used_ns is time alone. */
static void account(struct sal_engine *e, struct sal_session *s, const struct sal_iteration *it,
		    uint64_t used_ns)
{
	s->used_ns += used_ns;
	s->done_iterations++;
	s->done_ns = e->now_ns;
	/* Assume that s still holds the iteration's bytes until `need` reports another number. */
	if (it->needs.persist_bytes > s->tracked_bytes)
		s->tracked_bytes = it->needs.persist_bytes;
	if (e->policy->charge)
		e->policy->charge(e->state, s, used_ns);
	e->gain.alone_ns += used_ns;
	sal_trial_count(e, used_ns);
	sal_count_device_time(e, used_ns);
	sal_find_kind(e, s, it, used_ns);
	if (TAILQ_EMPTY(&s->queue)) {
		s->idle_since_ns = e->now_ns;
		s->reserved_until_ns = e->now_ns + sal_reserve_window(e, s);
	}
}

void sal_engine_done(struct sal_engine *e, uint64_t now_ns, struct sal_session *s, uint64_t used_ns)
{
	struct sal_lane *lane = s->lane;
	struct sal_iteration *it = s->running;

	SAL_ASSERT(it && lane && lane->running == s);
	sal_begin(e, now_ns, SAL_DONE, s, it, used_ns);
	used_ns = sal_pace_end(e, s, it, used_ns);
	lane->running = NULL;
	lane->last = s;
	e->running_count--;
	s->running = NULL;
	account(e, s, it, used_ns);
	sal_scratch_learn(e, s, it);
	sal_unstick_lane(e, lane);
	sal_drop_impossible(e, s);
	if (s->closing)
		sal_session_release(e, s);
	else if (s->evicting)
		sal_page_out(e, s);
	else
		sal_refile(e, s);
	if (!TAILQ_EMPTY(&e->growing)) /* at a boundary they may move to a lane with room */
		e->memory_changed = true;
	sal_fit_lane(e, lane);
	raise_floor(e);
	sal_mark_dirty(e, lane);
	sal_settle(e);
}

void sal_engine_paged_out(struct sal_engine *e, uint64_t now_ns, struct sal_session *s)
{
	SAL_ASSERT(s->place == SAL_PAGING_OUT);
	sal_begin(e, now_ns, SAL_PAGED_OUT, s, NULL, s->paged_bytes);
	e->copying_count--;
	s->place = SAL_OUTSIDE;
	s->out_failures = 0;
	sal_hold_bytes(e, s, 0);
	if (s->closing)
		sal_session_release(e, s);
	else
		sal_refile(e, s);
	sal_settle(e);
}

void sal_engine_paged_in(struct sal_engine *e, uint64_t now_ns, struct sal_session *s)
{
	SAL_ASSERT(s->place == SAL_PAGING_IN);
	sal_begin(e, now_ns, SAL_PAGED_IN, s, NULL, s->paged_bytes);
	e->copying_count--;
	s->place = SAL_RESIDENT;
	s->paged_bytes = 0;
	s->owed_bytes = 0;
	s->in_failures = 0;
	s->resident_since_ns = e->now_ns;
	if (s->closing) {
		sal_session_release(e, s);
	} else {
		sal_refile(e, s);
		if (!s->need_open)
			sal_emit(e, SAL_ADMIT, s, NULL, 0);
	}
	sal_settle(e);
}

void sal_engine_tick(struct sal_engine *e, uint64_t now_ns)
{
	sal_begin(e, now_ns, SAL_TICK, NULL, NULL, 0);
	if (e->wake_ns <= e->now_ns)
		e->wake_ns = 0;
	e->dirty_mask |= e->memory.open_mask;
	sal_settle(e);
}

static void reset_policy(struct sal_engine *e, const struct sal_policy *policy)
{
	struct sal_session *s;
	uint32_t i;

	for (i = 0; i < SAL_LANES_MAX; i++)
		e->lanes[i].clock = 0;
	for (i = 0; i < SAL_LANES_MAX; i++)
		memset(e->lanes[i].slot, 0, sizeof(e->lanes[i].slot));
	TAILQ_FOREACH(s, &e->sessions, session_link)
		sal_unfile(e, s);
	e->policy = policy;
	memset(e->state, 0, sizeof(e->state));
	e->device_ns = 0;
	e->alarm_ns = UINT64_MAX;
	if (policy->tune)
		policy->tune(e->state, &e->tuning);
	sal_set_param_defaults(e);
	TAILQ_FOREACH(s, &e->sessions, session_link) {
		memset(s->slot, 0, sizeof(s->slot));
		if (policy->join)
			policy->join(e->state, s);
		if (s->lane && policy->enter)
			policy->enter(e->state, s);
	}
	sal_reread_ranks(e);
	e->dirty_mask |= e->memory.open_mask;
	e->memory_changed = true;
	e->lanes_over = true;
	e->lanes_freed = true;
	e->search_ns = 0;
}

void sal_eject_policy(struct sal_engine *e, enum sal_reason reason)
{
	struct sal_record r = {
		.now_ns = e->now_ns,
		.what = SAL_EJECT,
		.lane = SAL_NO_LANE,
		.reason = (uint16_t)reason,
	};

	reset_policy(e, &sal_policy_fifo);
	if (e->emit)
		e->emit(e->emit_ctx, &r, NULL, NULL);
}

int sal_engine_set_policy(struct sal_engine *e, uint64_t now_ns, const struct sal_policy *policy,
			  struct sal_err *err)
{
	int rc = sal_policy_check(policy, err);

	if (rc < 0)
		return rc;
	e->policy = policy; /* the trace takes its name */
	sal_begin(e, now_ns, SAL_SET_POLICY, NULL, NULL, sal_policy_number(policy));
	reset_policy(e, policy);
	sal_settle(e);
	return SAL_OK;
}

void sal_engine_pause(struct sal_engine *e, uint64_t now_ns, struct sal_session *s)
{
	sal_begin(e, now_ns, SAL_PAUSE, s, NULL, 0);
	if (!s->running)
		s->idle_since_ns = e->now_ns;
	s->paused = true;
	sal_refile(e, s);
	if (e->claimant == s)
		sal_drop_claim(e);
	if (s->lane)
		sal_mark_dirty(e, s->lane);
	sal_settle(e);
}

void sal_engine_resume(struct sal_engine *e, uint64_t now_ns, struct sal_session *s)
{
	sal_begin(e, now_ns, SAL_RESUME, s, NULL, 0);
	s->paused = false;
	if (e->policy->wake && sal_session_has_work(s) && !s->in_ready)
		e->policy->wake(e->state, s);
	sal_refile(e, s);
	if (s->lane)
		sal_mark_dirty(e, s->lane);
	sal_settle(e);
}
