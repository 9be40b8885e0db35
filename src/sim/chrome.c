/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/chrome.h"

#include "recording/marks.h"
#include "recording/tracks.h"

static uint64_t lanes_used(const struct sim_result *r)
{
	uint64_t used = 0;
	size_t i;

	for (i = 0; i < r->record_count; i++)
		if (r->records[i].what == SAL_GRANT)
			used |= UINT64_C(1) << r->records[i].lane;
	return used;
}

static int put_result(FILE *out, unsigned pid, const struct sim_result *r, struct sal_err *err)
{
	struct rec_events events = { .out = out, .pid = pid };
	struct rec_tracks tracks;
	size_t i;
	int rc = rec_tracks_init(&tracks, &events, r->job_count, err);

	if (rc < 0)
		return rc;
	tracks.policy = r->policy;
	rec_tracks_name(&tracks, r->policy, lanes_used(r));
	for (i = 0; i < r->job_count; i++)
		rec_tracks_add_job(&tracks, i + 1, r->jobs[r->arrivals[i]].job->name);
	for (i = 0; i < r->sample_count; i++) {
		const struct rec_sample *s = &r->samples[i];

		rec_mark_memory(&events, s->now_ns, r->capacity_bytes,
				&(struct sal_trace_memory){ s->persist_bytes, s->lane_sum_bytes });
	}
	for (i = 0; i < r->record_count; i++)
		rec_tracks_put(&tracks, &r->records[i], NULL);
	rec_tracks_end(&tracks);
	rec_tracks_fini(&tracks);
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
