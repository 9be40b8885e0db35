/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_impl - a simulation that goes on, and what its files share.
 *
 *     run.c       the loop: what happens next, and the jobs it happens to
 *     device.c    the simulated device: iterations in lanes, copies to the host and back
 *     requests.c  when the next request of each service comes
 *     gather.c    spans, samples and records of the result
 */
#ifndef SAL_SIM_RUN_IMPL_H
#define SAL_SIM_RUN_IMPL_H

#include "core/engine.h"
#include "core/lane.h"
#include "sim/sim.h"

#define SIM_TIERS 2

/* A job that was submitted and has not ended. */
struct sim_live_job {
	struct sal_session
		*session; /* borrowed: engine; NULL before the submission and after the end */
	struct sal_iteration *iterations; /* owned; one for each iteration that may be queued */
	struct sal_pace pace; /* all iterations of a job run the same program */
	uint64_t slots;
	uint64_t submitted;
	uint64_t done;
	uint64_t next_request_ns;
	bool drop; /* refused: close it */
};

struct sim_running {
	uint32_t job;
	bool active;
	uint32_t tier;
	uint64_t start_ns;
	uint64_t length_ns; /* time that it takes alone */
	double end_work; /* reading of its tier's work clock at which it ends */
	double util;
};

struct sim_copy {
	uint64_t end_ns;
	struct sal_session *session; /* borrowed: engine, which keeps it until the copy ended */
	bool in;
};

struct sim {
	const struct sim_workload *workload;
	const struct sim_options *options;
	struct sal_engine *engine; /* owned */
	struct sim_live_job *live; /* owned */
	size_t next_arrival;
	uint32_t *requests; /* owned; heap of jobs by next_request_ns */
	size_t request_count;
	struct sim_running running[SAL_LANES_MAX];
	uint32_t last_job[SAL_LANES_MAX]; /* 1 + job that ran last in the lane */
	uint64_t busy_mask;
	/* of each tier: */
	double load[SIM_TIERS]; /* sum of util of the running jobs */
	uint32_t count[SIM_TIERS]; /* running jobs */
	double work[SIM_TIERS]; /* clock of work done by a job at full speed, in ns */
	struct sim_copy *copies; /* owned; ring, in order of their end */
	size_t copy_first, copy_count;
	uint64_t copy_free_ns;
	uint64_t wake_ns;
	uint64_t now_ns;
	size_t dropped;
	struct sim_result *out;
	size_t span_room, sample_room, record_room;
	bool out_of_memory;
};

/* A session's user pointer is 1 + the index of its job. */
static inline uint32_t sim_job_of(const struct sal_session *s)
{
	SAL_ASSERT(s);
	return (uint32_t)((uintptr_t)s->user - 1);
}

/* They add to the result if its options ask for that. They set out_of_memory if they fail. */
void sim_add_span(struct sim *sim, uint32_t job, uint32_t lane, enum rec_span_kind kind,
		  uint64_t from_ns, uint64_t to_ns);
void sim_add_record(struct sim *sim, const struct sal_record *r);
void sim_add_sample(struct sim *sim);

/* Let the device work until `to_ns`. */
void sim_advance(struct sim *sim, uint64_t to_ns);

void sim_start_iteration(struct sim *sim, uint32_t job, uint32_t lane, uint32_t tier,
			 const struct sal_iteration *it);
void sim_end_iteration(struct sim *sim, uint32_t lane);

/* The lane that ends next, and when; -1 if none runs. */
int sim_next_end(const struct sim *sim, uint64_t *out_ns);

void sim_start_copy(struct sim *sim, struct sal_session *s, uint64_t bytes, bool in);

/* The heap of services; requests[0] is next. Sift after its time changed or it was replaced. */
void sim_requests_add(struct sim *sim, uint32_t job);
void sim_requests_sift(struct sim *sim);

#endif
