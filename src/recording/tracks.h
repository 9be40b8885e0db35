/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracks - an engine's records as tracks over time: one for each lane and each job, counters for
 * memory and queue.
 *
 * Every record is shown except `wake_at` and `tick`, which only concern timers. Events are written
 * at once; only the current activity of each job is kept. Slices of a track never overlap: the
 * calls of the engine come one after the other, and the device's times are cut to them.
 *
 * The records may start in the middle. Whatever came before is treated as idle.
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
	const char
		*policy; /* borrowed: the caller's; name of the policy of the next SAL_SET_POLICY */
	uint64_t waiting, running; /* iterations, of all jobs */
	uint64_t last_waiting, last_running; /* as the counter was last written */
};

int rec_tracks_init(struct rec_tracks *t, const struct rec_events *events, size_t job_count,
		    struct sal_err *err);
void rec_tracks_fini(struct rec_tracks *t);

/*
 * Call these first: the process and its lanes, then every job that has a record, sorted by session.
 */
void rec_tracks_name(struct rec_tracks *t, const char *process, uint64_t lane_mask);
void rec_tracks_add_job(struct rec_tracks *t, uint64_t session, const char *borrowed_name);

/* Then put the records in order; span may be NULL. */
void rec_tracks_put(struct rec_tracks *t, const struct sal_record *r,
		    const struct sal_trace_span *span);

/*
 * Call this after a record with a job's limit, SAL_OPEN or SAL_DECLARE. Marks the limit if it
 * changed.
 */
void rec_tracks_put_limit(struct rec_tracks *t, const struct sal_record *r, uint64_t limit_bytes);

/* Ends all slices at the last record. */
void rec_tracks_end(struct rec_tracks *t);

#endif
