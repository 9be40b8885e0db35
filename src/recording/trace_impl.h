/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_impl - what the files of a trace share.
 *
 *     trace.c         in memory; what may be in an entry
 *     trace_json.c    to JSON
 *     trace_read.c    and back
 *     trace_parts.c   who is in it; its memory over time
 *     trace_chrome.c  as tracks
 *     trace_svg.c     as a picture
 */
#ifndef SAL_RECORDING_TRACE_IMPL_H
#define SAL_RECORDING_TRACE_IMPL_H

#include "core/trace.h"
#include "recording/trace.h"
#include "recording/draw/picture.h"

#define REC_TRACE_VERSION 4 /* version 3 lacks programs and deadlines, version 2 also set_param */
#define REC_TRACE_OLDEST 1 /* lacks failed copies and stuck lanes */

/* A number of a struct, and its name in JSON. */
struct rec_field {
	const char *name;
	size_t offset;
	size_t size; /* 1, 4 or 8 bytes */
	bool later; /* not in the oldest traces: 0 if it is missing */
};

/* All of struct sal_record but what, lane and reason; of struct sal_tuning; of struct sal_trace_job
 * but the name; of struct sal_trace_work; of struct sal_trace_span; what else an entry of SAL_DONE
 * has. Each ends with a NULL name. */
extern const struct rec_field rec_record_fields[];
extern const struct rec_field rec_tuning_fields[];
extern const struct rec_field rec_job_fields[];
extern const struct rec_field rec_work_fields[];
extern const struct rec_field rec_span_fields[];
extern const struct rec_field rec_done_fields[];

uint64_t rec_field_get(const struct rec_field *f, const void *from);
/* False if it does not fit. */
bool rec_field_set(const struct rec_field *f, void *to, uint64_t value);

/* Does the entry have everything that its users rely on? */
bool rec_entry_is_valid(const struct sal_trace_entry *entry);

/* The name of the policy that rules after a SAL_SET_POLICY. */
const char *rec_entry_policy(const struct sal_trace_entry *entry);

/* The trace as one JSON object, the value of the key "salus". */
void rec_trace_put(FILE *out, const struct rec_trace *trace);

/* All sessions that have an entry, sorted. The caller frees the array. NULL: out of memory. */
struct sal_trace_name *rec_trace_jobs(const struct rec_trace *trace, size_t *out_count);

/* The memory over time; only now_ns and the bytes are set. The caller frees the array. */
struct rec_sample *rec_trace_samples(const struct rec_trace *trace, size_t *out_count);

static inline void rec_progress_tell(const struct rec_progress *p, size_t done, size_t of)
{
	if (p && done % 1024 == 0)
		p->tell(p->ctx, done, of);
}

#endif
