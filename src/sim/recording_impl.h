/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recording_impl - what the files of a recording share.
 *
 *     recording.c         in memory; what may be in an entry
 *     recording_json.c    to JSON
 *     recording_read.c    and back
 *     recording_parts.c   who is in it; its memory over time
 *     recording_chrome.c  as tracks
 *     recording_svg.c     as a picture
 */
#ifndef SAL_SIM_RECORDING_IMPL_H
#define SAL_SIM_RECORDING_IMPL_H

#include "core/trace.h"
#include "sim/recording.h"
#include "sim/sim.h"

#define SIM_RECORDING_VERSION 3 /* 2 knows nothing of set_param */
#define SIM_RECORDING_OLDEST 1 /* knows nothing of copies that failed, nor of stuck lanes */

/* A number in a struct, by the name it has in JSON. */
struct sim_field {
	const char *name;
	size_t offset;
	size_t size; /* 1, 4 or 8 bytes */
	bool later; /* not in the oldest recordings: 0 if it is missing */
};

/* All of struct sal_record but what, lane and reason; of struct sal_tuning; of struct sal_trace_job
 * but the name; of struct sal_trace_span. Each ends with a NULL name. */
extern const struct sim_field sim_record_fields[];
extern const struct sim_field sim_tuning_fields[];
extern const struct sim_field sim_job_fields[];
extern const struct sim_field sim_span_fields[];

uint64_t sim_field_get(const struct sim_field *f, const void *from);
/* False if it does not fit. */
bool sim_field_set(const struct sim_field *f, void *to, uint64_t value);

/* Has the entry all that a reader relies on? */
bool sim_entry_is_valid(const struct sal_trace_entry *entry);

/* The recording as one JSON object, the value of the key "salus". */
void sim_recording_put(FILE *out, const struct sim_recording *rec);

/* Every session there is an entry of, by session. To be freed; NULL: out of memory. */
struct sal_trace_name *sim_recording_jobs(const struct sim_recording *rec, size_t *out_count);

/* What the memory held, from when on; only now_ns and the bytes are filled in. To be freed, too. */
struct sim_sample *sim_recording_samples(const struct sim_recording *rec, size_t *out_count);

static inline void sim_progress_tell(const struct sim_progress *p, size_t done, size_t of)
{
	if (p && done % 1024 == 0)
		p->tell(p->ctx, done, of);
}

#endif
