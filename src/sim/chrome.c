/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything the records hold is here but `wake_at`, an alarm clock's setting that decides nothing by
 * itself. Events are written as the records are read, one to a line; nothing is kept but what each
 * session is in the middle of. Job names are UTF-8: the trace reader has seen to that.
 */
#include "sim/chrome.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#define BYTES_PER_MIB 1048576.0
/* Thread ids: lanes from 1, jobs in order of submission from here. */
#define FIRST_JOB_TRACK 1000u

/* A session: what it is in the middle of. */
struct job_state {
	struct sal_record grant; /* what 0: it does not run */
	struct sal_record copy; /* what 0: it is not being copied */
	uint64_t queued; /* iterations */
};

struct writer {
	FILE *out;
	const struct sim_result *result;
	unsigned pid;
	struct job_state *jobs; /* owned; by session, from 0 */
	uint64_t waiting, running; /* iterations, of all sessions */
	uint64_t last_waiting, last_running; /* as the counter was last written */
};

static void put_json(FILE *out, const char *text)
{
	(void)fputc('"', out);
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20) {
			(void)fprintf(out, "\\u%04x", (unsigned)*text);
			continue;
		}
		if (*text == '"' || *text == '\\')
			(void)fputc('\\', out);
		(void)fputc(*text, out);
	}
	(void)fputc('"', out);
}

static const char *job_name(const struct writer *w, uint64_t session)
{
	return w->result->jobs[w->result->arrivals[session - 1]].job->name;
}

static unsigned job_track(uint64_t session)
{
	return FIRST_JOB_TRACK + (unsigned)session - 1;
}

static unsigned lane_track(uint16_t lane)
{
	return 1u + lane;
}

/* Microseconds, exact. */
static void put_time(FILE *out, const char *key, uint64_t ns)
{
	(void)fprintf(out, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

/* Every event but the name of a process starts here. */
static void open_event(const struct writer *w, const char *phase, unsigned track)
{
	(void)fprintf(w->out, ",\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", phase, w->pid, track);
}

static void name_event(const struct writer *w, const char *name)
{
	(void)fputs(",\"name\":", w->out);
	put_json(w->out, name);
}

static void put_needs(const struct writer *w, const struct sal_record *r)
{
	(void)fprintf(w->out, "\"persistent_mib\":%.6g,\"ephemeral_mib\":%.6g",
		      (double)r->persist_bytes / BYTES_PER_MIB,
		      (double)r->ephem_bytes / BYTES_PER_MIB);
}

/* --- tracks --------------------------------------------------------------------------------------- */

static void name_track(const struct writer *w, unsigned track, const char *name)
{
	open_event(w, "M", track);
	(void)fputs(",\"name\":\"thread_name\",\"args\":{\"name\":", w->out);
	put_json(w->out, name);
	(void)fputs("}}", w->out);
	open_event(w, "M", track);
	(void)fprintf(w->out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}",
		      track);
}

static void name_tracks(const struct writer *w)
{
	const struct sim_result *r = w->result;
	char lane[16];
	uint64_t used = 0;
	size_t i;

	for (i = 0; i < r->record_count; i++)
		if (r->records[i].what == SAL_GRANT)
			used |= UINT64_C(1) << r->records[i].lane;
	for (; used; used &= used - 1) {
		(void)snprintf(lane, sizeof(lane), "lane %d", __builtin_ctzll(used));
		name_track(w, lane_track((uint16_t)__builtin_ctzll(used)), lane);
	}
	for (i = 1; i <= r->job_count; i++)
		name_track(w, job_track(i), job_name(w, i));
}

/* The first event of a process, and of the file if the process is the first. */
static void name_process(const struct writer *w)
{
	(void)fprintf(
		w->out,
		"%s\n{\"ph\":\"M\",\"pid\":%u,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":",
		w->pid > 1 ? "," : "", w->pid);
	put_json(w->out, w->result->policy);
	(void)fputs("}}", w->out);
}

/* --- events --------------------------------------------------------------------------------------- */

static void open_interval(const struct writer *w, unsigned track, uint64_t from_ns, uint64_t to_ns)
{
	open_event(w, "X", track);
	put_time(w->out, "ts", from_ns);
	put_time(w->out, "dur", to_ns - from_ns);
}

/* Once in its lane, where it is called by its job, and once in its job. */
static void put_iteration(const struct writer *w, const struct sal_record *grant, uint64_t end_ns)
{
	char name[40];

	open_interval(w, lane_track(grant->lane), grant->now_ns, end_ns);
	name_event(w, job_name(w, grant->session));
	(void)fprintf(w->out, ",\"cat\":\"lane\",\"args\":{\"iteration\":%" PRIu64 ",",
		      grant->iteration);
	put_needs(w, grant);
	(void)fputs("}}", w->out);

	(void)snprintf(name, sizeof(name), "iteration %" PRIu64, grant->iteration);
	open_interval(w, job_track(grant->session), grant->now_ns, end_ns);
	name_event(w, name);
	(void)fprintf(w->out,
		      ",\"cat\":\"iteration\",\"args\":{\"iteration\":%" PRIu64 ",\"lane\":%u,",
		      grant->iteration, grant->lane);
	put_needs(w, grant);
	(void)fputs("}}", w->out);
}

static void put_copy(const struct writer *w, const struct sal_record *start, uint64_t end_ns)
{
	open_interval(w, job_track(start->session), start->now_ns, end_ns);
	name_event(w, sal_what_name(start->what));
	(void)fprintf(w->out, ",\"cat\":\"page\",\"args\":{\"mib\":%.6g}}",
		      (double)start->value / BYTES_PER_MIB);
}

static void put_instant(const struct writer *w, const struct sal_record *r)
{
	open_event(w, "i", r->session ? job_track(r->session) : 0);
	put_time(w->out, "ts", r->now_ns);
	name_event(w, sal_what_name(r->what));
	(void)fprintf(w->out, ",\"cat\":\"decision\",\"s\":\"%s\",\"args\":{",
		      r->session ? "t" : "p");
	put_needs(w, r);
	if (r->lane != SAL_NO_LANE)
		(void)fprintf(w->out, ",\"lane\":%u", r->lane);
	if (r->reason != SAL_REASON_NONE) {
		(void)fputs(",\"reason\":", w->out);
		put_json(w->out, sal_reason_name(r->reason));
	}
	(void)fputs("}}", w->out);
}

static void put_memory(const struct writer *w, const struct sim_sample *s)
{
	double capacity = (double)w->result->capacity_bytes;
	double persist = (double)s->persist_bytes, lanes = (double)s->lane_sum_bytes;

	open_event(w, "C", 0);
	put_time(w->out, "ts", s->now_ns);
	(void)fprintf(w->out,
		      ",\"name\":\"memory (MiB)\",\"args\":{\"persistent\":%.3f,\"lanes\":%.3f,"
		      "\"free\":%.3f}}",
		      persist / BYTES_PER_MIB, lanes / BYTES_PER_MIB,
		      (capacity - persist - lanes) / BYTES_PER_MIB);
}

/* All that happens at one moment is one step of the counter. */
static void put_queue(struct writer *w, uint64_t now_ns)
{
	if (w->waiting == w->last_waiting && w->running == w->last_running)
		return;
	open_event(w, "C", 0);
	put_time(w->out, "ts", now_ns);
	(void)fprintf(w->out,
		      ",\"name\":\"iterations\",\"args\":{\"waiting\":%" PRIu64
		      ",\"running\":%" PRIu64 "}}",
		      w->waiting, w->running);
	w->last_waiting = w->waiting;
	w->last_running = w->running;
}

/* --- records -------------------------------------------------------------------------------------- */

static void end_iteration(struct writer *w, struct job_state *job, uint64_t now_ns)
{
	if (job->grant.what == 0)
		return;
	put_iteration(w, &job->grant, now_ns);
	job->grant.what = 0;
	w->running--;
}

static void end_copy(struct writer *w, struct job_state *job, uint64_t now_ns)
{
	if (job->copy.what == 0)
		return;
	put_copy(w, &job->copy, now_ns);
	job->copy.what = 0;
}

static void dequeue(struct writer *w, struct job_state *job, uint64_t count)
{
	job->queued -= count;
	w->waiting -= count;
}

static void put_session_record(struct writer *w, const struct sal_record *r)
{
	struct job_state *job = &w->jobs[r->session - 1];

	switch (r->what) {
	case SAL_SUBMIT:
		job->queued++;
		w->waiting++;
		break;
	case SAL_GRANT:
		dequeue(w, job, job->queued > 0);
		job->grant = *r;
		w->running++;
		break;
	case SAL_DONE:
		end_iteration(w, job, r->now_ns);
		break;
	case SAL_PAGE_OUT:
	case SAL_PAGE_IN:
		job->copy = *r;
		break;
	case SAL_PAGED_OUT:
	case SAL_PAGED_IN:
		end_copy(w, job, r->now_ns);
		break;
	case SAL_CLOSE:
		dequeue(w, job, job->queued); /* they are dropped */
		break;
	case SAL_ADMIT:
	case SAL_MOVE:
	case SAL_REFUSE:
		put_instant(w, r);
		break;
	default:
		break;
	}
}

static int put_result(FILE *out, unsigned pid, const struct sim_result *r, struct sal_err *err)
{
	struct writer w = { .out = out, .result = r, .pid = pid };
	size_t i;

	w.jobs = calloc(r->job_count + 1, sizeof(*w.jobs));
	if (!w.jobs)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	name_process(&w);
	name_tracks(&w);
	for (i = 0; i < r->sample_count; i++)
		put_memory(&w, &r->samples[i]);
	for (i = 0; i < r->record_count; i++) {
		const struct sal_record *now = &r->records[i];

		if (now->session)
			put_session_record(&w, now);
		else if (now->what == SAL_EJECT)
			put_instant(&w, now);
		if (i + 1 == r->record_count || now[1].now_ns != now->now_ns)
			put_queue(&w, now->now_ns);
	}
	free(w.jobs);
	return SAL_OK;
}

int sim_chrome_write(FILE *out, const struct sim_result *results, size_t count, struct sal_err *err)
{
	int rc = SAL_OK;
	size_t i;

	(void)fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
	for (i = 0; rc >= 0 && i < count; i++)
		rc = put_result(out, (unsigned)i + 1, &results[i], err);
	(void)fputs("\n]}\n", out);
	return rc;
}
