/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracks - an engine's records as pictures over time: a track for each lane and each job, counters for
 * memory and queue.
 *
 * Everything the records hold is shown but `wake_at` and `tick`, an alarm clock's. Events are written as the
 * records are put; nothing is kept but what each job is in the middle of. Slices of a track never overlap:
 * the engine's calls come one after the other, and what is known to be more exact is kept within them.
 *
 * The records may start in the middle: what came before is then taken to be unremarkable.
 */
#ifndef SAL_RECORDING_TRACKS_H
#define SAL_RECORDING_TRACKS_H

#include <stddef.h>

#include "core/trace.h"
#include "recording/events.h"

struct rec_tracks {
	struct rec_events events;
	struct rec_track_job *jobs; /* owned; by session */
	size_t job_count, job_room;
	uint64_t now_ns; /* of the last record */
	uint64_t waiting, running; /* iterations, of all jobs */
	uint64_t last_waiting, last_running; /* as the counter was last written */
};

int rec_tracks_init(struct rec_tracks *t, const struct rec_events *events, size_t job_count,
		    struct sal_err *err);
void rec_tracks_fini(struct rec_tracks *t);

/* First the process, its lanes, and every job there is a record of, in the order of their sessions. */
void rec_tracks_name(struct rec_tracks *t, const char *process, uint64_t lane_mask);
void rec_tracks_add_job(struct rec_tracks *t, uint64_t session, const char *borrowed_name);

/* Then the records, in order; span may be NULL. */
void rec_tracks_put(struct rec_tracks *t, const struct sal_record *r,
		    const struct sal_trace_span *span);

/* After a record that has a job's limit, SAL_OPEN or SAL_DECLARE: marks it if it is another. */
void rec_tracks_put_limit(struct rec_tracks *t, const struct sal_record *r, uint64_t limit_bytes);

/* What goes on is shown up to the last record. */
void rec_tracks_end(struct rec_tracks *t);

#endif
