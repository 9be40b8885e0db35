/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "recording/trace_impl.h"

static int by_session(const void *a, const void *b)
{
	uint64_t x = ((const struct sal_trace_name *)a)->session;
	uint64_t y = ((const struct sal_trace_name *)b)->session;

	return x < y ? -1 : x > y;
}

/* Adds a session to the list. Consecutive entries often have the same session. */
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

/* Keeps the longest name of each session: the shorter ones were cut. */
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

struct sal_trace_name *rec_trace_jobs(const struct rec_trace *trace, size_t *out_count)
{
	size_t count = 0, i;
	struct sal_trace_name *names =
		calloc(trace->head->count + trace->head->name_count + 1, sizeof(*names));

	*out_count = 0;
	if (!names)
		return NULL;
	for (i = 0; i < trace->head->count; i++) {
		const struct sal_trace_entry *e = &trace->entries[i];

		add_name(names, &count, e->record.session,
			 e->record.what == SAL_OPEN ? e->job.name : NULL);
	}
	for (i = 0; i < trace->head->name_count; i++)
		add_name(names, &count, trace->names[i].session, trace->names[i].name);
	*out_count = merge(names, count);
	return names;
}

/* An event holds the memory since the previous event. */
struct rec_sample *rec_trace_samples(const struct rec_trace *trace, size_t *out_count)
{
	struct rec_sample *samples = calloc(trace->head->count + 1, sizeof(*samples));
	struct sal_trace_memory last = { UINT64_MAX, UINT64_MAX };
	uint64_t since_ns = trace->head->start_ns, i;
	size_t count = 0;

	*out_count = 0;
	if (!samples)
		return NULL;
	if (trace->head->dropped > 0 && trace->head->count > 0)
		since_ns = trace->entries[0].record.now_ns;
	for (i = 0; i <= trace->head->count; i++) {
		const struct sal_trace_entry *e = i < trace->head->count ? &trace->entries[i]
									 : NULL;
		const struct sal_trace_memory *now = e ? &e->memory : &trace->head->memory;

		if (e && sal_record_is_decision(&e->record))
			continue;
		if (!(e && e->record.what == SAL_SET_TUNING) &&
		    memcmp(now, &last, sizeof(last)) != 0) {
			samples[count++] =
				(struct rec_sample){ .now_ns = since_ns,
						     .persist_bytes = now->persist_bytes,
						     .lane_sum_bytes = now->lane_sum_bytes };
			last = *now;
		}
		since_ns = e ? e->record.now_ns : since_ns;
	}
	*out_count = count;
	return samples;
}
