/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safety - the engine under jobs that come, go, declare wrong sizes and change their settings.
 *
 * Each seed is one world: a device, a policy, a tuning and a few clients. The engine gets random
 * events, and every invariant is checked after each. Then the world is drained: no new work comes,
 * all grants and copies end in random order, time passes only by wake_at, and every session must
 * reach its end. Each seed runs twice and must give the same records. Some recordings are put to a
 * fresh engine, which must make the same decisions. In half of the worlds copies fail. In half of
 * them lanes get stuck, and some iterations end only when nothing else can happen.
 *
 * SAL_SEED=n runs that seed only, SAL_SEEDS=n that many; SAL_TRACE=1 prints all records.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/engine.h"
#include "core/lane.h"
#include "core/policy.h"
#include "support/hash.h"
#include "support/recorder.h"
#include "support/rng.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
#define SEEDS 300
#else
#define SEEDS 4000
#endif

#define CLIENTS 100
#define DEPTH 5
#define PROGRAMS 8
#define EVENTS_PER_SEED 1000
/* One world of this many is replayed. */
#define REPLAY_EVERY 32
#define DRAIN_STEPS 20000
#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)

enum copying {
	COPY_NONE,
	COPY_OUT,
	COPY_IN
};

struct client {
	struct sal_session *session; /* borrowed: engine; NULL: no session */
	struct sal_needs truth; /* the real needs, more or less */
	struct sal_iteration slots[DEPTH];
	bool slot_used[DEPTH];
	uint32_t queued;
	uint64_t submitted, granted; /* last ids; iterations run in order */
	struct sal_iteration *running;
	uint32_t lane;
	enum copying copying;
	uint64_t copy_bytes;
	uint32_t out_failures, in_failures; /* in a row */
	uint64_t out_failed_ns, in_failed_ns; /* times of the last failures */
	bool closing, paused;
	bool endless; /* the iteration ends when nothing else can happen */
	bool gave_up; /* was told that it needs paging to go on: it closes */
	bool asking; /* waits for the answer to need() for asked_bytes */
	uint64_t asked_bytes;
	uint64_t most_asked; /* the most bytes it ever asked for */
};

/* Counts over all worlds. */
struct totals {
	uint64_t events, drain_steps;
	uint64_t count[SAL_WHAT_END];
	uint64_t reasons[SAL_REASON_END];
};

struct world {
	uint64_t seed;
	struct rng rng;
	struct sal_pace paces[PROGRAMS];
	struct sal_engine *engine; /* owned */
	struct sal_tuning tuning;
	uint64_t capacity, unit;
	uint64_t part; /* a job needs up to four times this many bytes */
	uint64_t now_ns, wake_ns;
	struct client clients[CLIENTS];
	uint32_t crowd; /* the most clients at once */
	bool hostile; /* some ask for absurd sizes */
	uint32_t fail_percent; /* of copies, chance to fail */
	struct client *lane_user[SAL_LANES_MAX];
	uint64_t hash;
	uint32_t running, copying, endless;
	bool trace, draining, lazy_close;
	bool recorded;
	struct recorder recorder;
	struct totals *totals;
};

/* Prints the seed that failed, and how to see more. */
static void wrong(const struct world *w, const char *what, uint64_t number)
{
	fail_msg("seed %" PRIu64 ", event %" PRIu64 ", %s%s: %s (%" PRIu64 "); "
		 "SAL_SEED=%" PRIu64 " SAL_TRACE=1 shows it",
		 w->seed, w->totals->events, sal_engine_policy(w->engine)->name,
		 w->draining ? ", draining" : "", what, number, w->seed);
}

static void require(const struct world *w, bool holds, const char *what, uint64_t number)
{
	if (!holds)
		wrong(w, what, number);
}

/* Decisions of the engine */

static void on_grant(struct world *w, const struct sal_record *r, struct client *c,
		     struct sal_iteration *it)
{
	require(w, !c->running && !c->closing && !c->paused && !c->copying,
		"granted to one that cannot run", r->session);
	require(w, it->id > c->granted, "granted out of the order of submission", it->id);
	require(w, r->lane < SAL_LANES_MAX && !w->lane_user[r->lane], "granted in a busy lane",
		r->lane);
	c->granted = it->id;
	c->running = it;
	c->lane = r->lane;
	c->queued--;
	w->lane_user[r->lane] = c;
	w->running++;
	c->endless = w->tuning.stuck_ns && w->endless < 3 && rng_chance(&w->rng, 2);
	w->endless += c->endless;
}

static void on_copy(struct world *w, const struct sal_record *r, struct client *c, enum copying way)
{
	require(w, !c->running && !c->copying, "paged while it runs or is copied", r->session);
	require(w, r->value > 0, "nothing to copy", r->session);
	require(w, way == COPY_IN || w->tuning.page_bytes_per_s > 0, "paged out without paging",
		r->session);
	/*
	 * After a first failure, a page-out is not retried for 2 s and a page-in for 1 s; later
	 * longer.
	 */
	require(w,
		way == COPY_IN || !c->out_failures ||
			w->now_ns >= c->out_failed_ns + (c->out_failures > 1 ? 4 : 2) * S,
		"asked again too soon to make room", r->session);
	require(w,
		way == COPY_OUT || !c->in_failures ||
			w->now_ns >= c->in_failed_ns + (c->in_failures > 1 ? 2 : 1) * S,
		"let in again too soon", r->session);
	c->copying = way;
	c->copy_bytes = r->value;
	w->copying++;
}

static void on_admit(struct world *w, const struct sal_record *r, const struct sal_session *s)
{
	struct client *c = s->user;

	require(w, !c->closing && !s->refused, "admitted one that left or was refused", r->session);
	if (c->asking && r->persist_bytes >= c->asked_bytes)
		c->asking = false;
}

/* The deadline of the session cannot be met. */
static void on_late(struct world *w, const struct sal_record *r, const struct sal_session *s,
		    const struct sal_iteration *it)
{
	bool of_load = r->reason == SAL_REFUSE_LOAD;

	require(w, it && s->job.deadline_ns, "refused without a deadline", r->session);
	SAL_ASSERT(it);
	require(w, r->value > (of_load ? 1000000 : s->job.deadline_ns), "refused what can be met",
		r->value);
	require(w, of_load == (it->expected_ns <= s->job.deadline_ns), "refused for a wrong reason",
		r->session);
}

static void on_refuse(struct world *w, const struct sal_record *r, const struct sal_session *s,
		      struct sal_iteration *it)
{
	uint64_t limit = s->job.limit_bytes;
	uint64_t most = limit && limit < w->capacity ? limit : w->capacity;
	bool fits = r->persist_bytes <= most && r->ephem_bytes <= most - r->persist_bytes;
	struct client *c = s->user;

	bool is_late = r->reason == SAL_REFUSE_DEADLINE || r->reason == SAL_REFUSE_LOAD;

	w->totals->reasons[r->reason]++;
	require(w, is_late || r->value == most, "refused without saying what the most is",
		r->value);
	if (is_late) {
		on_late(w, r, s, it);
	} else if (r->reason == SAL_REFUSE_PAGE_IN) {
		require(w, c->in_failures >= 4, "refused before several tries", r->session);
	} else if (r->reason == SAL_REFUSE_NO_PAGING || r->reason == SAL_REFUSE_PAGE_OUT) {
		require(w, (w->tuning.page_bytes_per_s == 0) == (r->reason == SAL_REFUSE_NO_PAGING),
			"refused though it may page", r->session);
		require(w, !w->running && !w->copying, "refused before the last resort",
			r->session);
		c->asking = false;
		c->gave_up = true;
	} else {
		require(w, !fits || s->refused, "refused what fits alone", r->session);
		require(w, r->persist_bytes <= c->most_asked, "refused what was never asked",
			r->persist_bytes);
	}
	if (it) {
		c->slot_used[it - c->slots] = false;
		c->queued--;
	} else {
		c->asking = false;
	}
}

static void on_record(void *ctx, const struct sal_record *r, struct sal_session *s,
		      struct sal_iteration *it)
{
	struct world *w = ctx;

	w->hash = hash_record(w->hash, r);
	w->totals->count[r->what]++;
	if (w->recorded)
		recorder_put(&w->recorder, w->engine, r, s, it);
	if (w->trace) {
		char text[256];

		(void)sal_record_format(r, text, sizeof(text));
		(void)fprintf(stderr, "%s\n", text);
	}
	if (r->what == SAL_WAKE_AT)
		w->wake_ns = r->value;
	else if (r->what == SAL_EJECT)
		wrong(w, "a policy of ours was ejected", r->reason);
	if (!s)
		return;
	if (r->what == SAL_GRANT)
		on_grant(w, r, s->user, it);
	else if (r->what == SAL_PAGE_OUT)
		on_copy(w, r, s->user, COPY_OUT);
	else if (r->what == SAL_PAGE_IN)
		on_copy(w, r, s->user, COPY_IN);
	else if (r->what == SAL_ADMIT)
		on_admit(w, r, s);
	else if (r->what == SAL_REFUSE)
		on_refuse(w, r, s, it);
}

/* Checks after every event */

static bool is_refused(const struct client *c)
{
	return c->gave_up || c->session->refused;
}

static bool has_work(const struct client *c)
{
	return c->session && !c->closing && !is_refused(c) &&
	       (c->queued > 0 || c->running || c->asking);
}

/* Nothing is under way and the engine asked for no wake-up, but some session has work. */
static bool is_stalled(const struct world *w)
{
	if (w->running || w->copying || w->wake_ns)
		return false;
	for (uint32_t i = 0; i < w->crowd; i++)
		if (has_work(&w->clients[i]) && !w->clients[i].paused)
			return true;
	return false;
}

static void check_clients(const struct world *w)
{
	for (uint32_t i = 0; i < w->crowd; i++) {
		const struct client *c = &w->clients[i];

		if (!c->session)
			continue;
		require(w, c->session->running == c->running, "what runs is not what was granted",
			i);
		require(w,
			!c->asking || c->session->need_open || c->session->place == SAL_PAGING_IN,
			"a need was forgotten", c->session->id);
	}
}

static void check(struct world *w)
{
	struct sal_err err = { 0 };

	w->totals->events++;
	if (!sal_engine_check(w->engine, &err))
		wrong(w, err.text, 0);
	check_clients(w);
	/*
	 * Under fifo an idle owner may block all others. Without paging, only a close may free
	 * memory.
	 */
	if (!sal_engine_policy(w->engine)->owns_lane && w->tuning.page_bytes_per_s > 0)
		require(w, !is_stalled(w), "everything stands still", w->now_ns);
}

/* Random worlds */

static struct sal_tuning random_tuning(struct world *w)
{
	static const uint64_t rates[] = { 1000, 100000, UINT64_C(12000000000) };
	struct sal_tuning t;

	sal_tuning_default(&t);
	t.lanes = rng_chance(&w->rng, 40) ? 0 : (uint32_t)rng_range(&w->rng, 1, 70);
	if (rng_chance(&w->rng, 40))
		t.lanes = SAL_LANES_AUTO;
	t.tiers = rng_chance(&w->rng, 50) ? 1 + rng_chance(&w->rng, 50) : 0;
	t.move_ns = rng_skewed(&w->rng, S);
	t.slow_percent = (uint32_t)rng_below(&w->rng, 50);
	t.page_bytes_per_s = w->unit * rates[rng_below(&w->rng, 3)] / 1000;
	if (rng_chance(&w->rng, 20))
		t.page_bytes_per_s = 0;
	t.page_margin = (uint32_t)rng_below(&w->rng, 12);
	t.anticipate_ns = rng_skewed(&w->rng, 20 * MS);
	t.short_ns = rng_chance(&w->rng, 50) ? 50000 : rng_skewed(&w->rng, MS);
	t.idle_ns = rng_skewed(&w->rng, S);
	t.pass_bound = (uint32_t)rng_skewed(&w->rng, 64);
	t.guess_ns = rng_skewed(&w->rng, 600 * S);
	if (rng_chance(&w->rng, 50))
		t.stuck_ns = rng_skewed(&w->rng, S) + 1;
	return t;
}

static const struct sal_policy *random_policy(struct world *w)
{
	uint32_t count = 0;

	while (sal_policies[count])
		count++;
	return sal_policies[rng_below(&w->rng, count)];
}

/* Wrong by a factor of up to four. */
static uint64_t wrong_by_four(struct world *w, uint64_t bytes)
{
	uint64_t factor = rng_range(&w->rng, 1, 16);

	if (w->hostile && rng_chance(&w->rng, 3))
		return UINT64_MAX - rng_skewed(&w->rng, UINT64_MAX / 2);
	return bytes * factor / 4;
}

static void note_asked(struct client *c, uint64_t bytes)
{
	if (bytes > c->most_asked)
		c->most_asked = bytes;
}

static struct sal_job random_job(struct world *w, struct client *c)
{
	struct sal_job job = {
		.kind = rng_chance(&w->rng, 30) ? SAL_INFERENCE : SAL_TRAINING,
		.kind_undeclared = rng_chance(&w->rng, 50),
		.weight_milli = rng_chance(&w->rng, 50) ? 0 : (uint32_t)rng_range(&w->rng, 1, 8000),
		.priority = (uint32_t)rng_below(&w->rng, 4),
		.total_ns = rng_chance(&w->rng, 30) ? 0 : rng_skewed(&w->rng, 100 * S),
		.deadline_ns = rng_chance(&w->rng, 80) ? 0 : rng_skewed(&w->rng, 200 * MS),
	};

	if (rng_chance(&w->rng, 75)) {
		job.declared.persist_bytes = wrong_by_four(w, c->truth.persist_bytes);
		job.declared.ephem_bytes = wrong_by_four(w, c->truth.ephem_bytes);
	}
	if (rng_chance(&w->rng, 10))
		job.limit_bytes = rng_range(&w->rng, 1, w->capacity);
	note_asked(c, job.declared.persist_bytes);
	return job;
}

static void pass_time(struct world *w)
{
	w->now_ns += rng_chance(&w->rng, 30) ? 0 : rng_skewed(&w->rng, 50 * MS);
}

static void tick(struct world *w)
{
	if (w->wake_ns && w->wake_ns <= w->now_ns)
		w->wake_ns = 0;
	sal_engine_tick(w->engine, w->now_ns);
	check(w);
}

/* Events */

static void do_open(struct world *w, struct client *c)
{
	struct sal_session *session;
	struct sal_job job;
	struct sal_err err = { 0 };

	memset(c, 0, sizeof(*c));
	c->truth.persist_bytes = rng_skewed(&w->rng, w->capacity / w->part);
	c->truth.ephem_bytes = rng_below(&w->rng, w->capacity / w->part + 1);
	job = random_job(w, c);
	if (sal_engine_open(w->engine, w->now_ns, &job, c, &session, &err) < 0)
		wrong(w, err.text, 0);
	c->session = session;
	check(w);
}

/* The engine removes the session now, or when its work under way has ended. */
static void do_close(struct world *w, struct client *c)
{
	bool later = c->running || c->copying;
	struct sal_session *session = c->session;

	c->closing = true;
	c->asking = false;
	c->queued = 0;
	if (!later)
		c->session = NULL;
	sal_engine_close(w->engine, w->now_ns, session);
	check(w);
}

static void do_submit(struct world *w, struct client *c)
{
	struct sal_iteration *it = NULL;

	for (uint32_t i = 0; i < DEPTH && !it; i++)
		if (!c->slot_used[i])
			it = &c->slots[i];
	if (!it)
		return;
	c->slot_used[it - c->slots] = true;
	memset(it, 0, sizeof(*it));
	it->id = ++c->submitted;
	it->needs.persist_bytes = wrong_by_four(w, c->truth.persist_bytes);
	it->needs.ephem_bytes = wrong_by_four(w, c->truth.ephem_bytes);
	it->expected_ns = rng_chance(&w->rng, 30) ? 0 : rng_skewed(&w->rng, 100 * MS);
	it->program = rng_below(&w->rng, PROGRAMS + 1); /* 0: not followed */
	it->pace = it->program ? &w->paces[it->program - 1] : NULL;
	note_asked(c, it->needs.persist_bytes);
	c->queued++;
	sal_engine_submit(w->engine, w->now_ns, c->session, it);
	check(w);
}

static void do_need(struct world *w, struct client *c)
{
	uint64_t bytes = wrong_by_four(w, c->truth.persist_bytes);

	note_asked(c, bytes);
	c->asking = bytes > c->session->tracked_bytes;
	c->asked_bytes = bytes;
	sal_engine_need(w->engine, w->now_ns, c->session, bytes);
	check(w);
}

static void do_declare(struct world *w, struct client *c)
{
	struct sal_job job = random_job(w, c);

	sal_engine_declare(w->engine, w->now_ns, c->session, &job);
	check(w);
}

static void do_done(struct world *w, struct client *c)
{
	uint64_t used_ns = rng_skewed(&w->rng, 20 * MS);

	if (rng_chance(&w->rng, 50))
		w->now_ns += used_ns;
	w->endless -= c->endless;
	c->endless = false;
	c->slot_used[c->running - c->slots] = false;
	c->running->busy_ns = rng_chance(&w->rng, 50) ? used_ns / 1000 * rng_below(&w->rng, 1000)
						      : 0;
	c->running = NULL;
	w->lane_user[c->lane] = NULL;
	w->running--;
	sal_engine_done(w->engine, w->now_ns, c->session, used_ns);
	if (c->closing)
		c->session = NULL;
	check(w);
}

/* After a failed copy, the session's bytes count as before. */
static void do_copy_failed(struct world *w, struct client *c, bool out)
{
	uint64_t still = c->copy_bytes;

	if (c->session->tracked_bytes < still)
		still = c->session->tracked_bytes;
	if (out) {
		c->out_failures++;
		c->out_failed_ns = w->now_ns;
		sal_engine_page_out_failed(w->engine, w->now_ns, c->session);
	} else {
		c->in_failures++;
		c->in_failed_ns = w->now_ns;
		sal_engine_page_in_failed(w->engine, w->now_ns, c->session);
	}
	if (c->closing)
		return;
	require(w, !out || c->session->place == SAL_RESIDENT, "not resident after all", out);
	require(w, !out || c->session->held_bytes >= still, "memory in use was given away",
		c->session->held_bytes);
	require(w, out || c->session->place == SAL_OUTSIDE, "in after all", out);
	require(w, out || c->session->paged_bytes == still, "what was paged is forgotten",
		c->session->paged_bytes);
}

static void do_copied(struct world *w, struct client *c)
{
	bool out = c->copying == COPY_OUT;
	bool fails = w->fail_percent && rng_chance(&w->rng, w->fail_percent);

	c->copying = COPY_NONE;
	w->copying--;
	if (!fails && out)
		c->out_failures = 0;
	else if (!fails)
		c->in_failures = 0;
	if (fails)
		do_copy_failed(w, c, out);
	else if (out)
		sal_engine_paged_out(w->engine, w->now_ns, c->session);
	else
		sal_engine_paged_in(w->engine, w->now_ns, c->session);
	if (c->closing)
		c->session = NULL;
	check(w);
}

static void do_pause(struct world *w, struct client *c)
{
	c->paused = !c->paused;
	if (c->paused)
		sal_engine_pause(w->engine, w->now_ns, c->session);
	else
		sal_engine_resume(w->engine, w->now_ns, c->session);
	check(w);
}

static void do_policy(struct world *w)
{
	struct sal_err err = { 0 };

	if (sal_engine_set_policy(w->engine, w->now_ns, random_policy(w), &err) < 0)
		wrong(w, err.text, 0);
	check(w);
}

static void do_tuning(struct world *w)
{
	w->tuning = random_tuning(w);
	sal_engine_set_tuning(w->engine, w->now_ns, &w->tuning);
	check(w);
}

/* A random phase */

/* A random client whose iteration runs, but not endlessly, or which is being copied. NULL: none. */
static struct client *pick_under_way(struct world *w)
{
	uint32_t n = w->running - w->endless + w->copying;
	uint32_t skip = n ? (uint32_t)rng_below(&w->rng, n) : 0;

	for (uint32_t i = 0; i < w->crowd && n; i++) {
		struct client *c = &w->clients[i];

		if (((c->running && !c->endless) || c->copying) && skip-- == 0)
			return c;
	}
	return NULL;
}

static bool end_something(struct world *w)
{
	struct client *c = pick_under_way(w);

	if (!c)
		return false;
	if (c->running)
		do_done(w, c);
	else
		do_copied(w, c);
	return true;
}

static void client_event(struct world *w, struct client *c)
{
	uint64_t dice = rng_below(&w->rng, 100);

	if (!c->session)
		do_open(w, c);
	else if (c->closing)
		return;
	else if (c->gave_up || dice < (c->session->refused ? 50 : 6))
		do_close(w, c);
	else if (dice < 70)
		do_submit(w, c);
	else if (dice < 84)
		do_need(w, c);
	else if (dice < 92)
		do_declare(w, c);
	else
		do_pause(w, c);
}

static void random_event(struct world *w)
{
	uint64_t dice = rng_below(&w->rng, 1000);
	bool due;

	pass_time(w);
	due = w->wake_ns && w->wake_ns <= w->now_ns && rng_chance(&w->rng, 90);
	if (due || dice < 20)
		tick(w);
	else if (dice < 25)
		do_policy(w);
	else if (dice < 30)
		do_tuning(w);
	else if (dice < 480 || !end_something(w))
		client_event(w, &w->clients[rng_below(&w->rng, w->crowd)]);
}

/* The drain */

static void start_drain(struct world *w)
{
	w->draining = true;
	if (w->trace)
		(void)fprintf(stderr, "-- draining\n");
	/*
	 * An idle session blocks no other, unless the policy is fifo or the session cannot be paged
	 * out.
	 */
	w->lazy_close = rng_chance(&w->rng, 50) && w->tuning.page_bytes_per_s > 0 &&
			!sal_engine_policy(w->engine)->owns_lane;
	for (uint32_t i = 0; i < w->crowd; i++) {
		struct client *c = &w->clients[i];

		if (c->session && !c->closing && c->paused)
			do_pause(w, c);
		if (c->session && !c->closing && !is_refused(c) && rng_chance(&w->rng, 50))
			do_submit(w, c);
	}
}

static uint32_t live_clients(const struct world *w, bool with_work)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->crowd; i++)
		n += w->clients[i].session && (!with_work || has_work(&w->clients[i]));
	return n;
}

/* Closes one session without work. With lazy_close, only a refused one while another is busy. */
static bool close_finished(struct world *w)
{
	bool idle_stay = w->lazy_close && live_clients(w, true) > 0;

	for (uint32_t i = 0; i < w->crowd; i++) {
		struct client *c = &w->clients[i];

		if (c->session && !c->closing && !has_work(c) && (is_refused(c) || !idle_stay)) {
			do_close(w, c);
			return true;
		}
	}
	return false;
}

/*
 * Ends an endless iteration when nothing else can happen: all others got as far as memory allows.
 */
static bool end_endless(struct world *w)
{
	for (uint32_t i = 0; i < w->crowd; i++) {
		if (w->clients[i].endless) {
			do_done(w, &w->clients[i]);
			return true;
		}
	}
	return false;
}

static void drain(struct world *w)
{
	uint32_t steps = 0;

	start_drain(w);
	while (live_clients(w, false) > 0) {
		if (close_finished(w))
			continue;
		require(w, ++steps < DRAIN_STEPS, "no end in sight", live_clients(w, true));
		if (w->wake_ns && w->wake_ns <= w->now_ns) {
			tick(w);
		} else if (!end_something(w)) {
			if (!w->wake_ns && end_endless(w))
				continue;
			require(w, w->wake_ns != 0, "sessions wait for ever",
				live_clients(w, true));
			w->now_ns = w->wake_ns;
			tick(w);
		}
	}
	w->totals->drain_steps += steps;
	require(w,
		sal_engine_memory(w->engine)->persist_bytes == 0 &&
			sal_engine_memory(w->engine)->lane_sum_bytes == 0,
		"memory is left over", sal_engine_memory(w->engine)->persist_bytes);
	require(w,
		sal_engine_waiting_count(w->engine) == 0 &&
			sal_engine_resident_count(w->engine) == 0,
		"sessions are left over", 0);
}

static void create_world(struct world *w, uint64_t seed, struct totals *totals)
{
	static const uint32_t crowds[] = { 3, 10, 20, CLIENTS };
	struct sal_engine_config cfg = { 0 };
	struct sal_err err = { 0 };

	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->rng.state = seed * UINT64_C(0x2545f4914f6cdd1d);
	w->totals = totals;
	w->hash = HASH_START;
	w->trace = getenv("SAL_TRACE") != NULL;
	w->unit = rng_chance(&w->rng, 50) ? 1 : UINT64_C(1) << 20;
	w->capacity = w->unit * rng_range(&w->rng, 1, 20000);
	w->part = rng_range(&w->rng, 2, 12);
	w->crowd = crowds[rng_below(&w->rng, 4)];
	w->hostile = rng_chance(&w->rng, 10);
	if (rng_chance(&w->rng, 50))
		w->fail_percent = (uint32_t)rng_range(&w->rng, 1, 90);
	w->tuning = random_tuning(w);
	cfg.capacity_bytes = w->capacity;
	cfg.policy = random_policy(w);
	cfg.tuning = w->tuning;
	cfg.emit = on_record;
	cfg.emit_ctx = w;
	cfg.emit_events = true;
	w->recorded = seed % REPLAY_EVERY == 0;
	recorder_start(&w->recorder, &cfg);
	if (sal_engine_create(&cfg, &w->engine, &err) < 0)
		fail_msg("seed %" PRIu64 ": %s", seed, err.text);
}

/* Runs one world and returns the hash of all its records. */
static uint64_t live(uint64_t seed, struct totals *totals)
{
	struct world w;
	char name[32];

	create_world(&w, seed, totals);
	for (uint32_t i = 0; i < EVENTS_PER_SEED; i++)
		random_event(&w);
	drain(&w);
	sal_engine_destroy(w.engine);
	if (w.recorded) {
		(void)snprintf(name, sizeof(name), "seed %" PRIu64, seed);
		recorder_replay(&w.recorder, name);
	}
	recorder_stop(&w.recorder);
	return w.hash;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void require_enough(const struct totals *t, uint64_t seeds)
{
	static const uint16_t kinds[] = { SAL_ADMIT, SAL_GRANT,	 SAL_PAGE_OUT, SAL_PAGE_IN,
					  SAL_MOVE,  SAL_REFUSE, SAL_WAKE_AT };

	assert_true(t->events >= seeds * EVENTS_PER_SEED / 2);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (t->count[kinds[i]] < seeds)
			fail_msg("only %" PRIu64 " x %s", t->count[kinds[i]],
				 sal_what_name(kinds[i]));
	assert_true(t->count[SAL_GRANT] >= seeds * 100);
	assert_true(t->reasons[SAL_REFUSE_CAPACITY] >= seeds / 2);
	assert_true(t->reasons[SAL_REFUSE_LIMIT] >= seeds / 2);
	assert_true(t->count[SAL_PAGE_OUT_FAILED] >= seeds);
	assert_true(t->count[SAL_PAGE_IN_FAILED] >= seeds / 4);
	if (seeds >= 4000) { /* enough for rare coincidences */
		assert_true(t->reasons[SAL_REFUSE_NO_PAGING] > 0);
		assert_true(t->reasons[SAL_REFUSE_PAGE_OUT] > 0);
	}
	assert_true(t->reasons[SAL_REFUSE_PAGE_IN] > 0);
	assert_true(t->reasons[SAL_REFUSE_DEADLINE] + t->reasons[SAL_REFUSE_LOAD] > 0);
	assert_int_equal(t->count[SAL_EJECT], 0);
}

static void test_any_order_of_events(void **state)
{
	uint64_t one = number_from("SAL_SEED", 0);
	uint64_t seeds = one ? 1 : number_from("SAL_SEEDS", SEEDS);
	struct totals t = { 0 }, again = { 0 };

	(void)state;
	for (uint64_t i = 0; i < seeds; i++) {
		uint64_t seed = one ? one : i + 1;
		uint64_t hash = live(seed, &t);

		if (live(seed, &again) != hash)
			fail_msg("seed %" PRIu64 " decided differently the second time", seed);
	}
	printf("safety: seeds=%" PRIu64 " events=%" PRIu64 " grants=%" PRIu64 " page_outs=%" PRIu64
	       " (failed %" PRIu64 ") page_ins failed=%" PRIu64 " moves=%" PRIu64 " wakes=%" PRIu64
	       " refusals=%" PRIu64 " (of these %" PRIu64 " for want of paging, %" PRIu64
	       " and %" PRIu64 " because it failed) drain_steps=%" PRIu64 "\n",
	       seeds, t.events, t.count[SAL_GRANT], t.count[SAL_PAGE_OUT],
	       t.count[SAL_PAGE_OUT_FAILED], t.count[SAL_PAGE_IN_FAILED], t.count[SAL_MOVE],
	       t.count[SAL_WAKE_AT], t.count[SAL_REFUSE], t.reasons[SAL_REFUSE_NO_PAGING],
	       t.reasons[SAL_REFUSE_PAGE_OUT], t.reasons[SAL_REFUSE_PAGE_IN], t.drain_steps);
	if (!one && seeds >= 200)
		require_enough(&t, seeds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_order_of_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
