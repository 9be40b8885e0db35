/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/marks.h"
#include "sim/recording_impl.h"
#include "sim/tracks.h"

static int by_session(const void *a, const void *b)
{
	uint64_t x = ((const struct sal_trace_name *)a)->session;
	uint64_t y = ((const struct sal_trace_name *)b)->session;

	return x < y ? -1 : x > y;
}

/* Add a session to those that are known so far; those of one entry after the other are often the same. */
static void add_name(struct sal_trace_name *names, size_t *count, uint64_t session,
		     const char *name)
{
	struct sal_trace_name *n = &names[*count];

	if (session == 0 || (!name && *count > 0 && n[-1].session == session))
		return;
	n->session = session;
	sal_trace_copy_name(n->name, sizeof(n->name), name ? name : "");
	(*count)++;
}

/* Of several names of a session the longest is kept; the short ones were cut. */
static size_t merge(struct sal_trace_name *names, size_t count)
{
	size_t i, kept = 0;

	qsort(names, count, sizeof(*names), by_session);
	for (i = 0; i < count; i++) {
		if (kept == 0 || names[kept - 1].session != names[i].session)
			names[kept++] = names[i];
		else if (strlen(names[i].name) > strlen(names[kept - 1].name))
			names[kept - 1] = names[i];
	}
	for (i = 0; i < kept; i++)
		if (!names[i].name[0])
			(void)snprintf(names[i].name, sizeof(names[i].name), "session %" PRIu64,
				       names[i].session);
	return kept;
}

/* Every session there is an entry of, by session; to be freed. */
static struct sal_trace_name *collect(const struct sim_recording *rec, size_t *out_count)
{
	size_t count = 0, i;
	struct sal_trace_name *names =
		calloc(rec->head->count + rec->head->name_count + 1, sizeof(*names));

	*out_count = 0;
	if (!names)
		return NULL;
	for (i = 0; i < rec->head->count; i++) {
		const struct sal_trace_entry *e = &rec->entries[i];

		add_name(names, &count, e->record.session,
			 e->record.what == SAL_OPEN ? e->job.name : NULL);
	}
	for (i = 0; i < rec->head->name_count; i++)
		add_name(names, &count, rec->names[i].session, rec->names[i].name);
	*out_count = merge(names, count);
	return names;
}

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

/* An event tells what the memory was since the one before. */
static void put_memory(const struct sim_events *events, const struct sim_recording *rec)
{
	struct sal_trace_memory last = { UINT64_MAX, UINT64_MAX };
	uint64_t since_ns = rec->head->start_ns, i;

	if (rec->head->dropped > 0 && rec->head->count > 0)
		since_ns = rec->entries[0].record.now_ns;
	for (i = 0; i <= rec->head->count; i++) {
		const struct sal_trace_entry *e = i < rec->head->count ? &rec->entries[i] : NULL;
		const struct sal_trace_memory *now = e ? &e->memory : &rec->head->memory;

		if (e && sal_record_is_decision(&e->record))
			continue;
		if (!(e && e->record.what == SAL_SET_TUNING) &&
		    memcmp(now, &last, sizeof(last)) != 0) {
			sim_mark_memory(events, since_ns, rec->head->capacity_bytes, now);
			last = *now;
		}
		since_ns = e ? e->record.now_ns : since_ns;
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
	size_t job_count, i;
	struct sal_trace_name *jobs = collect(rec, &job_count);
	int rc;

	if (!jobs)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	rc = sim_tracks_init(&tracks, &events, job_count, err);
	if (rc < 0) {
		free(jobs);
		return rc;
	}
	(void)fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
	sim_tracks_name(&tracks, "salusd", lanes_used(rec));
	for (i = 0; i < job_count; i++)
		sim_tracks_add_job(&tracks, jobs[i].session, jobs[i].name);
	put_memory(&events, rec);
	put_entries(&tracks, rec, progress);
	(void)fputs("\n],\n\"salus\":", out);
	sim_recording_put(out, rec);
	(void)fputs("}\n", out);
	sim_tracks_fini(&tracks);
	free(jobs);
	return SAL_OK;
}
