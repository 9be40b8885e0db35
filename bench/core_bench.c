/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core_bench - the cost of a decision, how it grows with the number of sessions, and the speed of
 * the simulator. Prints tables, and checks nothing.
 *
 * An iteration is measured as the daemon's calls of the core for it: done (which decides whose turn
 * is next) and the next submit. Lanes are as in salusd, as many as pay; every program fills the
 * device, so one lane runs and the core tries in vain to find a session for another. Half of the tables run under memory pressure: a third of the
 * sessions does not fit and is paged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "core/engine.h"
#include "base/sys/clock.h"
#include "core/policy.h"
#include "sim/report.h"
#include "sim/sim.h"

#define MIB (UINT64_C(1) << 20)
#define ITERATIONS 100000
#define ITER_NS 1000000

struct worker {
	struct sal_session *session;
	struct sal_iteration iteration;
	struct sal_pace pace; /* of its program, which fills the device */
};

struct bench {
	struct sal_engine *engine;
	struct worker *workers;
	size_t count;
	struct worker *granted; /* by the last event; there is one lane */
	struct sal_session *copying[4096];
	size_t copies;
	uint64_t now_ns;
};

static void on_record(void *ctx, const struct sal_record *r, struct sal_session *s,
		      struct sal_iteration *it)
{
	struct bench *b = ctx;

	(void)it;
	if (r->what == SAL_GRANT)
		b->granted = s->user;
	else if ((r->what == SAL_PAGE_OUT || r->what == SAL_PAGE_IN) && b->copies < 4096)
		b->copying[b->copies++] = s;
}

static void submit(struct bench *b, struct worker *w)
{
	w->iteration.id++;
	sal_engine_submit(b->engine, b->now_ns, w->session, &w->iteration);
}

/* Copies end at once: their time is not measured. */
static void finish_copies(struct bench *b)
{
	while (b->copies > 0) {
		struct sal_session *s = b->copying[--b->copies];

		if (s->place == SAL_PAGING_OUT)
			sal_engine_paged_out(b->engine, b->now_ns, s);
		else
			sal_engine_paged_in(b->engine, b->now_ns, s);
	}
}

static int bench_init(struct bench *b, const struct sal_policy *policy, size_t count, bool pressure)
{
	struct sal_engine_config cfg = {
		.capacity_bytes = (pressure ? count * 2 / 3 + 2 : count + 1) * MIB,
		.policy = policy,
		.emit = on_record,
		.emit_ctx = b,
	};
	size_t i;

	memset(b, 0, sizeof(*b));
	sal_tuning_default(&cfg.tuning);
	cfg.tuning.lanes = SAL_LANES_AUTO;
	cfg.tuning.lane_cap = 8;
	cfg.tuning.tiers = 1;
	b->count = count;
	b->workers = calloc(count, sizeof(*b->workers));
	if (!b->workers || sal_engine_create(&cfg, &b->engine, NULL) < 0)
		return -1;
	for (i = 0; i < count; i++) {
		struct worker *w = &b->workers[i];
		struct sal_job job = {
			.priority = 20,
			.total_ns = ITER_NS * (uint64_t)(1000 + i * 7919 % 1000),
			.declared = { MIB, MIB },
		};

		w->pace = (struct sal_pace){
			.alone_ns = ITER_NS, .runs = 9, .alone_runs = 9, .util_milli = 1000
		};
		w->iteration.pace = &w->pace;
		w->iteration.needs = job.declared;
		if (sal_engine_open(b->engine, b->now_ns, &job, w, &w->session, NULL) < 0)
			return -1;
		submit(b, w);
		finish_copies(b);
	}
	return 0;
}

static void bench_fini(struct bench *b)
{
	sal_engine_destroy(b->engine);
	free(b->workers);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

struct cost {
	double mean_ns, p50_ns, p99_ns;
};

/* The mean of done + submit; percentiles of done alone, which makes the decision. */
static int measure(const struct sal_policy *policy, size_t count, bool pressure, struct cost *out)
{
	static uint32_t done_ns[ITERATIONS];
	struct bench b;
	uint64_t total = 0;
	size_t i, middle, last;

	if (bench_init(&b, policy, count, pressure) < 0)
		return -1;
	for (i = 0; i < ITERATIONS && b.granted; i++) {
		struct worker *w = b.granted;
		uint64_t t0, t1, t2;

		b.now_ns += ITER_NS;
		b.granted = NULL;
		t0 = sal_now_ns();
		sal_engine_done(b.engine, b.now_ns, w->session, ITER_NS);
		t1 = sal_now_ns();
		submit(&b, w);
		t2 = sal_now_ns();
		done_ns[i] = (uint32_t)(t1 - t0);
		total += t2 - t0;
		finish_copies(&b);
		if (!b.granted) { /* a turn was reserved in vain */
			b.now_ns += UINT64_C(10) * ITER_NS;
			sal_engine_tick(b.engine, b.now_ns);
		}
	}
	bench_fini(&b);
	if (i == 0)
		return -1;
	qsort(done_ns, i, sizeof(*done_ns), by_value);
	out->mean_ns = (double)total / (double)i;
	middle = i / 2;
	last = i - i / 100 - 1;
	out->p50_ns = done_ns[middle];
	out->p99_ns = done_ns[last];
	return 0;
}

static int print_decisions(size_t count)
{
	const struct sal_policy *const *p;

	(void)printf(
		"decision with %zu sessions, ns          roomy                    under pressure\n"
		"%-10s %22s %24s\n",
		count, "policy", "mean    p50    p99", "mean    p50    p99");
	for (p = sal_policies; *p; p++) {
		struct cost roomy, tight;

		if (measure(*p, count, false, &roomy) < 0 || measure(*p, count, true, &tight) < 0)
			return -1;
		(void)printf("%-10s %8.0f %6.0f %6.0f %10.0f %6.0f %6.0f\n", (*p)->name,
			     roomy.mean_ns, roomy.p50_ns, roomy.p99_ns, tight.mean_ns, tight.p50_ns,
			     tight.p99_ns);
	}
	return 0;
}

static int print_curve(void)
{
	static const size_t counts[] = { 10, 100, 1000, 3000, 10000 };
	const struct sal_policy *const *p;
	size_t i;

	(void)printf(
		"\nns per iteration (done + submit) by number of sessions, under pressure\n%-10s",
		"policy");
	for (i = 0; i < SAL_COUNT(counts); i++)
		(void)printf(" %8zu", counts[i]);
	(void)printf("\n");
	for (p = sal_policies; *p; p++) {
		(void)printf("%-10s", (*p)->name);
		for (i = 0; i < SAL_COUNT(counts); i++) {
			struct cost cost;

			if (measure(*p, counts[i], true, &cost) < 0)
				return -1;
			(void)printf(" %8.0f", cost.mean_ns);
		}
		(void)printf("\n");
	}
	return 0;
}

/* All sessions open, and close in another order: the cost of admission for each. */
static int print_churn(void)
{
	static const size_t counts[] = { 10, 100, 1000, 3000, 10000 };
	size_t i, k;

	(void)printf("\nns per session to open and close, fair, under pressure\n");
	for (i = 0; i < SAL_COUNT(counts); i++) {
		struct bench b;
		uint64_t t0 = sal_now_ns();
		size_t n = counts[i];

		if (bench_init(&b, &sal_policy_fair, n, true) < 0)
			return -1;
		for (k = 0; k < n; k++) {
			struct worker *w = &b.workers[k * 7 % n];

			if (b.granted == w) {
				b.granted = NULL;
				sal_engine_done(b.engine, b.now_ns, w->session, ITER_NS);
			}
			sal_engine_close(b.engine, b.now_ns, w->session);
			finish_copies(&b);
		}
		(void)printf("%8zu %8.0f\n", n, (double)(sal_now_ns() - t0) / (double)n);
		bench_fini(&b);
	}
	return 0;
}

static int print_simulator(void)
{
	struct sim_job jobs[300];
	struct sim_workload workload = { .jobs = jobs, .count = 300 };
	struct sim_options options = { .capacity_bytes = 16384 * MIB };
	const struct sal_policy *const *p;
	size_t i;

	sal_tuning_default(&options.tuning);
	for (i = 0; i < workload.count; i++)
		jobs[i] = (struct sim_job){
			.name = "job",
			.submit_ns = i * 1000000000u,
			.iterations = 5000,
			.iter_ns = 1000000 + i * 10000,
			.last_iter_ns = 1000000 + i * 10000,
			.needs = { (64 + i) * MIB, (1024 + i * 4) * MIB },
			.util = 1,
			.weight_milli = 1000,
			.priority = 20,
		};
	(void)printf("\nsimulator, 300 jobs of 5000 iterations: iterations per second\n");
	for (p = sal_policies; *p; p++) {
		struct sim_result result;
		uint64_t t0 = sal_now_ns();

		if (sim_run(&workload, *p, &options, &result, NULL) < 0)
			return -1;
		(void)printf("%-10s %8.2f million\n", (*p)->name,
			     (double)result.iterations * 1e3 / (double)(sal_now_ns() - t0));
		sim_result_fini(&result);
	}
	return 0;
}

int main(void)
{
	if (print_decisions(1000) < 0 || print_curve() < 0 || print_churn() < 0 ||
	    print_simulator() < 0) {
		(void)fprintf(stderr, "salus-bench-core: an engine failed\n");
		return 1;
	}
	return 0;
}
