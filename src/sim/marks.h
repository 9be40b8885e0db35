/* SPDX-License-Identifier: Apache-2.0 */
/*
 * marks - what is drawn of an engine: slices of lanes and jobs, moments, counters.
 */
#ifndef SAL_SIM_MARKS_H
#define SAL_SIM_MARKS_H

#include "core/trace.h"
#include "sim/events.h"

/* An iteration: in its lane it is called by its job. */
void sim_mark_in_lane(const struct sim_events *e, unsigned track, const char *job,
		      const struct sal_record *grant, const struct sal_trace_span *span);
void sim_mark_in_job(const struct sim_events *e, unsigned track, const struct sal_record *grant,
		     const struct sal_trace_span *span);

/* From the record of its decision on. */
void sim_mark_copy(const struct sim_events *e, unsigned track, const struct sal_record *start,
		   uint64_t end_ns);

void sim_mark_wait(const struct sim_events *e, unsigned track, const char *why,
		   const struct sal_trace_span *span);

/* A moment, of the track; of the whole process if that is 0. */
void sim_mark_instant(const struct sim_events *e, unsigned track, const struct sal_record *r);

/* Counters, from then on. */
void sim_mark_memory(const struct sim_events *e, uint64_t from_ns, uint64_t capacity_bytes,
		     const struct sal_trace_memory *used);
void sim_mark_queue(const struct sim_events *e, uint64_t from_ns, uint64_t waiting,
		    uint64_t running);

#endif
