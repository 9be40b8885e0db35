/* SPDX-License-Identifier: Apache-2.0 */
/*
 * marks - events that show an engine: slices of lanes and jobs, moments, counters.
 */
#ifndef SAL_RECORDING_MARKS_H
#define SAL_RECORDING_MARKS_H

#include "core/trace.h"
#include "recording/events.h"

/* An iteration. In its lane it has the name of its job. */
void rec_mark_in_lane(const struct rec_events *e, unsigned track, const char *job,
		      const struct sal_record *grant, const struct sal_trace_span *span);
void rec_mark_in_job(const struct rec_events *e, unsigned track, const struct sal_record *grant,
		     const struct sal_trace_span *span);

/* Starts at the record of the decision. */
void rec_mark_copy(const struct rec_events *e, unsigned track, const struct sal_record *start,
		   uint64_t end_ns);

void rec_mark_wait(const struct rec_events *e, unsigned track, const char *why,
		   const struct sal_trace_span *span);

/* A moment of a track; track 0 is the whole process. policy: chosen then; NULL: none. */
void rec_mark_instant(const struct rec_events *e, unsigned track, const struct sal_record *r,
		      const char *policy);

/* From now on the job may hold so much; 0: no limit. */
void rec_mark_limit(const struct rec_events *e, unsigned track, uint64_t now_ns,
		    uint64_t limit_bytes);

/* Counters, from then on. */
void rec_mark_memory(const struct rec_events *e, uint64_t from_ns, uint64_t capacity_bytes,
		     const struct sal_trace_memory *used);
void rec_mark_queue(const struct rec_events *e, uint64_t from_ns, uint64_t waiting,
		    uint64_t running);

#endif
