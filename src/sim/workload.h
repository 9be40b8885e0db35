/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload - the jobs that a simulation runs, read from a CSV file.
 *
 * Columns, in any order: job, submit_s, and for each job either duration_s or iterations and
 * iter_ms. Optional: persistent_mib, ephemeral_mib, util, weight, priority, kind, requests_per_s,
 * deadline_ms. An empty cell is the default.
 */
#ifndef SAL_SIM_WORKLOAD_H
#define SAL_SIM_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/session.h"

struct sim_job {
	char *name; /* owned */
	unsigned long line; /* of the file */
	uint64_t submit_ns;
	uint64_t iterations;
	uint64_t iter_ns;
	uint64_t last_iter_ns; /* of the last iteration: the sum is exact */
	struct sal_needs needs;
	double util; /* share of the device it can use alone */
	uint32_t weight_milli;
	uint32_t priority;
	enum sal_kind kind;
	bool kind_undeclared; /* it has requests and no kind */
	/* inference: time between two requests; 0: each follows the last */
	uint64_t request_gap_ns;
	uint64_t deadline_ns; /* of each iteration; 0: none */
};

struct sim_workload {
	struct sim_job *jobs; /* owned; in the file's order */
	size_t count;
};

/*
 * Fails with a sentence `file:line: what, and what was expected`: -SAL_INVALID_ARGUMENT for what is
 * in the file, -SAL_NOT_FOUND if it cannot be read.
 */
int sim_workload_read(const char *path, struct sim_workload *out_workload, struct sal_err *err);

void sim_workload_fini(struct sim_workload *workload);

/* Device time of the whole job. */
uint64_t sim_job_total_ns(const struct sim_job *job);

#endif
