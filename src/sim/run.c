/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine.h"
#include "core/lane.h"

#define NS_PER_S 1e9

/* A job that came and has not ended. */
struct live_job {
	struct sal_session *session; /* borrowed: engine; NULL before it came and after it ended */
	struct sal_iteration *iterations; /* owned; one for each that may be queued at once */
	uint64_t slots;
	uint64_t submitted;
	uint64_t done;
	uint64_t next_request_ns;
	bool drop; /* refused: close it */
};

struct running {
	uint32_t job;
	bool active;
	uint64_t start_ns;
	double end_work; /* reading of the work clock at which it ends */
	double util;
};

struct copy {
	uint64_t end_ns;
	struct sal_session *session; /* borrowed: engine, which keeps it until the copy ended */
	bool in;
};

struct sim {
	const struct sim_trace *trace;
	const struct sim_options *options;
	struct sal_engine *engine; /* owned */
	struct live_job *live; /* owned */
	size_t next_arrival;
	uint32_t *requests; /* owned; heap of jobs by next_request_ns */
	size_t request_count;
	struct running running[SAL_LANES_MAX];
	uint32_t last_job[SAL_LANES_MAX]; /* 1 + job that ran last in the lane */
	uint64_t busy_mask;
	double load; /* sum of util of what runs */
	double work; /* clock of work done by a job at full speed, in ns */
	struct copy *copies; /* owned; ring, in order of their end */
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
static uint32_t job_of(const struct sal_session *s)
{
	SAL_ASSERT(s);
	return (uint32_t)((uintptr_t)s->user - 1);
}

/* --- growing arrays of the result ---------------------------------------------------------------- */

static void *grown(struct sim *sim, void *array, size_t count, size_t *room, size_t size)
{
	size_t more = *room ? *room * 2 : 1024;
	void *p;

	if (count < *room)
		return array;
	p = realloc(array, more * size);
	if (!p) {
		sim->out_of_memory = true;
		return NULL;
	}
	*room = more;
	return p;
}

static void add_span(struct sim *sim, uint32_t job, uint32_t lane, enum sim_span_kind kind,
		     uint64_t from_ns, uint64_t to_ns)
{
	struct sim_result *out = sim->out;
	struct sim_span *spans;
	size_t back;

	if (!sim->options->keep_spans)
		return;
	/* Back-to-back iterations of one job are one span; lanes alternate, so look back a little. */
	for (back = 1; back <= SAL_LANES_MAX && back <= out->span_count; back++) {
		struct sim_span *s = &out->spans[out->span_count - back];

		if (s->kind != kind || s->lane != lane)
			continue;
		if (s->job != job || s->to_ns != from_ns)
			break;
		s->to_ns = to_ns;
		return;
	}
	spans = grown(sim, out->spans, out->span_count, &sim->span_room, sizeof(*spans));
	if (!spans)
		return;
	out->spans = spans;
	spans[out->span_count++] = (struct sim_span){
		.from_ns = from_ns,
		.to_ns = to_ns,
		.job = job,
		.lane = (uint16_t)lane,
		.kind = (uint16_t)kind,
	};
}

static void add_record(struct sim *sim, const struct sal_record *r)
{
	struct sim_result *out = sim->out;
	struct sal_record *records =
		grown(sim, out->records, out->record_count, &sim->record_room, sizeof(*records));

	if (!records)
		return;
	out->records = records;
	records[out->record_count++] = *r;
}

static void add_sample(struct sim *sim)
{
	const struct sal_memory *m = sal_engine_memory(sim->engine);
	struct sim_result *out = sim->out;
	struct sim_sample now = {
		.now_ns = sim->now_ns,
		.persist_bytes = m->persist_bytes,
		.lane_sum_bytes = m->lane_sum_bytes,
		.lanes = (uint32_t)__builtin_popcountll(m->open_mask),
		.resident = sal_engine_resident_count(sim->engine),
		.waiting = sal_engine_waiting_count(sim->engine),
	};
	struct sim_sample *samples, *last;

	if (out->sample_count > 0) {
		last = &out->samples[out->sample_count - 1];
		if (last->persist_bytes == now.persist_bytes && last->lanes == now.lanes &&
		    last->lane_sum_bytes == now.lane_sum_bytes && last->resident == now.resident &&
		    last->waiting == now.waiting)
			return;
		if (last->now_ns == now.now_ns) {
			*last = now;
			return;
		}
	}
	samples = grown(sim, out->samples, out->sample_count, &sim->sample_room, sizeof(*samples));
	if (!samples)
		return;
	out->samples = samples;
	samples[out->sample_count++] = now;
}

/* --- the device ----------------------------------------------------------------------------------- */

/* Let the device work until `to_ns`. */
static void advance(struct sim *sim, uint64_t to_ns)
{
	double passed = (double)(to_ns - sim->now_ns);

	if (sim->busy_mask) {
		sim->work += sim->load > 1 ? passed / sim->load : passed;
		sim->out->busy_ns += sim->load > 1 ? passed : passed * sim->load;
	}
	sim->now_ns = to_ns;
}

static void start_iteration(struct sim *sim, uint32_t job, uint32_t lane,
			    const struct sal_iteration *it)
{
	const struct sim_job *j = &sim->trace->jobs[job];
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
	sim->running[lane] = (struct running){
		.job = job,
		.active = true,
		.start_ns = sim->now_ns,
		.end_work = sim->work + (double)length,
		.util = j->util,
	};
	sim->busy_mask |= UINT64_C(1) << lane;
	sim->load += j->util;
}

/* The lane that ends next, and when; -1 if none runs. */
static int next_end(const struct sim *sim, uint64_t *out_ns)
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

static void start_copy(struct sim *sim, struct sal_session *s, uint64_t bytes, bool in)
{
	double rate = (double)sim->options->tuning.page_bytes_per_s;
	uint32_t job = job_of(s);
	uint64_t begin = sim->copy_free_ns > sim->now_ns ? sim->copy_free_ns : sim->now_ns;
	uint64_t end = begin + (uint64_t)llround((double)bytes / rate * NS_PER_S);

	sim->copies[(sim->copy_first + sim->copy_count++) % sim->trace->count] =
		(struct copy){ .end_ns = end, .session = s, .in = in };
	sim->copy_free_ns = end;
	if (!in) {
		sim->out->page_outs++;
		sim->out->jobs[job].page_outs++;
	}
	add_span(sim, job, 0, in ? SIM_PAGE_IN : SIM_PAGE_OUT, begin, end);
}

/* --- decisions of the engine --------------------------------------------------------------------- */

static void on_record(void *ctx, const struct sal_record *r, struct sal_session *s,
		      struct sal_iteration *it)
{
	struct sim *sim = ctx;
	uint32_t job = s ? job_of(s) : 0;

	if (sim->options->keep_records)
		add_record(sim, r);
	switch (r->what) {
	case SAL_GRANT:
		start_iteration(sim, job, r->lane, it);
		break;
	case SAL_PAGE_OUT:
	case SAL_PAGE_IN:
		start_copy(sim, s, r->value, r->what == SAL_PAGE_IN);
		break;
	case SAL_REFUSE:
		if (!sim->live[job].drop) {
			sim->live[job].drop = true;
			sim->dropped++;
		}
		break;
	case SAL_WAKE_AT:
		sim->wake_ns = r->value;
		break;
	default:
		break;
	}
}

/* --- jobs ----------------------------------------------------------------------------------------- */

static void end_job(struct sim *sim, uint32_t job, bool refused)
{
	struct live_job *live = &sim->live[job];
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
	struct live_job *live = &sim->live[job];
	const struct sim_job *j = &sim->trace->jobs[job];
	struct sal_iteration *it = &live->iterations[live->submitted % live->slots];

	it->id = live->submitted++;
	it->needs = j->needs;
	it->expected_ns = j->iter_ns;
	sal_engine_submit(sim->engine, sim->now_ns, live->session, it);
}

static bool requests_before(const struct sim *sim, uint32_t a, uint32_t b)
{
	uint64_t ta = sim->live[a].next_request_ns, tb = sim->live[b].next_request_ns;

	return ta != tb ? ta < tb : a < b;
}

static void sift_up(struct sim *sim, size_t i)
{
	while (i > 0 && requests_before(sim, sim->requests[i], sim->requests[(i - 1) / 2])) {
		uint32_t t = sim->requests[i];

		sim->requests[i] = sim->requests[(i - 1) / 2];
		sim->requests[(i - 1) / 2] = t;
		i = (i - 1) / 2;
	}
}

static void sift_down(struct sim *sim)
{
	size_t i = 0;

	for (;;) {
		size_t k = 2 * i + 1;
		uint32_t t;

		if (k + 1 < sim->request_count &&
		    requests_before(sim, sim->requests[k + 1], sim->requests[k]))
			k++;
		if (k >= sim->request_count ||
		    !requests_before(sim, sim->requests[k], sim->requests[i]))
			return;
		t = sim->requests[i];
		sim->requests[i] = sim->requests[k];
		sim->requests[k] = t;
		i = k;
	}
}

/* The next request of the job at the top of the heap. */
static void request(struct sim *sim)
{
	uint32_t job = sim->requests[0];
	struct live_job *live = &sim->live[job];
	const struct sim_job *j = &sim->trace->jobs[job];
	bool more = live->session && live->submitted + 1 < j->iterations;

	if (more)
		live->next_request_ns += j->request_gap_ns;
	else
		sim->requests[0] = sim->requests[--sim->request_count];
	sift_down(sim);
	if (live->session)
		submit(sim, job);
}

static int arrive(struct sim *sim, struct sal_err *err)
{
	uint32_t job = sim->out->arrivals[sim->next_arrival++];
	struct live_job *live = &sim->live[job];
	const struct sim_job *j = &sim->trace->jobs[job];
	struct sal_job facts = {
		.kind = j->kind,
		.weight_milli = j->weight_milli,
		.priority = j->priority,
		.total_ns = sim_job_total_ns(j),
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
	SAL_ASSERT(live->session->id == sim->next_arrival); /* as arrivals promises */
	if (live->drop)
		return SAL_OK;
	if (j->request_gap_ns) {
		live->next_request_ns = sim->now_ns;
		sim->requests[sim->request_count++] = job;
		sift_up(sim, sim->request_count - 1);
	} else {
		submit(sim, job);
	}
	return SAL_OK;
}

static void end_iteration(struct sim *sim, uint32_t lane)
{
	struct running run = sim->running[lane];
	struct live_job *live = &sim->live[run.job];
	const struct sim_job *j = &sim->trace->jobs[run.job];
	struct sim_job_result *result = &sim->out->jobs[run.job];
	uint64_t latency = sim->now_ns - live->iterations[live->done % live->slots].submit_ns;

	sim->running[lane].active = false;
	sim->busy_mask &= ~(UINT64_C(1) << lane);
	sim->load = sim->busy_mask ? sim->load - run.util : 0;
	add_span(sim, run.job, lane, SIM_RUN, run.start_ns, sim->now_ns);
	live->done++;
	sim->out->iterations++;
	result->latency_sum_ns += latency;
	if (latency > result->latency_max_ns)
		result->latency_max_ns = latency;
	sal_engine_done(sim->engine, sim->now_ns, live->session, sim->now_ns - run.start_ns);
	if (live->done == j->iterations)
		end_job(sim, run.job, false);
	else if (!j->request_gap_ns)
		submit(sim, run.job);
}

static void end_copy(struct sim *sim)
{
	struct copy copy = sim->copies[sim->copy_first];

	sim->copy_first = (sim->copy_first + 1) % sim->trace->count;
	sim->copy_count--;
	if (copy.in)
		sal_engine_paged_in(sim->engine, sim->now_ns, copy.session);
	else
		sal_engine_paged_out(sim->engine, sim->now_ns, copy.session);
}

/* Jobs the engine refused leave, which may let others in. */
static void drop_refused(struct sim *sim)
{
	size_t i;

	while (sim->dropped > 0) {
		for (i = 0; i < sim->trace->count; i++)
			if (sim->live[i].drop && sim->live[i].session) {
				sim->live[i].drop = false;
				sim->dropped--;
				end_job(sim, (uint32_t)i, true);
			}
	}
}

/* --- the loop ------------------------------------------------------------------------------------- */

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
	int lane = next_end(sim, &end_ns);

	if (sim->copy_count > 0)
		earlier(sim->copies[sim->copy_first].end_ns, NEXT_COPY, &at_ns, &what);
	if (lane >= 0)
		earlier(end_ns, NEXT_END, &at_ns, &what);
	if (sim->next_arrival < sim->trace->count)
		earlier(sim->trace->jobs[sim->out->arrivals[sim->next_arrival]].submit_ns,
			NEXT_ARRIVAL, &at_ns, &what);
	if (sim->request_count > 0)
		earlier(sim->live[sim->requests[0]].next_request_ns, NEXT_REQUEST, &at_ns, &what);
	if (sim->wake_ns)
		earlier(sim->wake_ns, NEXT_WAKE, &at_ns, &what);
	*out_over = what == NEXT_NONE;
	if (*out_over)
		return SAL_OK;
	advance(sim, at_ns > sim->now_ns ? at_ns : sim->now_ns);
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
		add_sample(sim);
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
	size_t n = sim->trace->count;
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
			.job = &sim->trace->jobs[i],
			.start_ns = SIM_NEVER,
			.end_ns = SIM_NEVER,
		};
	}
	qsort_r(sim->out->arrivals, n, sizeof(*sim->out->arrivals), by_submission,
		sim->trace->jobs);
	sim->out->policy = policy->name;
	sim->out->capacity_bytes = cfg.capacity_bytes;
	sim->out->devices = 1;
	sim->out->job_count = n;
	sim->out->first_submit_ns = sim->trace->jobs[sim->out->arrivals[0]].submit_ns;
	return sal_engine_create(&cfg, &sim->engine, err);
}

static void tear_down(struct sim *sim)
{
	size_t i;

	sal_engine_destroy(sim->engine);
	for (i = 0; sim->live && i < sim->trace->count; i++)
		free(sim->live[i].iterations);
	free(sim->live);
	free(sim->requests);
	free(sim->copies);
}

/* Nothing is left to happen: every job must have ended. */
static int check_over(struct sim *sim, struct sal_err *err)
{
	size_t i;

	for (i = 0; i < sim->trace->count; i++) {
		const struct sim_job_result *r = &sim->out->jobs[i];

		if (r->end_ns == SIM_NEVER && !r->refused)
			return sal_err_set(err, SAL_INTERNAL, "job %s never ended under %s",
					   r->job->name, sim->out->policy);
	}
	return SAL_OK;
}

int sim_run(const struct sim_trace *trace, const struct sal_policy *policy,
	    const struct sim_options *options, struct sim_result *out_result, struct sal_err *err)
{
	struct sim sim = { .trace = trace, .options = options, .out = out_result };
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
	for (i = 0; i < trace->count; i++)
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
