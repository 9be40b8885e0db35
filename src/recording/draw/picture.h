/* SPDX-License-Identifier: Apache-2.0 */
/*
 * picture - the data of a drawing: jobs, their turns, and the memory of a real or simulated
 * schedule.
 *
 * Plain data. Whoever fills it in owns everything in it.
 */
#ifndef SAL_RECORDING_DRAW_PICTURE_H
#define SAL_RECORDING_DRAW_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define REC_NEVER UINT64_MAX

struct rec_job {
	const char *name;
	uint64_t submit_ns;
	uint64_t start_ns; /* first iteration */
	uint64_t end_ns; /* of the last one */
	uint64_t used_ns; /* device time */
	uint64_t iterations;
	uint64_t page_outs;
	bool refused; /* the times other than submit_ns are meaningless then */
};

enum rec_span_kind {
	REC_RUN,
	REC_PAGE_OUT,
	REC_PAGE_IN,
	REC_PAUSED
};

/* Something that a job did, or that was done to it, without a break. */
struct rec_span {
	uint64_t from_ns, to_ns;
	uint32_t job;
	uint16_t lane;
	uint16_t kind; /* enum rec_span_kind */
};

/* The device's memory from this moment on. */
struct rec_sample {
	uint64_t now_ns;
	uint64_t persist_bytes;
	uint64_t lane_sum_bytes;
	uint32_t lanes;
	uint32_t resident;
	uint32_t waiting;
};

enum rec_change_kind {
	REC_POLICY,
	REC_LIMIT
};

/* Something that a person, or the engine, changed while jobs ran. */
struct rec_change {
	uint64_t now_ns;
	const char *policy; /* of REC_POLICY: from now on */
	uint64_t limit_bytes; /* of REC_LIMIT: what the job may hold from now on; 0: no limit */
	uint32_t job; /* of REC_LIMIT */
	uint16_t kind; /* enum rec_change_kind */
};

struct rec_picture {
	const char *policy; /* the policies that ruled, as text */
	uint64_t capacity_bytes;
	uint32_t devices;
	struct rec_job *jobs;
	size_t job_count;
	uint32_t *rows; /* jobs from top to bottom: in order of submission */
	uint64_t first_submit_ns, last_end_ns;
	double busy_ns; /* integral of the share of the device in use */
	uint64_t page_outs, refused;
	struct rec_span *spans; /* sorted by time within each job and each lane */
	size_t span_count;
	struct rec_sample *samples;
	size_t sample_count;
	struct rec_change *changes; /* in order of time */
	size_t change_count;
};

/* Times in seconds. Refused jobs are counted, and left out of everything else. */
struct rec_summary {
	double makespan_s;
	double mean_jct_s, median_jct_s, p95_jct_s, max_jct_s;
	double mean_queue_s; /* submission to first iteration */
	double busy_share; /* of all devices, over the makespan */
};

int rec_summarise(const struct rec_picture *picture, struct rec_summary *out_summary,
		  struct sal_err *err);

#endif
