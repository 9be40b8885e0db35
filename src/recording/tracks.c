/* SPDX-License-Identifier: Apache-2.0 */
#include "recording/tracks.h"

#include <stdbool.h>
#include <stdlib.h>

#include "recording/marks.h"

/* Track ids: lanes from 1, jobs in order of their sessions from here. */
#define FIRST_JOB_TRACK 1000u

enum doing {
	IDLE,
	RUNNING,
	COPYING,
	PAGED_OUT,
	PAUSED,
	WAITS_FOR_MEMORY,
	WAITS_FOR_TURN
};

static const char *const doing_names[] = {
	[PAGED_OUT] = "paged out",
	[PAUSED] = "paused",
	[WAITS_FOR_MEMORY] = "waiting for memory",
	[WAITS_FOR_TURN] = "waiting for its turn",
};

/* What a job is in the middle of. */
struct rec_track_job {
	uint64_t session;
	const char *name; /* borrowed: the caller's */
	struct sal_record grant; /* what 0: the job does not run */
	struct sal_record copy; /* what 0: no copy is under way */
	uint64_t queued; /* iterations */
	uint64_t held_bytes, ephem_bytes; /* as last admitted */
	uint64_t limit_bytes; /* what it may hold; 0: no limit */
	bool outside; /* not admitted yet */
	bool paged_out;
	bool paused;
	bool gone; /* closed or refused */
	bool wants_more; /* needs more memory than it holds */
	enum doing doing;
	uint64_t since_ns;
	uint64_t drawn_ns; /* end of its last slice */
};

int rec_tracks_init(struct rec_tracks *t, const struct rec_events *events, size_t job_count,
		    struct sal_err *err)
{
	*t = (struct rec_tracks){ .events = *events, .job_room = job_count };
	t->jobs = calloc(job_count + 1, sizeof(*t->jobs));
	return t->jobs ? SAL_OK : sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
}

void rec_tracks_fini(struct rec_tracks *t)
{
	free(t->jobs);
	t->jobs = NULL;
}

static unsigned lane_track(unsigned lane)
{
	return 1u + lane;
}

static unsigned job_track(const struct rec_tracks *t, const struct rec_track_job *job)
{
	return FIRST_JOB_TRACK + (unsigned)(job - t->jobs);
}

void rec_tracks_name(struct rec_tracks *t, const char *process, uint64_t lane_mask)
{
	char name[16];

	rec_event_process(&t->events, process);
	for (; lane_mask; lane_mask &= lane_mask - 1) {
		unsigned lane = (unsigned)__builtin_ctzll(lane_mask);

		(void)snprintf(name, sizeof(name), "lane %u", lane);
		rec_event_track(&t->events, lane_track(lane), name);
	}
}

void rec_tracks_add_job(struct rec_tracks *t, uint64_t session, const char *borrowed_name)
{
	struct rec_track_job *job = &t->jobs[t->job_count++];

	SAL_ASSERT(t->job_count <= t->job_room);
	*job = (struct rec_track_job){
		.session = session,
		.name = borrowed_name,
		.held_bytes = UINT64_MAX, /* unknown until the trace admits it */
		.ephem_bytes = UINT64_MAX,
	};
	rec_event_track(&t->events, job_track(t, job), borrowed_name);
}

static int by_session(const void *key, const void *job)
{
	uint64_t session = *(const uint64_t *)key;
	uint64_t other = ((const struct rec_track_job *)job)->session;

	return session < other ? -1 : session > other;
}

static struct rec_track_job *find(const struct rec_tracks *t, uint64_t session)
{
	return bsearch(&session, t->jobs, t->job_count, sizeof(*t->jobs), by_session);
}

/* Ends a wait. Runs and copies are drawn by their own records. */
static void end_state(const struct rec_tracks *t, struct rec_track_job *job, uint64_t now_ns)
{
	struct sal_trace_span span = { job->since_ns, now_ns };

	if (!doing_names[job->doing] || now_ns <= job->since_ns)
		return;
	rec_mark_wait(&t->events, job_track(t, job), doing_names[job->doing], &span);
	job->drawn_ns = now_ns;
}

static uint64_t within(uint64_t value, uint64_t from, uint64_t to)
{
	return value < from ? from : value > to ? to : value;
}

/* The engine learnt of the end at now_ns. The device reports that it ran for the span. */
static void end_iteration(struct rec_tracks *t, struct rec_track_job *job, uint64_t now_ns,
			  const struct sal_trace_span *span)
{
	struct sal_trace_span shown = { job->grant.now_ns, now_ns };

	if (job->grant.what == 0)
		return;
	if (span && span->start_ns)
		shown.start_ns = within(span->start_ns, shown.start_ns, now_ns);
	if (span && span->end_ns)
		shown.end_ns = within(span->end_ns, shown.start_ns, now_ns);
	rec_mark_in_lane(&t->events, lane_track(job->grant.lane), job->name, &job->grant, &shown);
	rec_mark_in_job(&t->events, job_track(t, job), &job->grant, &shown);
	job->drawn_ns = shown.end_ns;
	job->grant.what = 0;
	t->running--;
}

static void end_copy(struct rec_tracks *t, struct rec_track_job *job, uint64_t now_ns)
{
	if (job->copy.what == 0)
		return;
	rec_mark_copy(&t->events, job_track(t, job), &job->copy, now_ns);
	job->drawn_ns = now_ns;
	job->copy.what = 0;
}

static void dequeue(struct rec_tracks *t, struct rec_track_job *job, uint64_t count)
{
	job->queued -= count;
	t->waiting -= count;
}

static void begin_iteration(struct rec_tracks *t, struct rec_track_job *job,
			    const struct sal_record *r)
{
	job->grant = *r;
	t->running++;
	job->wants_more = job->wants_more && job->queued > 0;
}

static void done(struct rec_tracks *t, struct rec_track_job *job, const struct sal_record *r,
		 const struct sal_trace_span *span)
{
	if (job->grant.what == 0 && span && span->start_ns) { /* the trace starts after the grant */
		begin_iteration(t, job, r);
		job->grant.now_ns = within(span->start_ns, job->drawn_ns, r->now_ns);
		job->doing = RUNNING;
	}
	end_iteration(t, job, r->now_ns, span);
}

/* All changes of one moment are one step of the counter. */
static void put_queue(struct rec_tracks *t)
{
	if (t->waiting == t->last_waiting && t->running == t->last_running)
		return;
	rec_mark_queue(&t->events, t->now_ns, t->waiting, t->running);
	t->last_waiting = t->waiting;
	t->last_running = t->running;
}

/* Follows the work of a job: what it queues and runs. */
static void follow_work(struct rec_tracks *t, struct rec_track_job *job, const struct sal_record *r,
			const struct sal_trace_span *span)
{
	switch (r->what) {
	case SAL_SUBMIT:
		job->queued++;
		t->waiting++;
		if (r->persist_bytes > job->held_bytes || r->ephem_bytes > job->ephem_bytes)
			job->wants_more = true;
		break;
	case SAL_GRANT:
		dequeue(t, job, job->queued > 0);
		begin_iteration(t, job, r);
		break;
	case SAL_DONE:
		done(t, job, r, span);
		break;
	case SAL_REFUSE:
		if (r->iteration)
			dequeue(t, job, job->queued > 0);
		break;
	case SAL_CLOSE:
		dequeue(t, job, job->queued); /* queued iterations are dropped */
		break;
	default:
		break;
	}
}

/* Follows where the job is: outside, on the device, on the host. */
static void follow_place(struct rec_tracks *t, struct rec_track_job *job,
			 const struct sal_record *r)
{
	switch (r->what) {
	case SAL_OPEN:
		job->outside = true;
		break;
	case SAL_ADMIT:
		job->outside = false;
		job->wants_more = false;
		job->held_bytes = r->persist_bytes;
		job->ephem_bytes = r->ephem_bytes;
		break;
	case SAL_NEED:
		job->wants_more = r->value > job->held_bytes;
		break;
	case SAL_PAGE_OUT:
	case SAL_PAGE_IN:
		job->copy = *r;
		job->held_bytes = r->persist_bytes;
		job->outside = job->paged_out = false;
		break;
	case SAL_PAGED_OUT:
	case SAL_PAGE_IN_FAILED:
		job->paged_out = true;
		end_copy(t, job, r->now_ns);
		break;
	case SAL_PAGED_IN:
	case SAL_PAGE_OUT_FAILED:
		end_copy(t, job, r->now_ns);
		break;
	case SAL_PAUSE:
	case SAL_RESUME:
		job->paused = r->what == SAL_PAUSE;
		break;
	case SAL_REFUSE:
		job->gone = job->gone || job->outside;
		job->wants_more = false;
		break;
	case SAL_CLOSE:
		job->gone = true;
		break;
	default:
		break;
	}
}

static enum doing doing_of(const struct rec_track_job *job)
{
	if (job->grant.what)
		return RUNNING;
	if (job->copy.what)
		return COPYING;
	if (job->gone)
		return IDLE;
	if (job->paged_out)
		return PAGED_OUT;
	if (job->paused)
		return PAUSED;
	if (job->queued == 0 && !job->wants_more && !job->outside)
		return IDLE;
	return job->outside || job->wants_more ? WAITS_FOR_MEMORY : WAITS_FOR_TURN;
}

static void put_of_job(struct rec_tracks *t, struct rec_track_job *job, const struct sal_record *r,
		       const struct sal_trace_span *span)
{
	enum doing now;

	follow_work(t, job, r, span);
	follow_place(t, job, r);
	now = doing_of(job);
	if (now != job->doing) {
		end_state(t, job, r->now_ns);
		job->doing = now;
		job->since_ns = r->now_ns;
	}
}

static bool is_instant(uint16_t what)
{
	return what == SAL_ADMIT || what == SAL_MOVE || what == SAL_REFUSE || what == SAL_EJECT ||
	       what == SAL_SET_POLICY || what == SAL_SET_TUNING || what == SAL_PAUSE ||
	       what == SAL_RESUME || what == SAL_PAGE_OUT_FAILED || what == SAL_PAGE_IN_FAILED;
}

void rec_tracks_put(struct rec_tracks *t, const struct sal_record *r,
		    const struct sal_trace_span *span)
{
	struct rec_track_job *job = r->session ? find(t, r->session) : NULL;

	if (r->now_ns != t->now_ns)
		put_queue(t);
	t->now_ns = r->now_ns;
	if (job)
		put_of_job(t, job, r, span);
	if (is_instant(r->what))
		rec_mark_instant(&t->events, job ? job_track(t, job) : 0, r,
				 r->what == SAL_SET_POLICY ? t->policy : NULL);
}

void rec_tracks_put_limit(struct rec_tracks *t, const struct sal_record *r, uint64_t limit_bytes)
{
	struct rec_track_job *job = find(t, r->session);

	if (!job)
		return;
	if (r->what != SAL_OPEN && job->limit_bytes != limit_bytes)
		rec_mark_limit(&t->events, job_track(t, job), r->now_ns, limit_bytes);
	job->limit_bytes = limit_bytes;
}

void rec_tracks_end(struct rec_tracks *t)
{
	size_t i;

	put_queue(t);
	for (i = 0; i < t->job_count; i++) {
		end_state(t, &t->jobs[i], t->now_ns);
		end_copy(t, &t->jobs[i], t->now_ns);
		end_iteration(t, &t->jobs[i], t->now_ns, NULL);
	}
}
