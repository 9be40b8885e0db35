/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "sim/run_impl.h"

#define NS_PER_S 1e9

void sim_advance(struct sim *sim, uint64_t to_ns)
{
	double passed = (double)(to_ns - sim->now_ns);

	if (sim->busy_mask) {
		sim->work += sim->load > 1 ? passed / sim->load : passed;
		sim->out->busy_ns += sim->load > 1 ? passed : passed * sim->load;
	}
	sim->now_ns = to_ns;
}

void sim_start_iteration(struct sim *sim, uint32_t job, uint32_t lane,
			 const struct sal_iteration *it)
{
	const struct sim_job *j = &sim->workload->jobs[job];
	struct sim_job_result *result = &sim->out->jobs[job];
	uint64_t length = it->id + 1 == j->iterations ? j->last_iter_ns : j->iter_ns;

	if (sim->last_job[lane] != job + 1) {
		sim->out->switches += sim->last_job[lane] != 0;
		length += sim->last_job[lane] != 0 ? sim->options->switch_ns : 0;
		sim->last_job[lane] = job + 1;
	}
	if (result->start_ns == SIM_NEVER)
		result->start_ns = sim->now_ns;
	if (!sim->busy_mask)
		sim->work = 0; /* a fresh start keeps the clock exact */
	sim->running[lane] = (struct sim_running){
		.job = job,
		.active = true,
		.start_ns = sim->now_ns,
		.end_work = sim->work + (double)length,
		.util = j->util,
	};
	sim->busy_mask |= UINT64_C(1) << lane;
	sim->load += j->util;
}

int sim_next_end(const struct sim *sim, uint64_t *out_ns)
{
	uint64_t rest;
	double left;
	int best = -1;

	for (rest = sim->busy_mask; rest; rest &= rest - 1) {
		int i = __builtin_ctzll(rest);

		if (best < 0 || sim->running[i].end_work < sim->running[best].end_work)
			best = i;
	}
	if (best < 0)
		return -1;
	left = sim->running[best].end_work - sim->work;
	if (sim->load > 1)
		left *= sim->load;
	*out_ns = sim->now_ns + (left > 0 ? (uint64_t)llround(ceil(left - 1e-6)) : 0);
	return best;
}

void sim_start_copy(struct sim *sim, struct sal_session *s, uint64_t bytes, bool in)
{
	double rate = (double)sim->options->tuning.page_bytes_per_s;
	uint32_t job = sim_job_of(s);
	uint64_t begin = sim->copy_free_ns > sim->now_ns ? sim->copy_free_ns : sim->now_ns;
	uint64_t end = begin + (uint64_t)llround((double)bytes / rate * NS_PER_S);

	sim->copies[(sim->copy_first + sim->copy_count++) % sim->workload->count] =
		(struct sim_copy){ .end_ns = end, .session = s, .in = in };
	sim->copy_free_ns = end;
	if (!in) {
		sim->out->page_outs++;
		sim->out->jobs[job].page_outs++;
	}
	sim_add_span(sim, job, 0, in ? REC_PAGE_IN : REC_PAGE_OUT, begin, end);
}
