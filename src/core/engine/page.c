/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page - makes room for a waiting session: pages other sessions out at their boundary.
 *
 * Which sessions may be paged out:
 *   - a session that is idle for long enough, for any session with work;
 *   - a session to which the policy prefers the waiting one, if the waiting one would run next; the
 *     policy knows the time that the copies take;
 *   - any session, last in the policy's order first, if otherwise no session could ever go on.
 *
 * After a failed page-out, a session is not chosen again for a while (retry.c).
 *
 * The engine makes a plan on a copy of the memory, and carries the plan out only if the waiting
 * session then fits. There is one plan at a time. Its waiting session is the claimant, and no other
 * session is admitted from outside before the claimant.
 */
#include "core/engine/engine_impl.h"

#define NS_PER_S UINT64_C(1000000000)
#define SEARCH_AGAIN_NS (NS_PER_S / 10)
#define PRUNE_MAX 16

enum plan_mode {
	PLAN_PREFERRED,
	PLAN_FORCED
};

struct plan {
	struct sal_session *in;
	enum plan_mode mode;
	struct sal_session_list victims;
	uint32_t count;
	struct sal_memory after;
	struct sal_session *top[SAL_LANES_MAX]; /* largest member that is not in the plan */
	uint64_t stuck_mask; /* stuck lanes: their sizes do not change */
	uint64_t cost_ns;
	uint64_t retry_ns; /* a session can be chosen from then on; 0: none */
	bool barred; /* a session is exempt because its page-out failed */
	bool has_hope; /* a session that cannot go now will probably go later */
	bool ejected;
};

static uint64_t copy_ns(const struct sal_engine *e, uint64_t bytes)
{
	uint64_t rate = e->tuning.page_bytes_per_s;

	return rate ? (uint64_t)((unsigned __int128)bytes * NS_PER_S / rate) : 0;
}

/* Bytes that a page-out copies. */
static uint64_t live_bytes(const struct sal_session *s)
{
	return s->tracked_bytes < s->held_bytes ? s->tracked_bytes : s->held_bytes;
}

static void plan_init(const struct sal_engine *e, struct plan *p, struct sal_session *in,
		      enum plan_mode mode)
{
	uint64_t rest;

	p->in = in;
	p->mode = mode;
	TAILQ_INIT(&p->victims);
	p->count = 0;
	p->after = e->memory;
	p->after.floor_bytes = e->memory.capacity_bytes;
	p->cost_ns = copy_ns(e, in->paged_bytes);
	p->stuck_mask = 0;
	p->retry_ns = 0;
	p->barred = false;
	p->has_hope = false;
	p->ejected = false;
	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(rest);
		const struct sal_lane *lane = &e->lanes[i];

		p->top[i] = RB_MIN(sal_size_tree, (struct sal_size_tree *)&lane->members);
		if (lane->stuck) {
			p->stuck_mask |= UINT64_C(1) << i;
			if (lane->at < p->after.floor_bytes)
				p->after.floor_bytes = lane->at;
		}
	}
}

/* Give lane i the size that it has after the plan. */
static void plan_fit_lane(struct plan *p, uint32_t i)
{
	if (p->stuck_mask >> i & 1)
		return;
	while (p->top[i] && p->top[i]->in_plan)
		p->top[i] = sal_size_tree_RB_NEXT(p->top[i]);
	if (!p->top[i])
		sal_memory_resize(&p->after, i, 0, false);
	else if (p->top[i]->ephem_bytes < p->after.lane_bytes[i])
		sal_memory_resize(&p->after, i, p->top[i]->ephem_bytes, true);
}

static void plan_add(struct sal_engine *e, struct plan *p, struct sal_session *v)
{
	v->in_plan = true;
	TAILQ_INSERT_TAIL(&p->victims, v, plan_link);
	p->count++;
	p->after.persist_bytes -= v->held_bytes;
	p->cost_ns += copy_ns(e, live_bytes(v));
	plan_fit_lane(p, v->lane->index);
}

static bool plan_suffices(const struct sal_engine *e, const struct plan *p)
{
	return sal_find_home(e, &p->after, p->in) >= 0;
}

static void plan_discard(struct plan *p)
{
	struct sal_session *v;

	TAILQ_FOREACH(v, &p->victims, plan_link)
		v->in_plan = false;
}

/* An idle session may be paged out from this time on: its page-in must have been worth it. */
static uint64_t idle_until(const struct sal_engine *e, const struct sal_session *v,
			   enum plan_mode mode)
{
	uint64_t worth = v->resident_since_ns +
			 UINT64_C(2) * e->tuning.page_margin * copy_ns(e, live_bytes(v));
	uint64_t idle = v->idle_since_ns + e->tuning.idle_ns;

	if (v->paused)
		return v->idle_since_ns;
	return mode == PLAN_FORCED || worth > idle ? worth : idle;
}

static void ask_later(struct plan *p, uint64_t at_ns)
{
	if (!p->retry_ns || at_ns < p->retry_ns)
		p->retry_ns = at_ns;
}

static bool may_ask(const struct sal_engine *e, struct plan *p, const struct sal_session *v)
{
	if (v == p->in || v->in_plan || v->evicting || v->closing || (v->running && v->lane->stuck))
		return false;
	if (v->stay_until_ns <= e->now_ns)
		return true;
	p->barred = true;
	p->has_hope = p->has_hope || v->out_failures < SAL_PAGE_TRIES_MAX;
	ask_later(p, v->stay_until_ns);
	return false;
}

static bool ask_idle(struct sal_engine *e, struct plan *p)
{
	struct sal_session *v;
	uint32_t searched = 0;

	TAILQ_FOREACH(v, &e->idle, idle_link) {
		uint64_t until;

		if (searched++ == SAL_SEARCH_MAX && p->mode == PLAN_PREFERRED)
			break;
		if (!may_ask(e, p, v))
			continue;
		until = idle_until(e, v, p->mode);
		if (until > e->now_ns) {
			p->has_hope = true;
			ask_later(p, until);
			continue;
		}
		plan_add(e, p, v);
		if (plan_suffices(e, p))
			return true;
	}
	return false;
}

static bool prefers(struct sal_engine *e, struct plan *p, const struct sal_session *v)
{
	uint64_t cost_ns = p->cost_ns + copy_ns(e, live_bytes(v));

	if (!e->policy->prefers || !e->policy->prefers(e->state, p->in, v, cost_ns))
		return false;
	p->ejected = e->policy->prefers(e->state, v, p->in, cost_ns);
	return !p->ejected;
}

static bool ask_by_rank(struct sal_engine *e, struct plan *p)
{
	struct sal_session *v;

	for (v = RB_MAX(sal_resident_tree, &e->resident); v;
	     v = RB_PREV(sal_resident_tree, &e->resident, v)) {
		if (!may_ask(e, p, v))
			continue;
		if (v->in_idle && !e->policy->owns_lane)
			continue; /* ask_idle has tried it */
		if (p->mode == PLAN_PREFERRED && !prefers(e, p, v))
			return false;
		plan_add(e, p, v);
		if (plan_suffices(e, p))
			return true;
	}
	return false;
}

/* Remove sessions from the plan that need not go. */
static void plan_prune(struct sal_engine *e, struct plan *p)
{
	struct sal_session *v, *next;

	if (p->count > PRUNE_MAX)
		return;
	for (v = TAILQ_FIRST(&p->victims); v && p->count > 1; v = next) {
		struct sal_memory before = p->after;
		uint32_t i = v->lane->index;

		next = TAILQ_NEXT(v, plan_link);
		v->in_plan = false;
		p->after.persist_bytes += v->held_bytes;
		if (v->ephem_bytes > p->after.lane_bytes[i] || !(p->after.open_mask >> i & 1))
			sal_memory_resize(&p->after, i, v->ephem_bytes, true);
		if (plan_suffices(e, p)) {
			TAILQ_REMOVE(&p->victims, v, plan_link);
			p->count--;
		} else {
			v->in_plan = true;
			p->after = before;
		}
	}
}

static void carry_out(struct sal_engine *e, struct plan *p)
{
	struct sal_session *v;

	e->claimant = p->in;
	e->retry_ns = 0;
	while ((v = TAILQ_FIRST(&p->victims))) {
		TAILQ_REMOVE(&p->victims, v, plan_link);
		v->in_plan = false;
		v->evicting = true;
		TAILQ_INSERT_TAIL(&e->evictees, v, plan_link);
		sal_refile(e, v);
		if (!v->running)
			sal_page_out(e, v);
	}
	e->memory_changed = true; /* a victim without bytes frees its room at once */
}

/*
 * The last resort if no session can be paged out: refuse the last resident session that waits.
 */
static bool refuse_last(struct sal_engine *e, enum sal_reason reason)
{
	struct sal_session *s;
	struct sal_iteration *head;

	if (!TAILQ_EMPTY(&e->idle))
		return false; /* an idle session may close or shrink */
	for (s = RB_MAX(sal_waiting_tree, &e->waiting); s;
	     s = RB_PREV(sal_waiting_tree, &e->waiting, s))
		if (s->place == SAL_RESIDENT)
			break;
	if (!s)
		return false;
	head = TAILQ_FIRST(&s->queue);
	sal_refuse(e, s, sal_wants(e, s), head, reason);
	if (head)
		TAILQ_REMOVE(&s->queue, head, queue_link);
	s->need_open = false;
	s->idle_since_ns = e->now_ns;
	sal_drop_impossible(e, s);
	sal_refile(e, s);
	return true;
}

static bool try_plan(struct sal_engine *e, struct sal_session *in, enum plan_mode mode, bool leads)
{
	struct plan p;
	bool found;

	plan_init(e, &p, in, mode);
	found = ask_idle(e, &p) || (leads && ask_by_rank(e, &p));
	if (p.ejected) {
		plan_discard(&p);
		sal_eject_policy(e, SAL_EJECT_PREFERS);
		return false;
	}
	if (found) {
		plan_prune(e, &p);
		carry_out(e, &p);
		return true;
	}
	plan_discard(&p);
	if (mode == PLAN_FORCED && p.barred && !p.has_hope && e->running_count == 0 &&
	    refuse_last(e, SAL_REFUSE_PAGE_OUT))
		return true;
	/* Do not repeat a long and vain search at every event. */
	e->retry_ns = p.retry_ns;
	if (p.count >= SAL_SEARCH_MAX && mode == PLAN_PREFERRED)
		e->search_ns = e->now_ns + SEARCH_AGAIN_NS;
	return false;
}

/* Would s run next in some lane, if it were resident? */
static bool leads(const struct sal_engine *e, const struct sal_session *s)
{
	struct sal_lane_choice choice = sal_lane_choice(e, &e->memory, s);
	uint64_t rest;

	if (choice.may_open)
		return true;
	for (rest = choice.allowed; rest; rest &= rest - 1) {
		const struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];
		const struct sal_session *first = sal_lane_first(lane);

		if (lane->running && (!first || sal_session_before(lane->running, first)))
			first = lane->running;
		if (!first || first == s || sal_session_before(s, first))
			return true;
	}
	return false;
}

static struct sal_session *first_with_work(struct sal_engine *e)
{
	struct sal_session *s = RB_MIN(sal_waiting_tree, &e->waiting);

	return s && s->waits_with_work ? s : NULL;
}

void sal_make_room(struct sal_engine *e)
{
	struct sal_session *in;
	bool next;

	e->retry_ns = 0;
	if (e->claimant || e->tuning.page_bytes_per_s == 0 || e->search_ns > e->now_ns)
		return;
	in = first_with_work(e);
	if (!in)
		return;
	next = e->policy->prefers && leads(e, in);
	if (next || !TAILQ_EMPTY(&e->idle))
		(void)try_plan(e, in, PLAN_PREFERRED, next);
}

/* No lane is open, and the policy wants none for s. */
static bool is_shut_out(const struct sal_engine *e, const struct sal_session *s)
{
	return sal_open_count(e) == 0 && !sal_lane_choice(e, &e->memory, s).may_open;
}

bool sal_break_deadlock(struct sal_engine *e)
{
	struct sal_session *in = first_with_work(e);

	if (!in)
		return false;
	if (sal_try_admit(e, in))
		return true;
	if (is_shut_out(e, in)) {
		sal_eject_policy(e, SAL_EJECT_SHUT);
		return true;
	}
	if (e->tuning.page_bytes_per_s == 0) /* a stuck iteration may still end */
		return e->running_count == 0 && refuse_last(e, SAL_REFUSE_NO_PAGING);
	return try_plan(e, in, PLAN_FORCED, true);
}

void sal_page_out(struct sal_engine *e, struct sal_session *s)
{
	TAILQ_REMOVE(&e->evictees, s, plan_link);
	sal_leave_lane(e, s);
	s->evicting = false;
	s->paged_bytes = live_bytes(s);
	if (s->paged_bytes == 0) {
		s->place = SAL_OUTSIDE;
		sal_hold_bytes(e, s, 0);
		sal_refile(e, s);
		return;
	}
	s->place = SAL_PAGING_OUT;
	e->copying_count++;
	sal_refile(e, s);
	sal_emit(e, SAL_PAGE_OUT, s, NULL, s->paged_bytes);
}

/* Will the claimant fit when the running lanes, except stuck ones, reach a boundary? */
bool sal_claim_has_hope(const struct sal_engine *e)
{
	struct plan p;
	uint64_t rest;

	if (!sal_makes_progress(e))
		return false;
	plan_init(e, &p, e->claimant, PLAN_FORCED);
	for (rest = e->memory.open_mask; rest; rest &= rest - 1)
		plan_fit_lane(&p, (uint32_t)__builtin_ctzll(rest));
	return plan_suffices(e, &p);
}

void sal_spare_evictees(struct sal_engine *e)
{
	struct sal_session *v;

	e->memory_changed = true;
	while ((v = TAILQ_FIRST(&e->evictees))) {
		TAILQ_REMOVE(&e->evictees, v, plan_link);
		v->evicting = false;
		sal_refile(e, v);
	}
}

void sal_drop_claim(struct sal_engine *e)
{
	e->claimant = NULL;
	sal_spare_evictees(e);
}
