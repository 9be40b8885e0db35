/* SPDX-License-Identifier: Apache-2.0 */
#include "support/driver.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/hash.h"

static void *grown(void *array, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return array;
	*room = *room ? *room * 2 : 64;
	array = realloc(array, *room * size);
	assert_non_null(array);
	return array;
}

/* Records */

static void note_grant(struct drv *d, struct drv_job *j)
{
	j->grants++;
	if (j->first_ns == DRV_NEVER)
		j->first_ns = d->now_ns;
	if (!j->loaded)
		return;
	j->run_ns = j->load.iter_ns;
	if (j->load.jitter_ns)
		j->run_ns += rng_range(&d->rng, 0, j->load.jitter_ns);
	j->run_ends_ns = d->now_ns + j->run_ns;
}

static void note_copy(struct drv *d, struct drv_job *j, uint64_t bytes, bool in)
{
	uint64_t rate = d->tuning.page_bytes_per_s;

	j->copies_in = in;
	j->copy_ends_ns =
		d->now_ns + (rate ? (uint64_t)((double)bytes / (double)rate * (double)SEC) : 0);
}

static void note_job(struct drv *d, const struct sal_record *r, struct drv_job *j)
{
	if (r->what == SAL_GRANT)
		note_grant(d, j);
	else if (r->what == SAL_PAGE_OUT || r->what == SAL_PAGE_IN)
		note_copy(d, j, r->value, r->what == SAL_PAGE_IN);
	else if (r->what == SAL_REFUSE)
		j->refusals++;
}

static void on_record(void *ctx, const struct sal_record *r, struct sal_session *s,
		      struct sal_iteration *it)
{
	struct drv *d = ctx;

	if (d->tap)
		d->tap(d->tap_ctx, r, s, it);
	d->hash = hash_record(d->hash, r);
	if (!sal_record_is_decision(r))
		return;
	d->records = grown(d->records, d->count, &d->room, sizeof(*d->records));
	d->records[d->count++] = *r;
	if (r->what == SAL_WAKE_AT)
		d->wake_ns = r->value;
	if (s)
		note_job(d, r, s->user);
}

static void check(const struct drv *d)
{
	struct sal_err err = { 0 };

	if (!sal_engine_check(d->engine, &err))
		fail_msg("at %" PRIu64 " ns: %s", d->now_ns, err.text);
}

void drv_mark(struct drv *d)
{
	d->mark = d->count;
}

static bool is_it(const struct sal_record *r, enum sal_what what, const struct drv_job *j)
{
	return r->what == what && (!j || r->session == j->id);
}

size_t drv_said(const struct drv *d, enum sal_what what, const struct drv_job *j)
{
	size_t n = 0;

	for (size_t i = d->mark; i < d->count; i++)
		n += is_it(&d->records[i], what, j);
	return n;
}

const struct sal_record *drv_last(const struct drv *d, enum sal_what what, const struct drv_job *j)
{
	for (size_t i = d->count; i > d->mark; i--)
		if (is_it(&d->records[i - 1], what, j))
			return &d->records[i - 1];
	fail_msg("the engine has no record of %s", sal_what_name((uint16_t)what));
	return NULL;
}

const char *drv_grants(const struct drv *d, char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = d->mark; i < d->count && n + 1 < size; i++)
		if (d->records[i].what == SAL_GRANT)
			text[n++] = (char)('a' + (d->records[i].session - 1) % 26);
	text[n] = '\0';
	return text;
}

uint64_t drv_free(const struct drv *d)
{
	return sal_memory_free(sal_engine_memory(d->engine));
}

uint32_t drv_lanes(const struct drv *d)
{
	return (uint32_t)__builtin_popcountll(sal_engine_memory(d->engine)->open_mask);
}

/* Start and stop */

struct sal_tuning drv_plain_tuning(void)
{
	struct sal_tuning t;

	sal_tuning_default(&t);
	t.page_bytes_per_s = GIB;
	t.anticipate_ns = 0;
	t.short_ns = 0;
	return t;
}

void drv_start(struct drv *d, uint64_t capacity, const struct sal_policy *policy,
	       const struct sal_tuning *tuning)
{
	struct sal_engine_config cfg = {
		.capacity_bytes = capacity,
		.policy = policy,
		.tuning = tuning ? *tuning : drv_plain_tuning(),
		.emit = on_record,
		.emit_ctx = d,
		.emit_events = true,
	};
	struct sal_err err = { 0 };

	memset(d, 0, sizeof(*d));
	d->tuning = cfg.tuning;
	d->hash = HASH_START;
	if (sal_engine_create(&cfg, &d->engine, &err) < 0)
		fail_msg("%s", err.text);
	check(d);
}

void drv_stop(struct drv *d)
{
	sal_engine_destroy(d->engine);
	for (size_t i = 0; i < d->job_count; i++)
		free(d->jobs[i]);
	free(d->jobs);
	free(d->records);
	memset(d, 0, sizeof(*d));
}

/* Events */

static struct drv_job *new_job(struct drv *d)
{
	struct drv_job *j = calloc(1, sizeof(*j));

	assert_non_null(j);
	j->first_ns = j->end_ns = DRV_NEVER;
	j->submit_at_ns = j->run_ends_ns = j->copy_ends_ns = DRV_NEVER;
	d->jobs = grown(d->jobs, d->job_count, &d->job_room, sizeof(struct drv_job *));
	d->jobs[d->job_count++] = j;
	return j;
}

static void open_job(struct drv *d, struct drv_job *j, const struct sal_job *job)
{
	struct sal_err err = { 0 };

	j->came = true;
	if (sal_engine_open(d->engine, d->now_ns, job, j, &j->s, &err) < 0)
		fail_msg("%s", err.text);
	j->id = j->s->id;
	check(d);
}

struct drv_job *drv_open_job(struct drv *d, const struct sal_job *job)
{
	struct drv_job *j = new_job(d);

	open_job(d, j, job);
	return j;
}

struct drv_job *drv_open(struct drv *d, uint64_t persist, uint64_t ephem)
{
	struct sal_job job = { .declared = { persist, ephem } };

	return drv_open_job(d, &job);
}

/* `facts` has the needs, the program and the expected time. */
static void submit(struct drv *d, struct drv_job *j, struct sal_iteration facts)
{
	struct sal_iteration *it = &j->its[j->submitted % DRV_DEPTH];

	*it = facts;
	it->id = ++j->submitted;
	sal_engine_submit(d->engine, d->now_ns, j->s, it);
	check(d);
}

void drv_submit(struct drv *d, struct drv_job *j, uint64_t persist, uint64_t ephem)
{
	submit(d, j, (struct sal_iteration){ .needs = { persist, ephem } });
}

void drv_submit_program(struct drv *d, struct drv_job *j, uint64_t program, struct sal_pace *pace,
			uint64_t expected_ns)
{
	submit(d, j,
	       (struct sal_iteration){ .needs = j->s->job.declared,
				       .program = program,
				       .pace = pace,
				       .expected_ns = expected_ns });
}

void drv_submit_short(struct drv *d, struct drv_job *j, uint64_t expected_ns)
{
	submit(d, j, (struct sal_iteration){ .expected_ns = expected_ns });
}

void drv_done(struct drv *d, struct drv_job *j, uint64_t used_ns)
{
	bool leaves = j->s->closing;

	assert_true(drv_runs(j));
	d->now_ns += used_ns;
	j->done++;
	j->run_ends_ns = DRV_NEVER;
	sal_engine_done(d->engine, d->now_ns, j->s, used_ns);
	if (leaves)
		j->s = NULL;
	check(d);
}

void drv_need(struct drv *d, struct drv_job *j, uint64_t persist)
{
	sal_engine_need(d->engine, d->now_ns, j->s, persist);
	check(d);
}

void drv_declare(struct drv *d, struct drv_job *j, const struct sal_job *job)
{
	sal_engine_declare(d->engine, d->now_ns, j->s, job);
	check(d);
}

void drv_pause(struct drv *d, struct drv_job *j)
{
	sal_engine_pause(d->engine, d->now_ns, j->s);
	check(d);
}

void drv_resume(struct drv *d, struct drv_job *j)
{
	sal_engine_resume(d->engine, d->now_ns, j->s);
	check(d);
}

void drv_close(struct drv *d, struct drv_job *j)
{
	struct sal_session *s = j->s;
	bool later = s->running || s->place == SAL_PAGING_IN || s->place == SAL_PAGING_OUT;

	j->end_ns = d->now_ns;
	j->submit_at_ns = DRV_NEVER;
	if (!later)
		j->s = NULL;
	sal_engine_close(d->engine, d->now_ns, s);
	check(d);
}

void drv_copied(struct drv *d, struct drv_job *j)
{
	bool leaves = j->s->closing;

	assert_true(j->copy_ends_ns != DRV_NEVER);
	j->copy_ends_ns = DRV_NEVER;
	if (j->copies_in)
		sal_engine_paged_in(d->engine, d->now_ns, j->s);
	else
		sal_engine_paged_out(d->engine, d->now_ns, j->s);
	if (leaves)
		j->s = NULL;
	check(d);
}

void drv_copy_failed(struct drv *d, struct drv_job *j)
{
	bool leaves = j->s->closing;

	assert_true(j->copy_ends_ns != DRV_NEVER);
	j->copy_ends_ns = DRV_NEVER;
	if (j->copies_in)
		sal_engine_page_in_failed(d->engine, d->now_ns, j->s);
	else
		sal_engine_page_out_failed(d->engine, d->now_ns, j->s);
	if (leaves)
		j->s = NULL;
	check(d);
}

void drv_tick(struct drv *d)
{
	if (d->wake_ns && d->wake_ns <= d->now_ns)
		d->wake_ns = 0;
	sal_engine_tick(d->engine, d->now_ns);
	check(d);
}

void drv_pass(struct drv *d, uint64_t ns)
{
	uint64_t until = d->now_ns + ns;
	uint32_t in_vain = 0;

	while (d->wake_ns && d->wake_ns <= until) {
		if (d->wake_ns > d->now_ns) {
			d->now_ns = d->wake_ns;
			in_vain = 0;
		}
		drv_tick(d);
		if (++in_vain > 1000)
			fail_msg("at %" PRIu64 " ns: woken again and again", d->now_ns);
	}
	d->now_ns = until;
}

void drv_set_policy(struct drv *d, const struct sal_policy *policy)
{
	struct sal_err err = { 0 };

	if (sal_engine_set_policy(d->engine, d->now_ns, policy, &err) < 0)
		fail_msg("%s", err.text);
	check(d);
}

void drv_set_tuning(struct drv *d, const struct sal_tuning *tuning)
{
	d->tuning = *tuning;
	sal_engine_set_tuning(d->engine, d->now_ns, tuning);
	check(d);
}

/* Loads */

struct drv_job *drv_add(struct drv *d, const struct drv_load *load)
{
	struct drv_job *j = new_job(d);

	j->loaded = true;
	j->load = *load;
	if (!j->load.depth)
		j->load.depth = 2;
	if (!load->needs.persist_bytes && !load->needs.ephem_bytes)
		j->load.needs = load->job.declared;
	return j;
}

static bool wants_to_submit(const struct drv_job *j)
{
	return (!j->load.count || j->submitted < j->load.count) &&
	       j->submitted - j->done - j->refusals < j->load.depth;
}

static void submit_ahead(struct drv *d, struct drv_job *j)
{
	j->submit_at_ns = DRV_NEVER;
	while (j->s && wants_to_submit(j))
		submit(d, j,
		       (struct sal_iteration){ .needs = j->load.needs,
					       .expected_ns = j->load.iter_ns });
}

static void end_iteration(struct drv *d, struct drv_job *j)
{
	d->now_ns -= j->run_ns; /* drv_done advances the clock again */
	drv_done(d, j, j->run_ns);
	if (!j->s)
		return;
	if (j->load.count && j->done + j->refusals >= j->load.count)
		drv_close(d, j);
	else if (j->load.gap_ns)
		j->submit_at_ns = d->now_ns + j->load.gap_ns;
	else
		submit_ahead(d, j);
}

enum step {
	STEP_NONE,
	STEP_DONE,
	STEP_COPIED,
	STEP_OPEN,
	STEP_SUBMIT,
	STEP_TICK
};

struct next {
	uint64_t at_ns;
	enum step step;
	struct drv_job *job;
};

static void sooner(struct next *next, uint64_t at_ns, enum step step, struct drv_job *j)
{
	if (at_ns < next->at_ns ||
	    (at_ns == next->at_ns && at_ns != DRV_NEVER && step < next->step))
		*next = (struct next){ at_ns, step, j };
}

static struct next find_next(const struct drv *d)
{
	struct next next = { .at_ns = DRV_NEVER };

	for (size_t i = 0; i < d->job_count; i++) {
		struct drv_job *j = d->jobs[i];

		if (j->loaded && !j->came)
			sooner(&next, j->load.start_ns, STEP_OPEN, j);
		sooner(&next, j->run_ends_ns, STEP_DONE, j);
		sooner(&next, j->copy_ends_ns, STEP_COPIED, j);
		sooner(&next, j->submit_at_ns, STEP_SUBMIT, j);
	}
	if (d->wake_ns)
		sooner(&next, d->wake_ns, STEP_TICK, NULL);
	return next;
}

bool drv_step(struct drv *d, uint64_t until_ns)
{
	struct next next = find_next(d);

	if (next.step == STEP_NONE || next.at_ns > until_ns)
		return false;
	if (next.at_ns > d->now_ns)
		d->now_ns = next.at_ns;
	switch (next.step) {
	case STEP_DONE:
		end_iteration(d, next.job);
		break;
	case STEP_COPIED:
		drv_copied(d, next.job);
		break;
	case STEP_OPEN:
		open_job(d, next.job, &next.job->load.job);
		submit_ahead(d, next.job);
		break;
	case STEP_SUBMIT:
		submit_ahead(d, next.job);
		break;
	default:
		drv_tick(d);
		break;
	}
	return true;
}

void drv_run_until(struct drv *d, uint64_t until_ns)
{
	while (drv_step(d, until_ns))
		continue;
	if (until_ns > d->now_ns)
		d->now_ns = until_ns;
}

static size_t unfinished(const struct drv *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->job_count; i++)
		n += d->jobs[i]->loaded && d->jobs[i]->load.count &&
		     d->jobs[i]->end_ns == DRV_NEVER;
	return n;
}

void drv_run(struct drv *d, uint64_t most)
{
	while (unfinished(d) > 0) {
		if (most-- == 0)
			fail_msg("%zu jobs have not ended", unfinished(d));
		if (!drv_step(d, DRV_NEVER))
			fail_msg("%zu jobs wait for ever", unfinished(d));
	}
}
