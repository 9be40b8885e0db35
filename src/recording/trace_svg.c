/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened in salusd as a picture. The device is busy while an iteration runs in any lane.
 */
#include <stdlib.h>
#include <string.h>

#include "recording/draw/svg.h"
#include "recording/trace_impl.h"

#define TITLE_BYTES 64
#define ARROW " \u2192 "
#define MORE "\u2026"

/* What a job is in the middle of. */
struct progress {
	uint64_t copy_ns; /* start of the copy that goes on; 0: none */
	uint64_t pause_ns; /* since when it is paused; 0: it is not */
	uint64_t limit_bytes;
	bool is_closed;
};

struct drawing {
	const struct rec_trace *trace;
	struct sal_trace_name *names; /* owned; by session, as the jobs are */
	struct progress *progress; /* owned; of each job */
	const char *policy; /* borrowed: static or the trace's; the policy that rules now */
	char title[TITLE_BYTES]; /* what picture.policy points to */
	struct rec_picture picture; /* owned, but the names of its jobs: those are in names */
};

static int by_session(const void *session, const void *name)
{
	uint64_t x = *(const uint64_t *)session;
	uint64_t y = ((const struct sal_trace_name *)name)->session;

	return x < y ? -1 : x > y;
}

static int by_start(const void *a, const void *b)
{
	const struct rec_span *x = a, *y = b;

	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

/* The job chooses its name, but XML does not allow every character. */
static void make_printable(char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < ' ' || *name == 0x7f)
			*name = '?';
}

static int prepare(struct drawing *d, struct sal_err *err)
{
	struct rec_picture *pic = &d->picture;
	size_t i;

	d->names = rec_trace_jobs(d->trace, &pic->job_count);
	pic->samples = rec_trace_samples(d->trace, &pic->sample_count);
	d->progress = calloc(pic->job_count + 1, sizeof(*d->progress));
	pic->jobs = calloc(pic->job_count + 1, sizeof(*pic->jobs));
	pic->rows = calloc(pic->job_count + 1, sizeof(*pic->rows));
	pic->spans = calloc(d->trace->head->count + pic->job_count + 1, sizeof(*pic->spans));
	pic->changes = calloc(d->trace->head->count + 1, sizeof(*pic->changes));
	if (!d->names || !pic->samples || !d->progress || !pic->jobs || !pic->rows || !pic->spans ||
	    !pic->changes)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	pic->policy = d->title;
	pic->capacity_bytes = d->trace->head->capacity_bytes;
	pic->devices = 1;
	for (i = 0; i < pic->job_count; i++) {
		make_printable(d->names[i].name);
		pic->jobs[i] = (struct rec_job){
			.name = d->names[i].name,
			.submit_ns = REC_NEVER,
			.start_ns = REC_NEVER,
		};
		pic->rows[i] = (uint32_t)i; /* sessions are numbered as they come */
	}
	return SAL_OK;
}

static void add_span(struct drawing *d, const struct sal_record *r, size_t job,
		     enum rec_span_kind kind, struct sal_trace_span span)
{
	if (span.end_ns <= span.start_ns)
		return;
	d->picture.spans[d->picture.span_count++] = (struct rec_span){
		.from_ns = span.start_ns,
		.to_ns = span.end_ns,
		.job = (uint32_t)job,
		.lane = r->lane == SAL_NO_LANE ? 0 : r->lane,
		.kind = (uint16_t)kind,
	};
}

static void add_iteration(struct drawing *d, const struct sal_trace_entry *e, size_t job)
{
	struct rec_job *j = &d->picture.jobs[job];
	struct sal_trace_span span = e->span;

	if (span.end_ns == 0) /* only the length of the run is known */
		span = (struct sal_trace_span){ e->record.now_ns - e->record.value,
						e->record.now_ns };
	if (span.start_ns < j->start_ns)
		j->start_ns = span.start_ns;
	j->used_ns += e->record.value;
	j->iterations++;
	add_span(d, &e->record, job, REC_RUN, span);
}

/* The new policy joins the title, unless that is full. */
static void add_policy(struct drawing *d, uint64_t now_ns, const char *policy)
{
	size_t used = strlen(d->title), room = sizeof(d->title) - used;

	if (!policy || strcmp(policy, d->policy) == 0)
		return;
	d->policy = policy;
	d->picture.changes[d->picture.change_count++] =
		(struct rec_change){ .now_ns = now_ns, .policy = policy, .kind = REC_POLICY };
	if (room > strlen(ARROW) + strlen(policy) + strlen(ARROW MORE))
		(void)snprintf(d->title + used, room, ARROW "%s", policy);
	else if (room > strlen(ARROW MORE) && !strstr(d->title, MORE))
		(void)snprintf(d->title + used, room, ARROW MORE);
}

/* The policy at the beginning is unknown if the beginning was dropped. */
static void start_title(struct drawing *d)
{
	const struct sal_trace_head *head = d->trace->head;

	d->policy = head->policy;
	(void)snprintf(d->title, sizeof(d->title), "%s%s", head->policy,
		       head->dropped > 0 ? " at first" : "");
}

static void add_limit(struct drawing *d, const struct sal_trace_entry *e, size_t job)
{
	struct progress *at = &d->progress[job];

	if (e->record.what == SAL_DECLARE && e->job.limit_bytes != at->limit_bytes)
		d->picture.changes[d->picture.change_count++] = (struct rec_change){
			.now_ns = e->record.now_ns,
			.limit_bytes = e->job.limit_bytes,
			.job = (uint32_t)job,
			.kind = REC_LIMIT,
		};
	at->limit_bytes = e->job.limit_bytes;
}

static void end_pause(struct drawing *d, const struct sal_record *r, size_t job)
{
	struct progress *at = &d->progress[job];

	if (at->pause_ns)
		add_span(d, r, job, REC_PAUSED, (struct sal_trace_span){ at->pause_ns, r->now_ns });
	at->pause_ns = 0;
}

/* Limits and pauses of the job. */
static void add_steering(struct drawing *d, const struct sal_trace_entry *e, size_t job)
{
	const struct sal_record *r = &e->record;

	if (sal_trace_has_job(e))
		add_limit(d, e, job);
	else if (r->what == SAL_PAUSE && !d->progress[job].pause_ns)
		d->progress[job].pause_ns = r->now_ns;
	else if (r->what == SAL_RESUME || r->what == SAL_CLOSE)
		end_pause(d, r, job);
	d->progress[job].is_closed |= r->what == SAL_CLOSE;
}

static bool ends_copy(const struct sal_record *r)
{
	return r->what == SAL_PAGED_OUT || r->what == SAL_PAGED_IN ||
	       r->what == SAL_PAGE_OUT_FAILED || r->what == SAL_PAGE_IN_FAILED;
}

/* The policy that rules after the record. */
static const char *ruler_of(const struct sal_trace_entry *e)
{
	return e->record.what == SAL_EJECT ? sal_policy_name(&sal_policy_fifo)
					   : rec_entry_policy(e);
}

static void add_entry(struct drawing *d, const struct sal_trace_entry *e)
{
	const struct sal_record *r = &e->record;
	const struct sal_trace_name *name =
		bsearch(&r->session, d->names, d->picture.job_count, sizeof(*d->names), by_session);
	size_t job = name ? (size_t)(name - d->names) : 0;
	struct rec_job *j = &d->picture.jobs[job];

	if (r->what == SAL_SET_POLICY || r->what == SAL_EJECT)
		add_policy(d, r->now_ns, ruler_of(e));
	if (!name)
		return;
	if (j->submit_ns == REC_NEVER)
		j->submit_ns = r->now_ns;
	j->end_ns = r->now_ns;
	add_steering(d, e, job);
	if (r->what == SAL_DONE) {
		add_iteration(d, e, job);
	} else if (r->what == SAL_PAGE_OUT || r->what == SAL_PAGE_IN) {
		d->progress[job].copy_ns = r->now_ns;
		j->page_outs += r->what == SAL_PAGE_OUT;
		d->picture.page_outs += r->what == SAL_PAGE_OUT;
	} else if (ends_copy(r) && d->progress[job].copy_ns) {
		bool out = r->what == SAL_PAGED_OUT || r->what == SAL_PAGE_OUT_FAILED;

		add_span(d, r, job, out ? REC_PAGE_OUT : REC_PAGE_IN,
			 (struct sal_trace_span){ d->progress[job].copy_ns, r->now_ns });
	}
}

/* A job that is still paused stays so up to the last record. */
static void end_pauses(struct drawing *d)
{
	const struct sal_trace_head *head = d->trace->head;
	struct sal_record last = { .lane = SAL_NO_LANE };
	size_t i;

	if (head->count > 0)
		last.now_ns = d->trace->entries[head->count - 1].record.now_ns;
	for (i = 0; i < d->picture.job_count; i++) {
		if (!d->progress[i].pause_ns || d->progress[i].is_closed)
			continue;
		end_pause(d, &last, i);
		d->picture.jobs[i].end_ns = last.now_ns;
	}
}

/* Completes each job after all entries, then sums up all jobs. */
static void sum_up(struct drawing *d)
{
	struct rec_picture *pic = &d->picture;
	uint64_t busy_until_ns = 0;
	size_t i;

	pic->first_submit_ns = REC_NEVER;
	for (i = 0; i < pic->job_count; i++) {
		struct rec_job *j = &pic->jobs[i];

		if (j->submit_ns == REC_NEVER) /* only its name is known */
			j->submit_ns = j->end_ns = d->trace->head->start_ns;
		if (j->start_ns == REC_NEVER)
			j->start_ns = j->end_ns;
		if (j->submit_ns < pic->first_submit_ns)
			pic->first_submit_ns = j->submit_ns;
		if (j->end_ns > pic->last_end_ns)
			pic->last_end_ns = j->end_ns;
	}
	qsort(pic->spans, pic->span_count, sizeof(*pic->spans), by_start);
	for (i = 0; i < pic->span_count; i++) {
		const struct rec_span *s = &pic->spans[i];
		uint64_t from = s->from_ns > busy_until_ns ? s->from_ns : busy_until_ns;

		if (s->kind != REC_RUN || s->to_ns <= from)
			continue;
		pic->busy_ns += (double)(s->to_ns - from);
		busy_until_ns = s->to_ns;
	}
}

int rec_trace_draw(FILE *out, const struct rec_trace *trace, struct sal_err *err)
{
	struct drawing d = { .trace = trace };
	uint64_t i;
	int rc = prepare(&d, err);

	if (rc >= 0 && d.picture.job_count == 0)
		rc = sal_err_set(err, SAL_FAILED_PRECONDITION, "there is no job in the trace");
	start_title(&d);
	for (i = 0; rc >= 0 && i < trace->head->count; i++)
		add_entry(&d, &trace->entries[i]);
	if (rc >= 0) {
		end_pauses(&d);
		sum_up(&d);
		rc = rec_svg_write(out, &d.picture, 1, err);
	}
	free(d.picture.jobs);
	free(d.picture.rows);
	free(d.picture.spans);
	free(d.picture.changes);
	free(d.picture.samples);
	free(d.names);
	free(d.progress);
	return rc;
}
