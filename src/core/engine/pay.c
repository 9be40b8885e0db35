/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pay - may a session run beside those that run already?
 *
 * With --lanes auto, a session starts beside others only if that pays: all together must make more
 * progress than without it, by at least GAIN_MILLI of what the device does with one lane. The model
 * is in pace.c. A policy can be stricter: it may protect the first in rank (guards_first), or make
 * a session wait that had more than its share (waits).
 *
 * A program that has run, but never alone, is not understood. It runs alone once: no lane starts
 * anything until the device is idle. This is rare, takes one iteration, and is remembered with the
 * program. Very short programs do not matter, and very long ones would cost the others too much.
 *
 * The model cannot see everything. Threads of a program that wait for each other spin, and look
 * busy; lanes at a boundary leave the device idle. Both make one lane more pay although the parts
 * of the device add up to 1 already. So the engine tries: it measures the progress of all with one
 * lane more, and with one less, and keeps what is better. A trial that changes nothing is repeated
 * ever more rarely. No trial has a program that fills the device by the device's own word, or by
 * experience where the device does not tell.
 */
#include "core/engine/engine_impl.h"

#define FULL_MILLI UINT64_C(1000)
#define GAIN_MILLI 50u
/* What a program uses of the device as long as that is unknown. */
#define UNKNOWN_MILLI 500u
/* A session is measured alone at most once in this time, if its program takes LEAST to MOST. */
#define SOLO_EVERY_NS UINT64_C(250000000)
#define SOLO_LEAST_NS UINT64_C(1000000)
#define SOLO_MOST_NS UINT64_C(500000000)
/* Where a change of the tier costs something, a session changes it at most once in this time. */
#define TIER_NS UINT64_C(500000000)
/*
 * A pair that did not pay is tried again after so long, then after twice as long, and so on, if the
 * device says that it should.
 */
#define RETRY_NS UINT64_C(1000000000)
#define RETRY_DOUBLES 6u
/* How much longer an equal of the first in rank stays one: changing the tier costs a move. */
#define STAYS_PERCENT 5u
/* A session that had no work for so long does not count as the first in rank. */
#define FRONT_IDLE_NS UINT64_C(1000000000)
/* The search for the first in rank gives up after so many sessions without work. */
#define FRONT_SEARCH_MAX 16

/* A program that fills more of the device takes part in no trial. */
#define FILLS_MILLI 950u
/* A trial, and what it is compared with, takes so much time and so many iterations at least. */
#define WINDOW_NS UINT64_C(300000000)
#define WINDOW_ENDS 64u
/* The first iterations after a change began before it. */
#define SKIPPED_ENDS 8u
#define TRIAL_LANES_MAX 4u
/* A lane that adds less is closed again. */
#define CLOSE_MILLI 20u

uint32_t sal_pace_util(const struct sal_pace *pace)
{
	return pace->util_milli ? pace->util_milli : UNKNOWN_MILLI;
}

bool sal_is_short(const struct sal_engine *e, const struct sal_iteration *it)
{
	return it->expected_ns > 0 && it->expected_ns < e->tuning.short_ns;
}

bool sal_is_brief(const struct sal_engine *e, const struct sal_session *s)
{
	return s->running && sal_is_short(e, s->running);
}

static bool is_active(const struct sal_engine *e, const struct sal_session *s)
{
	return !s->paused && !s->evicting &&
	       (sal_session_has_work(s) || e->now_ns - s->idle_since_ns < FRONT_IDLE_NS);
}

struct sal_session *sal_front(const struct sal_engine *e)
{
	struct sal_session *s = RB_MIN(sal_resident_tree, (struct sal_resident_tree *)&e->resident);
	uint32_t searched;

	for (searched = 0; s && searched < FRONT_SEARCH_MAX; searched++) {
		if (is_active(e, s))
			return s;
		s = RB_NEXT(sal_resident_tree, &e->resident, s);
	}
	return NULL;
}

static const struct sal_pace *pace_of(const struct sal_session *s)
{
	const struct sal_iteration *it = s->running ? s->running : TAILQ_FIRST(&s->queue);

	return it ? it->pace : NULL;
}

static bool fills_device(const struct sal_session *s)
{
	const struct sal_pace *pace = pace_of(s);

	return !pace || (pace->told_milli ? pace->told_milli : pace->util_milli) >= FILLS_MILLI;
}

/* The part of the device that the session's iteration fills; 0: unknown. */
static uint32_t known_util(const struct sal_session *s)
{
	const struct sal_pace *pace = pace_of(s);

	return pace && pace->util_milli ? pace->util_milli : s->util_milli;
}

/* What runs beside others said counts for a while if the device itself says that there is room. */
void sal_pace_forget(const struct sal_engine *e, struct sal_pace *pace)
{
	if (!pace || pace->told_milli == 0 || pace->told_milli >= pace->util_milli ||
	    e->now_ns - pace->beside_ns <= RETRY_NS << pace->retries)
		return;
	pace->util_milli = pace->told_milli;
	pace->beside_runs = 0;
	pace->beside_ns = e->now_ns;
	pace->retries += pace->retries < RETRY_DOUBLES;
}

static uint32_t util_of(const struct sal_session *s)
{
	uint32_t util_milli = known_util(s);

	return util_milli ? util_milli : UNKNOWN_MILLI;
}

void sal_crowd_add(struct sal_crowd *crowd, struct sal_session *s, uint32_t tier)
{
	crowd->count++;
	crowd->util_milli += util_of(s);
	if (tier > 0) {
		crowd->behind++;
		crowd->behind_milli += util_of(s);
	}
	crowd->is_known = known_util(s) && (crowd->count == 1 || crowd->is_known);
	crowd->is_filled |= fills_device(s);
	crowd->solo |= s->solo;
	if (!crowd->first || sal_session_before(s, crowd->first))
		crowd->first = s;
}

void sal_crowd_running(const struct sal_engine *e, const struct sal_session *before,
		       struct sal_crowd *out)
{
	uint64_t rest;

	*out = (struct sal_crowd){ 0 };
	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		const struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];

		if (lane->running && !lane->stuck && !sal_is_brief(e, lane->running) &&
		    (!before || sal_session_before(lane->running, before)))
			sal_crowd_add(out, lane->running, lane->running->tier);
	}
}

/* Progress of `count` sessions that fill `util_milli` of the device and have `room_milli` of it. */
static uint64_t progress(uint32_t count, uint64_t util_milli, uint64_t room_milli)
{
	return util_milli <= room_milli ? count * FULL_MILLI
					: count * FULL_MILLI * room_milli / util_milli;
}

uint32_t sal_crowd_rate(const struct sal_crowd *crowd)
{
	uint64_t ahead_milli = crowd->util_milli - crowd->behind_milli;
	uint64_t left_milli = ahead_milli < FULL_MILLI ? FULL_MILLI - ahead_milli : 0;

	return (uint32_t)(progress(crowd->count - crowd->behind, ahead_milli, FULL_MILLI) +
			  progress(crowd->behind, crowd->behind_milli, left_milli));
}

/* Does the policy let s start at once, whatever else runs? */
static bool is_urgent(const struct sal_engine *e, const struct sal_session *s)
{
	return e->policy->tier && e->policy->tier(e->state, s, false) == 0;
}

bool sal_wants_solo(const struct sal_engine *e, const struct sal_session *s)
{
	const struct sal_iteration *it = TAILQ_FIRST(&s->queue);
	const struct sal_pace *pace = it ? it->pace : NULL;

	return e->tuning.lanes == SAL_LANES_AUTO && pace && pace->alone_runs == 0 &&
	       pace->runs > 0 && it->expected_ns >= SOLO_LEAST_NS &&
	       it->expected_ns <= SOLO_MOST_NS && !is_urgent(e, s) &&
	       (s->solo_ns == 0 || e->now_ns - s->solo_ns >= SOLO_EVERY_NS);
}

/* Does the policy let s slow this one, which is the first in rank? */
static bool is_equal(const struct sal_engine *e, const struct sal_session *first,
		     const struct sal_session *s)
{
	return e->policy->is_equal && first != s && e->policy->is_equal(e->state, first, s);
}

bool sal_runs_beside_equal(const struct sal_engine *e, const struct sal_session *first)
{
	uint64_t rest;

	for (rest = e->policy->is_equal ? e->memory.open_mask : 0; rest; rest &= rest - 1) {
		const struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];

		if (lane->running && is_equal(e, first, lane->running))
			return true;
	}
	return false;
}

/* Would s slow the first in rank by more than the policy allows? */
static bool hurts_first(const struct sal_engine *e, const struct sal_crowd *crowd,
			const struct sal_session *s)
{
	uint64_t together = crowd->util_milli + util_of(s);

	if (!e->policy->guards_first || sal_session_before(s, crowd->first) ||
	    is_equal(e, crowd->first, s))
		return false;
	if (e->now_ns < crowd->first->spared_until_ns)
		return true;
	return !e->tuning.tiers &&
	       together > FULL_MILLI + e->tuning.slow_percent * FULL_MILLI / 100;
}

/*
 * Did s have more than its share? While all go at full speed, nobody is short of anything, and
 * holding s back would help nobody.
 */
static bool must_share(const struct sal_engine *e, const struct sal_crowd *crowd,
		       const struct sal_session *s)
{
	if (!e->policy->waits || !sal_session_before(crowd->first, s))
		return false;
	if (crowd->is_known && known_util(s) && crowd->util_milli + known_util(s) <= FULL_MILLI)
		return false;
	return e->policy->waits(e->state, s, crowd->first);
}

/*
 * Do those ahead fill the device, and would s take its part from them for no more progress than they
 * lose, in whatever tier? Often so, and quick to say.
 */
static bool takes_only(const struct sal_crowd *crowd, const struct sal_session *s)
{
	uint64_t ahead_milli = crowd->util_milli - crowd->behind_milli;

	return ahead_milli >= FULL_MILLI &&
	       (uint64_t)util_of(s) * (crowd->count - crowd->behind) >= ahead_milli;
}

/* By how much the progress of all rises if s joins the others. */
static int64_t gain(const struct sal_engine *e, const struct sal_crowd *crowd,
		    struct sal_session *s)
{
	struct sal_crowd larger = *crowd;

	if (takes_only(crowd, s))
		return 0;
	sal_crowd_add(&larger, s, sal_next_tier(e, s));
	return (int64_t)sal_crowd_rate(&larger) - (int64_t)sal_crowd_rate(crowd);
}

bool sal_is_extra(const struct sal_engine *e, const struct sal_crowd *crowd, struct sal_session *s)
{
	return e->tuning.lanes == SAL_LANES_AUTO && crowd->count > 0 && crowd->is_known &&
	       !crowd->is_filled && known_util(s) && !fills_device(s) &&
	       gain(e, crowd, s) < GAIN_MILLI;
}

/* Is s one of the extra lanes that trials have shown to pay, or that are on trial? */
static bool may_be_extra(const struct sal_engine *e, const struct sal_crowd *crowd,
			 struct sal_session *s)
{
	uint64_t together = crowd->util_milli + known_util(s), count = crowd->count + 1;
	uint64_t model = (FILLS_MILLI * count + together - 1) / together; /* lanes that pay */

	return e->trial.extra > 0 && sal_is_extra(e, crowd, s) && count <= model + e->trial.extra;
}

enum sal_hold sal_hold_back(const struct sal_engine *e, const struct sal_crowd *crowd,
			    struct sal_session *s)
{
	if (crowd->count == 0 || is_urgent(e, s))
		return SAL_HOLD_NONE;
	if (must_share(e, crowd, s))
		return SAL_HOLD_SHARE;
	if (e->tuning.lanes != SAL_LANES_AUTO)
		return SAL_HOLD_NONE;
	if (crowd->solo || sal_wants_solo(e, s))
		return SAL_HOLD_SOLO;
	if (hurts_first(e, crowd, s))
		return SAL_HOLD_FIRST;
	if (gain(e, crowd, s) >= GAIN_MILLI || may_be_extra(e, crowd, s))
		return SAL_HOLD_NONE;
	return SAL_HOLD_NO_GAIN;
}

/*
 * Would the first in rank suffer little if s ran beside it as an equal? Then s needs no tier of its
 * own, and all together get more done. s that is an equal already stays one a little longer.
 */
static bool is_light(const struct sal_engine *e, const struct sal_session *s)
{
	uint32_t slow_percent = e->tuning.slow_percent + (s->tier == 0 ? STAYS_PERCENT : 0);
	struct sal_session *first = sal_front(e);
	struct sal_crowd crowd;
	uint32_t together;

	if (!e->policy->guards_first)
		return false;
	if (first && is_equal(e, first, s))
		return true;
	sal_crowd_running(e, NULL, &crowd);
	if (first && first != s && !first->running)
		sal_crowd_add(&crowd, first, 0);
	together = crowd.util_milli + (s->running ? 0 : known_util(s));
	return crowd.is_known && known_util(s) &&
	       together <= FULL_MILLI + slow_percent * FULL_MILLI / 100;
}

/* If a session just changed its lane, and that cost something, its tier costs no more. */
static bool may_change_tier(const struct sal_engine *e, const struct sal_session *s)
{
	return e->tuning.tiers > 1 || s->tiered_ns == 0 || s->done_iterations == 0 ||
	       e->now_ns - s->tiered_ns >= TIER_NS ||
	       (e->tuning.move_ns > 0 && s->moved_ns == e->now_ns);
}

uint32_t sal_next_tier(const struct sal_engine *e, const struct sal_session *s)
{
	uint32_t tier = 0;

	if (e->tuning.tiers && e->policy->tier && sal_lane_limit(e) > 1)
		tier = e->policy->tier(e->state, s, s == sal_front(e)) > 0;
	if (tier > 0 && is_light(e, s))
		tier = 0;
	return may_change_tier(e, s) ? tier : s->tier;
}

static void set_extra(struct sal_engine *e, uint32_t extra)
{
	e->trial.extra = extra;
	e->trial.changed_ns = e->now_ns;
	e->trial.skips = SKIPPED_ENDS;
}

/* The trial of one lane more, or less, has ended with this progress. Returns true if it stays. */
static bool judge(struct sal_engine *e, uint32_t rate_milli)
{
	struct sal_trial *t = &e->trial;
	bool is_more = t->way == SAL_TRIAL_MORE;
	bool stays = is_more ? rate_milli >= t->rate_milli + GAIN_MILLI
			     : rate_milli + CLOSE_MILLI > t->rate_milli;

	t->way = SAL_TRIAL_NONE;
	t->turns_down = is_more != stays; /* go on in this direction, or turn */
	if (stays) {
		t->vain = 0;
		return true;
	}
	set_extra(e, is_more ? t->extra - 1 : t->extra + 1);
	t->next_ns = e->now_ns + (RETRY_NS << t->vain);
	t->vain += t->vain < RETRY_DOUBLES;
	return false;
}

/* Try one lane more, if somebody waits for it, or one less. */
static void try_another(struct sal_engine *e)
{
	struct sal_trial *t = &e->trial;

	if (t->starves && t->extra < TRIAL_LANES_MAX && !(t->turns_down && t->extra > 0)) {
		t->way = SAL_TRIAL_MORE;
		set_extra(e, t->extra + 1);
	} else if (t->extra > 0) {
		t->way = SAL_TRIAL_LESS;
		set_extra(e, t->extra - 1);
	}
}

void sal_trial_count(struct sal_engine *e, uint64_t alone_ns)
{
	struct sal_trial *t = &e->trial;
	uint32_t rate_milli;

	if (!t->matters)
		return;
	if (t->skips > 0) {
		t->skips--;
		t->passed_ns = 0;
		return;
	}
	t->alone_ns += alone_ns;
	t->ends++;
	if (t->passed_ns < WINDOW_NS || t->ends < WINDOW_ENDS)
		return;
	rate_milli = (uint32_t)(t->alone_ns * FULL_MILLI / t->passed_ns);
	t->passed_ns = t->alone_ns = t->ends = 0;
	if (t->way != SAL_TRIAL_NONE && !judge(e, rate_milli))
		return;
	t->rate_milli = rate_milli;
	if (e->now_ns >= t->next_ns)
		try_another(e);
}
