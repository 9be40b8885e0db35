/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "sim/marks.h"
#include "sim/recording_impl.h"
#include "sim/tracks.h"

static uint64_t lanes_used(const struct sim_recording *rec)
{
	uint64_t used = 0, i;

	for (i = 0; i < rec->head->count; i++) {
		const struct sal_record *r = &rec->entries[i].record;

		if (r->what == SAL_GRANT || r->what == SAL_DONE)
			used |= UINT64_C(1) << r->lane;
	}
	return used;
}

static void put_memory(const struct sim_events *events, const struct sim_recording *rec,
		       const struct sim_sample *samples, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		struct sal_trace_memory used = { samples[i].persist_bytes,
						 samples[i].lane_sum_bytes };

		sim_mark_memory(events, samples[i].now_ns, rec->head->capacity_bytes, &used);
	}
}

static void put_entries(struct sim_tracks *tracks, const struct sim_recording *rec,
			const struct sim_progress *progress)
{
	uint64_t i;

	for (i = 0; i < rec->head->count; i++) {
		const struct sal_trace_entry *e = &rec->entries[i];

		sim_tracks_put(tracks, &e->record, e->record.what == SAL_DONE ? &e->span : NULL);
		sim_progress_tell(progress, i, rec->head->count);
	}
	sim_tracks_end(tracks);
}

int sim_recording_write(FILE *out, const struct sim_recording *rec,
			const struct sim_progress *progress, struct sal_err *err)
{
	struct sim_events events = { .out = out, .pid = 1, .origin_ns = rec->head->start_ns };
	struct sim_tracks tracks;
	size_t job_count, sample_count, i;
	struct sal_trace_name *jobs = sim_recording_jobs(rec, &job_count);
	struct sim_sample *samples = sim_recording_samples(rec, &sample_count);
	int rc;

	if (!jobs || !samples) {
		rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
		goto done;
	}
	rc = sim_tracks_init(&tracks, &events, job_count, err);
	if (rc < 0)
		goto done;
	(void)fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
	sim_tracks_name(&tracks, "salusd", lanes_used(rec));
	for (i = 0; i < job_count; i++)
		sim_tracks_add_job(&tracks, jobs[i].session, jobs[i].name);
	put_memory(&events, rec, samples, sample_count);
	put_entries(&tracks, rec, progress);
	(void)fputs("\n],\n\"salus\":", out);
	sim_recording_put(out, rec);
	(void)fputs("}\n", out);
	sim_tracks_fini(&tracks);
done:
	free(samples);
	free(jobs);
	return rc;
}
