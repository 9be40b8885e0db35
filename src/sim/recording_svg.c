/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What really happened, told as the result of a simulation would be, so that svg.c can draw it. Here the
 * device is busy while an iteration runs in any of its lanes.
 */
#include <stdlib.h>

#include "sim/recording_impl.h"
#include "sim/svg.h"

/* A result, and what it borrows. */
struct drawing {
	const struct sim_recording *rec;
	struct sal_trace_name *names; /* owned; by session, as the jobs are */
	struct sim_job *jobs; /* owned; but not their names: those are in names */
	uint64_t *copies_ns; /* owned; of each job: start of the copy that goes on */
	struct sim_result result;
};

static int by_session(const void *session, const void *name)
{
	uint64_t x = *(const uint64_t *)session;
	uint64_t y = ((const struct sal_trace_name *)name)->session;

	return x < y ? -1 : x > y;
}

static int by_start(const void *a, const void *b)
{
	const struct sim_span *x = a, *y = b;

	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

/* A name is the job's choice; XML does not allow every character. */
static void make_printable(char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < ' ' || *name == 0x7f)
			*name = '?';
}

static int prepare(struct drawing *d, struct sal_err *err)
{
	struct sim_result *r = &d->result;
	size_t i;

	d->names = sim_recording_jobs(d->rec, &r->job_count);
	r->samples = sim_recording_samples(d->rec, &r->sample_count);
	d->jobs = calloc(r->job_count + 1, sizeof(*d->jobs));
	d->copies_ns = calloc(r->job_count + 1, sizeof(*d->copies_ns));
	r->jobs = calloc(r->job_count + 1, sizeof(*r->jobs));
	r->arrivals = calloc(r->job_count + 1, sizeof(*r->arrivals));
	r->spans = calloc(d->rec->head->count + 1, sizeof(*r->spans));
	if (!d->names || !r->samples || !d->jobs || !d->copies_ns || !r->jobs || !r->arrivals ||
	    !r->spans)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	r->policy = d->rec->head->policy;
	r->capacity_bytes = d->rec->head->capacity_bytes;
	r->devices = 1;
	for (i = 0; i < r->job_count; i++) {
		make_printable(d->names[i].name);
		d->jobs[i] = (struct sim_job){ .name = d->names[i].name, .submit_ns = SIM_NEVER };
		r->jobs[i] = (struct sim_job_result){ .job = &d->jobs[i], .start_ns = SIM_NEVER };
		r->arrivals[i] = (uint32_t)i; /* sessions are numbered as they come */
	}
	return SAL_OK;
}

static void add_span(struct drawing *d, const struct sal_record *r, size_t job,
		     enum sim_span_kind kind, struct sal_trace_span span)
{
	if (span.end_ns <= span.start_ns)
		return;
	d->result.spans[d->result.span_count++] = (struct sim_span){
		.from_ns = span.start_ns,
		.to_ns = span.end_ns,
		.job = (uint32_t)job,
		.lane = r->lane == SAL_NO_LANE ? 0 : r->lane,
		.kind = (uint16_t)kind,
	};
}

static void add_iteration(struct drawing *d, const struct sal_trace_entry *e, size_t job)
{
	struct sim_job_result *j = &d->result.jobs[job];
	struct sal_trace_span span = e->span;

	if (span.end_ns == 0) /* when it ran was not told, only how long */
		span = (struct sal_trace_span){ e->record.now_ns - e->record.value,
						e->record.now_ns };
	if (span.start_ns < j->start_ns)
		j->start_ns = span.start_ns;
	j->used_ns += e->record.value;
	j->iterations++;
	add_span(d, &e->record, job, SIM_RUN, span);
}

static bool ends_copy(const struct sal_record *r)
{
	return r->what == SAL_PAGED_OUT || r->what == SAL_PAGED_IN ||
	       r->what == SAL_PAGE_OUT_FAILED || r->what == SAL_PAGE_IN_FAILED;
}

static void add_entry(struct drawing *d, const struct sal_trace_entry *e)
{
	const struct sal_record *r = &e->record;
	const struct sal_trace_name *name =
		bsearch(&r->session, d->names, d->result.job_count, sizeof(*d->names), by_session);
	size_t job = name ? (size_t)(name - d->names) : 0;
	struct sim_job_result *j = &d->result.jobs[job];

	if (!name)
		return;
	if (d->jobs[job].submit_ns == SIM_NEVER)
		d->jobs[job].submit_ns = r->now_ns;
	j->end_ns = r->now_ns;
	if (r->what == SAL_DONE) {
		add_iteration(d, e, job);
	} else if (r->what == SAL_PAGE_OUT || r->what == SAL_PAGE_IN) {
		d->copies_ns[job] = r->now_ns;
		j->page_outs += r->what == SAL_PAGE_OUT;
		d->result.page_outs += r->what == SAL_PAGE_OUT;
	} else if (ends_copy(r) && d->copies_ns[job]) {
		bool out = r->what == SAL_PAGED_OUT || r->what == SAL_PAGE_OUT_FAILED;

		add_span(d, r, job, out ? SIM_PAGE_OUT : SIM_PAGE_IN,
			 (struct sal_trace_span){ d->copies_ns[job], r->now_ns });
	}
}

/* What can be told of each job when all entries are known, and then of all of them. */
static void sum_up(struct drawing *d)
{
	struct sim_result *r = &d->result;
	uint64_t busy_until_ns = 0;
	size_t i;

	r->first_submit_ns = SIM_NEVER;
	for (i = 0; i < r->job_count; i++) {
		struct sim_job_result *j = &r->jobs[i];

		if (d->jobs[i].submit_ns == SIM_NEVER) /* all that is known of it is its name */
			d->jobs[i].submit_ns = j->end_ns = d->rec->head->start_ns;
		if (j->start_ns == SIM_NEVER)
			j->start_ns = j->end_ns;
		if (d->jobs[i].submit_ns < r->first_submit_ns)
			r->first_submit_ns = d->jobs[i].submit_ns;
		if (j->end_ns > r->last_end_ns)
			r->last_end_ns = j->end_ns;
	}
	qsort(r->spans, r->span_count, sizeof(*r->spans), by_start);
	for (i = 0; i < r->span_count; i++) {
		const struct sim_span *s = &r->spans[i];
		uint64_t from = s->from_ns > busy_until_ns ? s->from_ns : busy_until_ns;

		if (s->kind != SIM_RUN || s->to_ns <= from)
			continue;
		r->busy_ns += (double)(s->to_ns - from);
		busy_until_ns = s->to_ns;
	}
}

int sim_recording_draw(FILE *out, const struct sim_recording *rec, struct sal_err *err)
{
	struct drawing d = { .rec = rec };
	uint64_t i;
	int rc = prepare(&d, err);

	if (rc >= 0 && d.result.job_count == 0)
		rc = sal_err_set(err, SAL_FAILED_PRECONDITION, "there is no job in the trace");
	for (i = 0; rc >= 0 && i < rec->head->count; i++)
		add_entry(&d, &rec->entries[i]);
	if (rc >= 0) {
		sum_up(&d);
		rc = sim_svg_write(out, &d.result, 1, err);
	}
	sim_result_fini(&d.result);
	free(d.names);
	free(d.jobs);
	free(d.copies_ns);
	return rc;
}
