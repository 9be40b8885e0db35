/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "recording/marks.h"
#include "recording/trace_impl.h"
#include "recording/tracks.h"

static uint64_t lanes_used(const struct rec_trace *trace)
{
	uint64_t used = 0, i;

	for (i = 0; i < trace->head->count; i++) {
		const struct sal_record *r = &trace->entries[i].record;

		if (r->what == SAL_GRANT || r->what == SAL_DONE)
			used |= UINT64_C(1) << r->lane;
	}
	return used;
}

static void put_memory(const struct rec_events *events, const struct rec_trace *trace,
		       const struct rec_sample *samples, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		struct sal_trace_memory used = { samples[i].persist_bytes,
						 samples[i].lane_sum_bytes };

		rec_mark_memory(events, samples[i].now_ns, trace->head->capacity_bytes, &used);
	}
}

static void put_entries(struct rec_tracks *tracks, const struct rec_trace *trace,
			const struct rec_progress *progress)
{
	uint64_t i;

	for (i = 0; i < trace->head->count; i++) {
		const struct sal_trace_entry *e = &trace->entries[i];

		if (e->record.what == SAL_SET_POLICY)
			tracks->policy = rec_entry_policy(e);
		rec_tracks_put(tracks, &e->record, e->record.what == SAL_DONE ? &e->span : NULL);
		if (sal_trace_has_job(e))
			rec_tracks_put_limit(tracks, &e->record, e->job.limit_bytes);
		rec_progress_tell(progress, i, trace->head->count);
	}
	rec_tracks_end(tracks);
}

int rec_trace_write(FILE *out, const struct rec_trace *trace, const struct rec_progress *progress,
		    struct sal_err *err)
{
	struct rec_events events = { .out = out, .pid = 1, .origin_ns = trace->head->start_ns };
	struct rec_tracks tracks;
	size_t job_count, sample_count, i;
	struct sal_trace_name *jobs = rec_trace_jobs(trace, &job_count);
	struct rec_sample *samples = rec_trace_samples(trace, &sample_count);
	int rc;

	if (!jobs || !samples) {
		rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
		goto done;
	}
	rc = rec_tracks_init(&tracks, &events, job_count, err);
	if (rc < 0)
		goto done;
	(void)fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
	rec_tracks_name(&tracks, "salusd", lanes_used(trace));
	for (i = 0; i < job_count; i++)
		rec_tracks_add_job(&tracks, jobs[i].session, jobs[i].name);
	put_memory(&events, trace, samples, sample_count);
	put_entries(&tracks, trace, progress);
	(void)fputs("\n],\n\"salus\":", out);
	rec_trace_put(out, trace);
	(void)fputs("}\n", out);
	rec_tracks_fini(&tracks);
done:
	free(samples);
	free(jobs);
	return rc;
}
