/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace - learns how long programs take alone, and what part of the device they fill.
 *
 * The model: a program that runs alone uses a part u of the device. Programs that run side by side
 * go at full speed while their parts add up to at most 1. Beyond that the device is full: it goes
 * round in equal measure, or those of tier 1 share what those of tier 0 leave. Either way the sum
 * of u times speed is 1, where speed 1 is that of a run alone.
 *
 * A run that had the device to itself gives the time alone, and its u if the device tells how busy
 * it was. Runs beside others give the speed of each session. If one of them is slower than alone
 * the device was full, so the sum tells by what factor the u were wrong. So u also covers what no
 * device tells: memory bandwidth, caches, threads that only wait. Where such a u says more than the
 * device itself, it is tried again after a while.
 *
 * A session is charged with time alone. So two sessions that go at full speed side by side pay for
 * what each of them would have used alone.
 */
#include "core/engine/engine_impl.h"

#define FULL_MILLI 1000u
#define LEAST_MILLI 20u
/* A mean speed that differs from another by less says nothing. */
#define NOISE_MILLI (FULL_MILLI / 32)
/* One run that seems to be faster than this beside others was a short one. */
#define SPEED_MILLI_MAX UINT64_C(2000)
/* A program that fills less of the device pays beside another one of its kind. */
#define PAYS_MILLI 950u

/* Shorter iterations tell little: starting them takes as long as they do. */
#define LEAST_NS UINT64_C(200000)
/* A speed beside others counts for so long. */
#define SPEED_NS UINT64_C(1000000000)
/* A mean counts so many of the last runs. */
#define MEAN_RUNS 8u
/*
 * What runs beside others tell counts over so much time, and at least over MEAN_RUNS runs: other
 * processes can disturb a machine for some milliseconds, which is many runs of a short program.
 */
#define EVIDENCE_NS UINT64_C(200000000)
/* A first in rank that suffers runs alone at most for so long. */
#define SPARE_NS_MAX UINT64_C(64000000000)
/* What the lanes gain counts the last busy time up to this, and is unknown before that. */
#define GAIN_NS UINT64_C(4000000000)
#define GAIN_LEAST_NS UINT64_C(200000000)

static uint64_t mean(uint64_t old, uint64_t sample, uint32_t weight)
{
	return old > sample ? old - (old - sample) / weight : old + (sample - old) / weight;
}

static uint32_t weight_of(uint32_t runs)
{
	return runs < MEAN_RUNS ? runs : MEAN_RUNS;
}

/* How many runs of this length make the evidence. */
static uint32_t evidence_runs(uint64_t used_ns)
{
	uint64_t runs = used_ns ? EVIDENCE_NS / used_ns : MEAN_RUNS;

	if (runs > EVIDENCE_NS / LEAST_NS)
		return (uint32_t)(EVIDENCE_NS / LEAST_NS);
	return runs < MEAN_RUNS ? MEAN_RUNS : (uint32_t)runs;
}

static uint32_t part(uint64_t of, uint64_t whole)
{
	unsigned __int128 milli = whole ? (unsigned __int128)of * FULL_MILLI / whole : FULL_MILLI;

	if (milli > FULL_MILLI)
		return FULL_MILLI;
	return milli < LEAST_MILLI ? LEAST_MILLI : (uint32_t)milli;
}

/* The first run of a program also warms caches and allocators, so it does not count. */
static void learn_alone(struct sal_pace *pace, uint64_t used_ns, uint64_t busy_ns)
{
	uint32_t runs = pace->alone_runs + 1, weight = weight_of(runs);

	if (pace->runs == 0 || used_ns == 0)
		return;
	if (runs > MEAN_RUNS && used_ns > 2 * pace->alone_ns) /* one hiccup */
		used_ns = 2 * pace->alone_ns;
	pace->alone_ns = mean(pace->alone_ns, used_ns, weight);
	pace->alone_runs = runs;
	if (busy_ns)
		pace->told_milli = (uint32_t)mean(pace->told_milli, part(busy_ns, used_ns), weight);
	if (pace->beside_runs == 0 && pace->told_milli)
		pace->util_milli = pace->told_milli;
}

/* The programs that run now, and the one that has just ended. */
struct company {
	struct sal_pace *paces[SAL_LANES_MAX + 1];
	uint32_t count;
	uint64_t used; /* sum of u times speed, in millionths */
	bool is_full; /* one of them is slower than alone */
};

/* Beside others nobody is faster than alone; a faster run met a faster machine. */
static uint32_t capped(uint32_t speed_milli)
{
	return speed_milli < FULL_MILLI ? speed_milli : FULL_MILLI;
}

/* A speed with another number of lanes than now tells nothing. */
static bool is_speed_known(const struct sal_engine *e, const struct sal_session *s)
{
	return s->speed_ns > 0 && e->now_ns - s->speed_ns <= SPEED_NS &&
	       s->speed_ns >= e->trial.changed_ns;
}

/* False if not enough is known about this member. */
static bool add_member(const struct sal_engine *e, struct company *c, const struct sal_session *s,
		       struct sal_pace *pace)
{
	if (!pace || !is_speed_known(e, s))
		return false;
	c->paces[c->count++] = pace;
	c->used += (uint64_t)sal_pace_util(pace) * capped(s->speed_milli);
	c->is_full |= s->speed_milli < FULL_MILLI - NOISE_MILLI;
	return true;
}

static bool find_company(const struct sal_engine *e, const struct sal_session *s,
			 struct sal_pace *pace, struct company *out)
{
	uint64_t rest;

	*out = (struct company){ 0 };
	if (!add_member(e, out, s, pace))
		return false;
	for (rest = e->memory.open_mask; rest; rest &= rest - 1) {
		const struct sal_lane *lane = &e->lanes[__builtin_ctzll(rest)];

		if (lane->running && lane->running != s && !sal_is_brief(e, lane->running) &&
		    !add_member(e, out, lane->running, lane->running->running->pace))
			return false;
	}
	return out->count > 1;
}

/*
 * Move u by a part of the way to what would explain the measured speeds. The device's word counts
 * as half of the evidence. Without it the first runs tell most.
 */
static void correct(struct sal_pace *pace, const struct company *c, uint64_t now_ns,
		    uint32_t enough_runs)
{
	uint32_t before = pace->told_milli ? enough_runs / 2 : 2, weight = enough_runs;
	uint64_t util = sal_pace_util(pace), told = util * FULL_MILLI * FULL_MILLI / c->used;

	if (told > FULL_MILLI)
		told = FULL_MILLI;
	if (!c->is_full && told > util) /* the device was not full */
		told = util;
	if (pace->beside_runs < enough_runs - before)
		weight = before + pace->beside_runs;
	util = mean(util, told, weight);
	pace->util_milli = util < LEAST_MILLI ? LEAST_MILLI : (uint32_t)util;
	pace->beside_runs += pace->beside_runs < UINT32_MAX;
	pace->beside_ns = now_ns;
	if (pace->beside_runs >= enough_runs && pace->util_milli < PAYS_MILLI)
		pace->retries = 0;
}

/*
 * The first in rank lost more than the policy allows, so it runs alone until the loss is small
 * enough over the whole time.
 */
static void spare(struct sal_engine *e, struct sal_session *s)
{
	uint32_t percent = e->tuning.slow_percent;
	uint64_t needed_ns = 0; /* in so much time alone the loss is small enough */
	uint64_t spare_ns;

	if (s->beside_ns > s->beside_alone_ns)
		needed_ns = percent ? (s->beside_ns - s->beside_alone_ns) * 100 / percent
				    : SPARE_NS_MAX;
	if (needed_ns > s->beside_alone_ns) {
		spare_ns = needed_ns - s->beside_alone_ns;
		s->spared_until_ns =
			e->now_ns + (spare_ns < SPARE_NS_MAX ? spare_ns : SPARE_NS_MAX);
		s->beside_ns = s->beside_alone_ns = 0;
		s->speed_ns = 0;
	} else if (s->beside_ns > GAIN_NS) {
		s->beside_ns /= 2;
		s->beside_alone_ns /= 2;
	}
}

/* Count a run of s beside others. */
static void note_loss(struct sal_engine *e, struct sal_session *s, uint64_t used_ns,
		      uint64_t alone_ns, bool is_known)
{
	if (!e->policy->guards_first || e->now_ns < s->spared_until_ns)
		return;
	if (s != sal_front(e) || sal_runs_beside_equal(e, s)) {
		s->beside_ns = s->beside_alone_ns = 0;
		return;
	}
	s->beside_ns += used_ns;
	s->beside_alone_ns += alone_ns;
	if (is_known)
		spare(e, s);
}

/*
 * The speed of s beside others. True if enough runs tell it. A run may seem to be faster than one
 * alone: without those the mean would be too small, because the speed of a machine varies.
 */
static bool learn_speed(struct sal_engine *e, struct sal_session *s, const struct sal_pace *pace,
			uint64_t used_ns, uint32_t enough_runs)
{
	uint64_t speed_milli = used_ns ? pace->alone_ns * FULL_MILLI / used_ns : FULL_MILLI;

	if (speed_milli > SPEED_MILLI_MAX)
		speed_milli = SPEED_MILLI_MAX;
	if (speed_milli < LEAST_MILLI)
		speed_milli = LEAST_MILLI;
	if (!is_speed_known(e, s))
		s->speed_runs = 0;
	s->speed_runs += s->speed_runs < enough_runs;
	s->speed_milli = (uint32_t)mean(s->speed_milli, speed_milli, s->speed_runs);
	s->speed_ns = e->now_ns;
	return s->speed_runs >= enough_runs / 2;
}

/*
 * Runs beside others that are faster than alone in the mean: alone they were measured too slow. A
 * single fast run proves nothing, and a time alone that follows the fastest runs is too short. Not
 * below this run: another session with the program may have corrected the time before.
 */
static void correct_alone(struct sal_session *s, struct sal_pace *pace, uint64_t used_ns)
{
	uint64_t alone_ns = pace->alone_ns * FULL_MILLI / s->speed_milli;

	if (s->speed_milli <= FULL_MILLI + 2 * NOISE_MILLI || used_ns >= pace->alone_ns)
		return;
	pace->alone_ns = alone_ns > used_ns ? alone_ns : used_ns;
	s->speed_milli = FULL_MILLI;
}

static void learn_beside(struct sal_engine *e, struct sal_session *s, struct sal_pace *pace,
			 uint64_t used_ns)
{
	uint32_t i, enough_runs = evidence_runs(used_ns);
	struct company company;
	bool is_known;

	if (pace->alone_runs == 0 || pace->alone_ns < LEAST_NS ||
	    s->lane->start_ns < e->trial.changed_ns)
		return;
	is_known = learn_speed(e, s, pace, used_ns, enough_runs);
	if (is_known)
		correct_alone(s, pace, used_ns);
	if (find_company(e, s, pace, &company))
		for (i = 0; i < company.count; i++)
			correct(company.paces[i], &company, e->now_ns, enough_runs);
	note_loss(e, s, used_ns, pace->alone_ns, is_known);
}

/* Expected time alone. If nothing is known, half of the time that it took beside others. */
static uint64_t expect_alone(const struct sal_iteration *it, uint64_t used_ns)
{
	if (it->pace && it->pace->alone_runs > 0)
		return it->pace->alone_ns;
	return it->expected_ns ? it->expected_ns : used_ns / 2;
}

/* Time that the iteration would have taken alone: only what it took beside others is corrected. */
static uint64_t time_alone(const struct sal_iteration *it, uint64_t used_ns, uint64_t crowd_ns,
			   uint64_t span_ns)
{
	uint64_t alone_ns = expect_alone(it, used_ns), beside_ns;

	if (span_ns == 0 || crowd_ns == 0 || alone_ns >= used_ns)
		return used_ns;
	beside_ns = (uint64_t)((unsigned __int128)used_ns * crowd_ns / span_ns);
	return used_ns - beside_ns + (uint64_t)((unsigned __int128)alone_ns * beside_ns / used_ns);
}

void sal_pace_start(struct sal_engine *e, struct sal_session *s)
{
	s->crowd_from_ns = e->crowd_ns;
}

uint64_t sal_pace_end(struct sal_engine *e, struct sal_session *s, struct sal_iteration *it,
		      uint64_t used_ns)
{
	uint64_t span_ns = e->now_ns - s->lane->start_ns;
	uint64_t crowd_ns = e->crowd_ns - s->crowd_from_ns;
	struct sal_pace *pace = it->pace;
	uint64_t alone_ns = time_alone(it, used_ns, crowd_ns, span_ns);

	s->solo = false;
	if (!pace)
		return alone_ns;
	if (crowd_ns <= span_ns / 20)
		learn_alone(pace, used_ns, it->busy_ns);
	else if (crowd_ns >= span_ns - span_ns / 10 && !sal_is_short(e, it))
		learn_beside(e, s, pace, used_ns);
	pace->runs += pace->runs < UINT32_MAX;
	s->util_milli = pace->util_milli;
	return alone_ns;
}

void sal_gain_pass_time(struct sal_engine *e, uint64_t passed_ns)
{
	struct sal_gain *gain = &e->gain;

	if (e->running_count == 0)
		return;
	gain->busy_ns += passed_ns;
	gain->lanes_ns += passed_ns * e->running_count;
	if (gain->busy_ns < GAIN_NS)
		return;
	gain->busy_ns /= 2;
	gain->lanes_ns /= 2;
	gain->alone_ns /= 2;
}

void sal_engine_gain_view(const struct sal_engine *e, struct sal_gain_view *out)
{
	const struct sal_gain *gain = &e->gain;

	*out = (struct sal_gain_view){ 0 };
	if (gain->busy_ns < GAIN_LEAST_NS)
		return;
	out->lanes_milli = (uint32_t)(gain->lanes_ns * FULL_MILLI / gain->busy_ns);
	out->rate_milli = (uint32_t)(gain->alone_ns * FULL_MILLI / gain->busy_ns);
}
