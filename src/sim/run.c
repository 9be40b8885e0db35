/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "sim/run_impl.h"

static void on_record(void *ctx, const struct sal_record *r, struct sal_session *s,
		      struct sal_iteration *it)
{
	struct sim *sim = ctx;
	uint32_t job = s ? sim_job_of(s) : 0;

	if (sim->options->keep_records)
		sim_add_record(sim, r);
	switch (r->what) {
	case SAL_GRANT:
		sim_start_iteration(sim, job, r->lane, (uint32_t)r->value, it);
		break;
	case SAL_PAGE_OUT:
	case SAL_PAGE_IN:
		sim_start_copy(sim, s, r->value, r->what == SAL_PAGE_IN);
		break;
	case SAL_REFUSE:
		if (!sim->live[job].drop) {
			sim->live[job].drop = true;
			sim->out->jobs[job].reason = r->reason;
			sim->dropped++;
		}
		break;
	case SAL_WAKE_AT:
		sim->wake_ns = r->value;
		break;
	case SAL_EJECT:
		sim->out->ejected_ns = r->now_ns;
		sim->out->eject_reason = r->reason;
		break;
	default:
		break;
	}
}

static void end_job(struct sim *sim, uint32_t job, bool refused)
{
	struct sim_live_job *live = &sim->live[job];
	struct sim_job_result *result = &sim->out->jobs[job];

	result->used_ns = live->session->used_ns;
	result->iterations = live->done;
	result->refused = refused;
	if (refused)
		sim->out->refused++;
	else
		result->end_ns = sim->now_ns;
	sal_engine_close(sim->engine, sim->now_ns, live->session);
	live->session = NULL;
}

static void submit(struct sim *sim, uint32_t job)
{
	struct sim_live_job *live = &sim->live[job];
	const struct sim_job *j = &sim->workload->jobs[job];
	struct sal_iteration *it = &live->iterations[live->submitted % live->slots];

	it->id = live->submitted++;
	it->program = job + 1;
	it->pace = &live->pace;
	it->busy_ns = 0;
	it->needs = j->needs;
	it->expected_ns = j->iter_ns;
	sal_engine_submit(sim->engine, sim->now_ns, live->session, it);
}

/* The next request of the job at the top of the heap. */
static void request(struct sim *sim)
{
	uint32_t job = sim->requests[0];
	struct sim_live_job *live = &sim->live[job];
	const struct sim_job *j = &sim->workload->jobs[job];
	bool stays = live->session && !live->drop;
	bool more = stays && live->submitted + 1 < j->iterations;

	if (more)
		live->next_request_ns += j->request_gap_ns;
	else
		sim->requests[0] = sim->requests[--sim->request_count];
	sim_requests_sift(sim);
	if (stays)
		submit(sim, job);
}

static int arrive(struct sim *sim, struct sal_err *err)
{
	uint32_t job = sim->out->arrivals[sim->next_arrival++];
	struct sim_live_job *live = &sim->live[job];
	const struct sim_job *j = &sim->workload->jobs[job];
	struct sal_job facts = {
		.kind = j->kind,
		.kind_undeclared = j->kind_undeclared,
		.weight_milli = j->weight_milli,
		.priority = j->priority,
		.total_ns = sim_job_total_ns(j),
		.deadline_ns = j->deadline_ns,
		.declared = j->needs,
	};
	int rc;

	live->slots = j->request_gap_ns ? j->iterations : 1;
	live->iterations = calloc(live->slots, sizeof(*live->iterations));
	if (!live->iterations)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	rc = sal_engine_open(sim->engine, sim->now_ns, &facts, (void *)(uintptr_t)(job + 1),
			     &live->session, err);
	if (rc < 0)
		return rc;
	SAL_ASSERT(live->session->id == sim->next_arrival); /* see arrivals in struct sim_result */
	if (live->drop)
		return SAL_OK;
	if (j->request_gap_ns) {
		live->next_request_ns = sim->now_ns;
		sim_requests_add(sim, job);
	} else {
		submit(sim, job);
	}
	return SAL_OK;
}

static void end_iteration(struct sim *sim, uint32_t lane)
{
	struct sim_running run = sim->running[lane];
	struct sim_live_job *live = &sim->live[run.job];
	const struct sim_job *j = &sim->workload->jobs[run.job];
	struct sim_job_result *result = &sim->out->jobs[run.job];
	uint64_t latency = sim->now_ns - live->iterations[live->done % live->slots].submit_ns;

	sim_end_iteration(sim, lane);
	sim_add_span(sim, run.job, lane, REC_RUN, run.start_ns, sim->now_ns);
	live->done++;
	sim->out->iterations++;
	result->latency_sum_ns += latency;
	if (latency > result->latency_max_ns)
		result->latency_max_ns = latency;
	result->late += j->deadline_ns && latency > j->deadline_ns;
	if (!sim->options->device_is_silent)
		live->session->running->busy_ns = (uint64_t)((double)run.length_ns * run.util);
	sal_engine_done(sim->engine, sim->now_ns, live->session, sim->now_ns - run.start_ns);
	if (live->drop)
		return; /* refused while this iteration ran: drop_refused ends the job */
	if (live->done == j->iterations)
		end_job(sim, run.job, false);
	else if (!j->request_gap_ns)
		submit(sim, run.job);
}

static void end_copy(struct sim *sim)
{
	struct sim_copy copy = sim->copies[sim->copy_first];

	sim->copy_first = (sim->copy_first + 1) % sim->workload->count;
	sim->copy_count--;
	if (copy.in)
		sal_engine_paged_in(sim->engine, sim->now_ns, copy.session);
	else
		sal_engine_paged_out(sim->engine, sim->now_ns, copy.session);
}

/*
 * Refused jobs leave, which may make room for others. A job with a running iteration leaves after
 * it.
 */
static void drop_refused(struct sim *sim)
{
	size_t i, left;

	do {
		for (i = left = 0; i < sim->workload->count; i++) {
			const struct sim_live_job *live = &sim->live[i];

			if (!live->drop || !live->session || live->session->running)
				continue;
			sim->live[i].drop = false;
			sim->dropped--;
			left++;
			end_job(sim, (uint32_t)i, true);
		}
	} while (left > 0 && sim->dropped > 0);
}

enum next {
	NEXT_NONE,
	NEXT_COPY,
	NEXT_END,
	NEXT_ARRIVAL,
	NEXT_REQUEST,
	NEXT_WAKE
};

static void earlier(uint64_t at_ns, enum next what, uint64_t *best_ns, enum next *best)
{
	if (*best == NEXT_NONE || at_ns < *best_ns) {
		*best = what;
		*best_ns = at_ns;
	}
}

static int step(struct sim *sim, bool *out_over, struct sal_err *err)
{
	enum next what = NEXT_NONE;
	uint64_t at_ns = 0, end_ns;
	int lane = sim_next_end(sim, &end_ns);

	if (sim->copy_count > 0)
		earlier(sim->copies[sim->copy_first].end_ns, NEXT_COPY, &at_ns, &what);
	if (lane >= 0)
		earlier(end_ns, NEXT_END, &at_ns, &what);
	if (sim->next_arrival < sim->workload->count)
		earlier(sim->workload->jobs[sim->out->arrivals[sim->next_arrival]].submit_ns,
			NEXT_ARRIVAL, &at_ns, &what);
	if (sim->request_count > 0)
		earlier(sim->live[sim->requests[0]].next_request_ns, NEXT_REQUEST, &at_ns, &what);
	if (sim->wake_ns)
		earlier(sim->wake_ns, NEXT_WAKE, &at_ns, &what);
	*out_over = what == NEXT_NONE;
	if (*out_over)
		return SAL_OK;
	sim_advance(sim, at_ns > sim->now_ns ? at_ns : sim->now_ns);
	sim->out->events++;
	switch (what) {
	case NEXT_COPY:
		end_copy(sim);
		break;
	case NEXT_END:
		end_iteration(sim, (uint32_t)lane);
		break;
	case NEXT_ARRIVAL:
		return arrive(sim, err);
	case NEXT_REQUEST:
		request(sim);
		break;
	case NEXT_WAKE:
		sim->wake_ns = 0;
		sal_engine_tick(sim->engine, sim->now_ns);
		break;
	case NEXT_NONE:
		break;
	}
	return SAL_OK;
}

static int after_step(struct sim *sim, struct sal_err *err)
{
	const struct sal_memory *m = sal_engine_memory(sim->engine);
	uint32_t resident = sal_engine_resident_count(sim->engine);
	uint32_t lanes = (uint32_t)__builtin_popcountll(m->open_mask);

	if (sim->dropped > 0)
		drop_refused(sim);
	if (resident > sim->out->peak_resident)
		sim->out->peak_resident = resident;
	if (lanes > sim->out->peak_lanes)
		sim->out->peak_lanes = lanes;
	if (sim->options->keep_spans || sim->options->keep_records)
		sim_add_sample(sim);
	if (sim->out_of_memory)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	if (sim->options->check && !sal_engine_check(sim->engine, err))
		return -SAL_INTERNAL;
	return SAL_OK;
}

static int by_submission(const void *a, const void *b, void *jobs)
{
	const struct sim_job *all = jobs;
	uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;

	if (all[ia].submit_ns != all[ib].submit_ns)
		return all[ia].submit_ns < all[ib].submit_ns ? -1 : 1;
	return ia < ib ? -1 : ia > ib;
}

/* Knobs and parameters, before the first event. */
static int tune(struct sim *sim, const struct sal_policy *policy, struct sal_err *err)
{
	size_t i;

	for (i = 0; i < sim->options->tune_count; i++) {
		struct sal_change change;
		int rc = sal_change_parse(policy, sim->options->tunes[i], &change, err);

		if (rc == -SAL_NOT_FOUND)
			continue;
		if (rc < 0)
			return rc;
		sal_engine_change(sim->engine, 0, &change);
	}
	return SAL_OK;
}

static int set_up(struct sim *sim, const struct sal_policy *policy, struct sal_err *err)
{
	size_t n = sim->workload->count;
	struct sal_engine_config cfg = {
		.capacity_bytes = sim->options->capacity_bytes,
		.policy = policy,
		.tuning = sim->options->tuning,
		.emit = on_record,
		.emit_ctx = sim,
		.emit_events = sim->options->keep_records,
	};
	uint32_t i;

	sim->live = calloc(n, sizeof(*sim->live));
	sim->requests = calloc(n, sizeof(*sim->requests));
	sim->copies = calloc(n, sizeof(*sim->copies));
	sim->out->jobs = calloc(n, sizeof(*sim->out->jobs));
	sim->out->arrivals = calloc(n, sizeof(*sim->out->arrivals));
	if (!sim->live || !sim->out->arrivals || !sim->requests || !sim->copies || !sim->out->jobs)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	for (i = 0; i < n; i++) {
		sim->out->arrivals[i] = i;
		sim->out->jobs[i] = (struct sim_job_result){
			.job = &sim->workload->jobs[i],
			.start_ns = SIM_NEVER,
			.end_ns = SIM_NEVER,
		};
	}
	qsort_r(sim->out->arrivals, n, sizeof(*sim->out->arrivals), by_submission,
		sim->workload->jobs);
	sim->out->policy = policy->name;
	sim->out->capacity_bytes = cfg.capacity_bytes;
	sim->out->devices = 1;
	sim->out->job_count = n;
	sim->out->first_submit_ns = sim->workload->jobs[sim->out->arrivals[0]].submit_ns;
	return sal_engine_create(&cfg, &sim->engine, err);
}

static void tear_down(struct sim *sim)
{
	size_t i;

	sal_engine_destroy(sim->engine);
	for (i = 0; sim->live && i < sim->workload->count; i++)
		free(sim->live[i].iterations);
	free(sim->live);
	free(sim->requests);
	free(sim->copies);
}

/* No event is left: every job must have ended. */
static int check_over(struct sim *sim, struct sal_err *err)
{
	size_t i;

	for (i = 0; i < sim->workload->count; i++) {
		const struct sim_job_result *r = &sim->out->jobs[i];

		if (r->end_ns == SIM_NEVER && !r->refused)
			return sal_err_set(err, SAL_INTERNAL, "job %s never ended under %s",
					   r->job->name, sim->out->policy);
	}
	return SAL_OK;
}

int sim_run(const struct sim_workload *workload, const struct sal_policy *policy,
	    const struct sim_options *options, struct sim_result *out_result, struct sal_err *err)
{
	struct sim sim = { .workload = workload, .options = options, .out = out_result };
	bool over = false;
	size_t i;
	int rc;

	memset(out_result, 0, sizeof(*out_result));
	rc = set_up(&sim, policy, err);
	if (rc >= 0)
		rc = tune(&sim, policy, err);
	while (rc >= 0 && !over) {
		rc = step(&sim, &over, err);
		if (rc >= 0)
			rc = after_step(&sim, err);
	}
	if (rc >= 0)
		rc = check_over(&sim, err);
	tear_down(&sim);
	if (rc < 0) {
		sim_result_fini(out_result);
		return rc;
	}
	for (i = 0; i < workload->count; i++)
		if (!out_result->jobs[i].refused &&
		    out_result->jobs[i].end_ns > out_result->last_end_ns)
			out_result->last_end_ns = out_result->jobs[i].end_ns;
	return SAL_OK;
}

void sim_result_fini(struct sim_result *result)
{
	free(result->jobs);
	free(result->arrivals);
	free(result->spans);
	free(result->samples);
	free(result->records);
	memset(result, 0, sizeof(*result));
}
