/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admit - which sessions need memory, and who gets it.
 *
 * The engine admits waiting sessions in the policy's order. Later sessions may pass over a session
 * that does not fit now. A session that is passed over more than pass_bound times is aged: no later
 * session is admitted before it. Resident sessions may always grow, because an aged session may be
 * waiting for them to end.
 */
#include "core/engine/engine_impl.h"

static uint64_t at_most(const struct sal_engine *e, const struct sal_session *s)
{
	uint64_t capacity = e->memory.capacity_bytes;

	return s->job.limit_bytes && s->job.limit_bytes < capacity ? s->job.limit_bytes : capacity;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Bytes that the next iteration really needs, without hints. */
static struct sal_needs needs_now(const struct sal_session *s)
{
	const struct sal_iteration *head = TAILQ_FIRST(&s->queue);
	struct sal_needs needs = { .persist_bytes = s->tracked_bytes };

	if (s->running)
		needs.persist_bytes = larger(needs.persist_bytes, s->running->needs.persist_bytes);
	if (head) {
		needs.persist_bytes =
			larger(needs.persist_bytes + head->grow_bytes, head->needs.persist_bytes);
		needs.ephem_bytes = head->needs.ephem_bytes;
	}
	return needs;
}

static bool fits_in(uint64_t most, struct sal_needs needs)
{
	return needs.persist_bytes <= most && needs.ephem_bytes <= most - needs.persist_bytes;
}

/* Bytes to reserve: the declared or seen needs; if those can never fit, the real needs. */
struct sal_needs sal_wants(const struct sal_engine *e, const struct sal_session *s)
{
	struct sal_needs now = needs_now(s);
	struct sal_needs wants = {
		.persist_bytes = larger(now.persist_bytes, s->job.declared.persist_bytes),
		.ephem_bytes = larger(now.ephem_bytes,
				      larger(s->job.declared.ephem_bytes, s->seen_ephem_bytes)),
	};

	uint64_t most = at_most(e, s);

	if (s->running) /* the lane must retain the scratch of the running iteration */
		now.ephem_bytes = larger(now.ephem_bytes, s->running->needs.ephem_bytes);
	if (s->need_open) {
		wants.persist_bytes = larger(wants.persist_bytes, s->asked_bytes);
		if (TAILQ_EMPTY(&s->queue) ||
		    fits_in(most, (struct sal_needs){ s->asked_bytes, now.ephem_bytes }))
			now.persist_bytes = larger(now.persist_bytes, s->asked_bytes);
	}
	return fits_in(most, wants) ? wants : now;
}

bool sal_is_satisfied(const struct sal_session *s)
{
	struct sal_needs now = needs_now(s);

	return now.persist_bytes <= s->held_bytes && now.ephem_bytes <= s->ephem_bytes;
}

/* Must the request for bytes wait until an iteration of the session has run? They do not fit together. */
static bool need_comes_later(const struct sal_engine *e, const struct sal_session *s)
{
	struct sal_needs wants = sal_wants(e, s);

	if (s->running && !fits_in(at_most(e, s), wants))
		return true;
	return !TAILQ_EMPTY(&s->queue) && sal_is_satisfied(s) &&
	       wants.persist_bytes < s->asked_bytes;
}

bool sal_waits_for_memory(const struct sal_engine *e, const struct sal_session *s)
{
	if (s->closing || s->refused || s->paused || s->evicting)
		return false;
	if (s->place == SAL_OUTSIDE)
		return !s->rests && (!s->admitted || s->need_open || sal_session_has_work(s));
	return s->place == SAL_RESIDENT &&
	       ((s->need_open && !need_comes_later(e, s)) ||
		(!TAILQ_EMPTY(&s->queue) && !sal_is_satisfied(s)) || sal_is_stranded(s));
}

void sal_refuse(struct sal_engine *e, struct sal_session *s, struct sal_needs needs,
		struct sal_iteration *it, enum sal_reason reason)
{
	struct sal_record r = {
		.now_ns = e->now_ns,
		.session = s->id,
		.iteration = it ? it->id : 0,
		.persist_bytes = needs.persist_bytes,
		.ephem_bytes = needs.ephem_bytes,
		.value = at_most(e, s),
		.what = SAL_REFUSE,
		.lane = s->lane ? (uint16_t)s->lane->index : SAL_NO_LANE,
		.reason = (uint16_t)reason,
	};

	if (e->emit)
		e->emit(e->emit_ctx, &r, s, it);
}

bool sal_refuse_too_large(struct sal_engine *e, struct sal_session *s, struct sal_needs needs,
			  struct sal_iteration *it)
{
	uint64_t most = at_most(e, s);

	if (needs.persist_bytes <= most && needs.ephem_bytes <= most - needs.persist_bytes)
		return false;
	sal_refuse(e, s, needs, it,
		   most < e->memory.capacity_bytes ? SAL_REFUSE_LIMIT : SAL_REFUSE_CAPACITY);
	return true;
}

/* What runs take differs from run to run. So much more than fits is no reason to refuse. */
static uint64_t tolerance(uint64_t most_bytes)
{
	return most_bytes / 20 + SAL_SCRATCH_TOLERANCE;
}

/*
 * A guess is no reason to refuse, nor is a little more than fits: then the iteration gets what
 * fits. A program whose runs take more than that stays as it is, and is refused.
 */
static void cut_scratch(const struct sal_engine *e, const struct sal_session *s)
{
	struct sal_iteration *head = TAILQ_FIRST(&s->queue);
	uint64_t most = at_most(e, s);
	struct sal_needs needs;

	if (!head || head->needs.ephem_bytes == head->stated_bytes)
		return;
	needs = needs_now(s);
	if (needs.persist_bytes > most || fits_in(most, needs))
		return;
	if (head->margin_bytes == 0 &&
	    head->needs.ephem_bytes - (most - needs.persist_bytes) > tolerance(most))
		return;
	head->needs.ephem_bytes = larger(head->stated_bytes, most - needs.persist_bytes);
	if (head->margin_bytes > head->needs.ephem_bytes - head->stated_bytes)
		head->margin_bytes = head->needs.ephem_bytes - head->stated_bytes;
}

/* Refuse iterations from the head of the queue while they cannot fit even alone. */
void sal_drop_impossible(struct sal_engine *e, struct sal_session *s)
{
	struct sal_iteration *head;

	cut_scratch(e, s);
	while ((head = TAILQ_FIRST(&s->queue)) && sal_refuse_too_large(e, s, needs_now(s), head)) {
		TAILQ_REMOVE(&s->queue, head, queue_link);
		cut_scratch(e, s);
	}
}

/* Change the bytes that a session holds. Enough bytes answer its open request. */
void sal_hold_bytes(struct sal_engine *e, struct sal_session *s, uint64_t bytes)
{
	if (bytes < s->held_bytes)
		e->memory_changed = true;
	e->memory.persist_bytes = e->memory.persist_bytes - s->held_bytes + bytes;
	s->held_bytes = bytes;
	if (s->need_open && bytes >= s->asked_bytes) {
		s->tracked_bytes = s->asked_bytes;
		s->need_open = false;
		sal_drop_impossible(e, s);
	}
}

void sal_resize_scratch(struct sal_engine *e, struct sal_session *s, uint64_t bytes)
{
	struct sal_lane *lane = s->lane;

	sal_lane_leave(lane, s);
	s->ephem_bytes = bytes;
	sal_lane_join(lane, s);
	if (bytes > e->memory.lane_bytes[lane->index])
		sal_memory_resize(&e->memory, lane->index, bytes, true);
	else
		sal_fit_lane(e, lane);
}

static void grow(struct sal_engine *e, struct sal_session *s, uint32_t index)
{
	struct sal_needs wants = sal_wants(e, s);
	bool moves = index != s->lane->index;

	if (moves) {
		sal_leave_lane(e, s);
		s->ephem_bytes = wants.ephem_bytes;
		sal_hold_bytes(e, s, wants.persist_bytes);
		sal_enter_lane(e, s, index);
	} else {
		sal_resize_scratch(e, s, wants.ephem_bytes);
		sal_hold_bytes(e, s, wants.persist_bytes);
	}
	sal_refile(e, s);
	if (moves)
		sal_emit(e, SAL_MOVE, s, NULL, 0);
	sal_emit(e, SAL_ADMIT, s, NULL, 0);
}

static void let_in(struct sal_engine *e, struct sal_session *s, uint32_t index)
{
	struct sal_needs wants = sal_wants(e, s);
	bool copies = s->paged_bytes > 0;

	if (copies && s->need_open && wants.persist_bytes >= s->asked_bytes)
		s->owed_bytes = s->asked_bytes;
	s->ephem_bytes = wants.ephem_bytes;
	sal_hold_bytes(e, s, wants.persist_bytes);
	sal_enter_lane(e, s, index);
	s->admitted = true;
	s->passed_over = 0;
	s->resident_since_ns = e->now_ns;
	s->idle_since_ns = e->now_ns;
	s->place = copies ? SAL_PAGING_IN : SAL_RESIDENT;
	e->copying_count += copies;
	sal_refile(e, s);
	sal_emit(e, copies ? SAL_PAGE_IN : SAL_ADMIT, s, NULL, copies ? s->paged_bytes : 0);
}

bool sal_try_admit(struct sal_engine *e, struct sal_session *s)
{
	int index = sal_find_home(e, &e->memory, s);

	if (index < 0)
		return false;
	if (s->lane)
		grow(e, s, (uint32_t)index);
	else
		let_in(e, s, (uint32_t)index);
	return true;
}

/* Admit the claimant. Drop its claim if no more room will become free. */
static void admit_claimant(struct sal_engine *e)
{
	struct sal_session *s = e->claimant;

	if (!s->in_waiting || sal_try_admit(e, s) ||
	    (TAILQ_EMPTY(&e->evictees) && e->copying_count == 0 && !sal_claim_has_hope(e)))
		sal_drop_claim(e);
}

static void admit_aged(struct sal_engine *e)
{
	struct sal_session *s;

	while (!e->claimant && (s = TAILQ_FIRST(&e->aged)))
		if (!sal_try_admit(e, s))
			return;
}

/* Resident sessions that want more memory, however many sessions wait outside. */
static void admit_growing(struct sal_engine *e)
{
	struct sal_session *s, *next;

	for (s = TAILQ_FIRST(&e->growing); s; s = next) {
		next = TAILQ_NEXT(s, growing_link);
		(void)sal_try_admit(e, s);
	}
}

static void pass_over(struct sal_engine *e, struct sal_session *s, uint32_t times)
{
	s->passed_over += times;
	if (s->passed_over <= e->tuning.pass_bound || s->aged || s->place != SAL_OUTSIDE)
		return;
	s->aged = true;
	TAILQ_INSERT_TAIL(&e->aged, s, aged_link);
}

static bool comes_after_aged(const struct sal_engine *e, const struct sal_session *s)
{
	const struct sal_session *aged = TAILQ_FIRST(&e->aged);

	return aged && sal_session_before(aged, s);
}

void sal_admit_waiting(struct sal_engine *e)
{
	struct sal_session *skipped[SAL_SEARCH_MAX], *s, *next;
	uint32_t admitted_before[SAL_SEARCH_MAX];
	uint32_t admitted = 0, searched = 0, i;
	bool in_turn = false;

	if (e->claimant)
		admit_claimant(e);
	if (!e->memory_changed)
		return;
	e->memory_changed = false;
	admit_growing(e);
	admit_aged(e);
	for (s = RB_MIN(sal_waiting_tree, &e->waiting); s && searched < SAL_SEARCH_MAX; s = next) {
		bool is_blocked = e->claimant || in_turn || comes_after_aged(e, s);

		next = RB_NEXT(sal_waiting_tree, &e->waiting, s);
		if (s->place != SAL_OUTSIDE)
			continue;
		if (!is_blocked && sal_try_admit(e, s)) {
			admitted++;
			continue;
		}
		in_turn = in_turn || e->policy->owns_lane;
		admitted_before[searched] = admitted;
		skipped[searched++] = s;
	}
	for (i = 0; i < searched; i++)
		if (admitted > admitted_before[i])
			pass_over(e, skipped[i], admitted - admitted_before[i]);
}
