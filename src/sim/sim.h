/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim - the engine on a virtual clock, running a workload.
 *
 * The simulated device runs one iteration per lane. Lanes run side by side at full speed while the
 * sum of their jobs' util is at most 1. Beyond that they share the device in proportion; those of
 * tier 1 share what those of tier 0 leave. Copies
 * between device and host run one after the other at the page bandwidth, beside the iterations. A
 * job submits its next iteration when the last one ends.
 */
#ifndef SAL_SIM_SIM_H
#define SAL_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/policy.h"
#include "core/record.h"
#include "recording/draw/picture.h"
#include "sim/workload.h"

#define SIM_NEVER UINT64_MAX

struct sim_options {
	uint64_t capacity_bytes;
	struct sal_tuning tuning;
	const char *const *
		tunes; /* borrowed: `name=value` each; those the policy does not know are skipped */
	size_t tune_count;
	uint64_t switch_ns; /* device time lost when a lane goes from one job to another */
	bool keep_spans; /* fill spans and samples of the result */
	bool keep_records; /* fill records and samples of the result */
	bool device_is_silent; /* the device does not tell how busy an iteration keeps it */
	bool check; /* verify the engine after every event */
};

struct sim_job_result {
	const struct sim_job *job; /* borrowed: workload */
	uint64_t start_ns; /* first grant; SIM_NEVER: none */
	uint64_t end_ns; /* SIM_NEVER: refused */
	uint64_t used_ns;
	uint64_t page_outs;
	uint64_t latency_sum_ns; /* submission to end of each iteration */
	uint64_t latency_max_ns;
	uint64_t iterations;
	uint64_t late; /* iterations that missed the job's deadline */
	uint32_t device;
	bool refused;
	uint16_t reason; /* enum sal_reason, if refused */
};

struct sim_result {
	const char *policy; /* borrowed: static */
	uint64_t capacity_bytes;
	uint32_t devices;
	struct sim_job_result *jobs; /* owned; in the order of the workload */
	size_t job_count;
	uint32_t *arrivals; /* owned; jobs in order of submission: session n is arrivals[n - 1] */
	uint64_t first_submit_ns, last_end_ns;
	double busy_ns; /* integral of the share of the device in use */
	uint64_t switches, page_outs, refused, iterations, events;
	uint32_t peak_resident, peak_lanes;
	uint16_t eject_reason; /* enum sal_reason; NONE: fifo did not replace the policy */
	uint64_t ejected_ns;
	struct rec_span *spans; /* owned */
	size_t span_count;
	struct rec_sample *samples; /* owned */
	size_t sample_count;
	struct sal_record *records; /* owned */
	size_t record_count;
};

int sim_run(const struct sim_workload *workload, const struct sal_policy *policy,
	    const struct sim_options *options, struct sim_result *out_result, struct sal_err *err);

/*
 * Static partitioning: every job owns its peak memory for the whole time, on as many devices as
 * first fit (largest first) needs. Jobs of one device run side by side.
 */
int sim_run_static(const struct sim_workload *workload, const struct sim_options *options,
		   struct sim_result *out_result, struct sal_err *err);

void sim_result_fini(struct sim_result *result);

#endif
