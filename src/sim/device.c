/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "sim/run_impl.h"

#define NS_PER_S 1e9
/* What is left for tier 1 beside iterations that fill the device. */
#define LEAST_ROOM 0.001

/* Speed of the iterations of a tier. Tier 1 has what tier 0 leaves. */
static double speed_of(const struct sim *sim, uint32_t tier)
{
	double room = 1 - (tier == 1 ? sim->load[0] : 0);

	if (sim->load[tier] <= room)
		return 1;
	return room > LEAST_ROOM ? room / sim->load[tier] : LEAST_ROOM / sim->load[tier];
}

void sim_advance(struct sim *sim, uint64_t to_ns)
{
	double passed = (double)(to_ns - sim->now_ns);
	uint32_t tier;

	for (tier = 0; tier < SIM_TIERS; tier++)
		if (sim->load[tier] > 0) {
			double done = passed * speed_of(sim, tier);

			sim->work[tier] += done;
			sim->out->busy_ns += done * sim->load[tier];
		}
	sim->now_ns = to_ns;
}

void sim_start_iteration(struct sim *sim, uint32_t job, uint32_t lane, uint32_t tier,
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
	if (sim->load[tier] == 0)
		sim->work[tier] = 0; /* a fresh start keeps the clock exact */
	sim->running[lane] = (struct sim_running){
		.job = job,
		.active = true,
		.start_ns = sim->now_ns,
		.tier = tier,
		.end_work = sim->work[tier] + (double)length,
		.length_ns = length,
		.util = j->util,
	};
	sim->busy_mask |= UINT64_C(1) << lane;
	sim->load[tier] += j->util;
	sim->count[tier]++;
}

void sim_end_iteration(struct sim *sim, uint32_t lane)
{
	struct sim_running *run = &sim->running[lane];

	run->active = false;
	sim->busy_mask &= ~(UINT64_C(1) << lane);
	sim->load[run->tier] = --sim->count[run->tier] ? sim->load[run->tier] - run->util : 0;
}

/* Time until the iteration ends, if nothing changes. */
static double time_left(const struct sim *sim, const struct sim_running *run)
{
	return (run->end_work - sim->work[run->tier]) / speed_of(sim, run->tier);
}

int sim_next_end(const struct sim *sim, uint64_t *out_ns)
{
	double left = 0;
	uint64_t rest;
	int best = -1;

	for (rest = sim->busy_mask; rest; rest &= rest - 1) {
		int i = __builtin_ctzll(rest);
		double this_left = time_left(sim, &sim->running[i]);

		if (best >= 0 && this_left >= left)
			continue;
		best = i;
		left = this_left;
	}
	if (best < 0)
		return -1;
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
