/* SPDX-License-Identifier: Apache-2.0 */
#include "service/real/real.h"

#include <inttypes.h>

#include "base/facts.h"
#include "base/log/log.h"
#include "core/engine.h"
#include "heap/heap.h"
#include "heap/pages.h"
#include "service/client/session.h"
#include "service/memory/buffer.h"
#include "service/memory/program.h"
#include "service/real/margin.h"
#include "service/run/dispatch.h"
#include "service/server.h"

/* Warm memory beyond that of the lanes, for whatever else comes and goes. */
#define SPARE_BYTES (UINT64_C(16) << 20)
/* When two iterations of a lane meet, both have their scratch. */
#define MEETING 2
/* Clients submit iterations ahead, so several generations of their outputs come and go. */
#define GENERATIONS 4
/* How slowly a lane forgets that an iteration made large outputs. */
#define FORGETS 16
/* What iterations take differs a little from run to run: lanes grow in such steps. */
#define STEP_BYTES (UINT64_C(256) << 10)

static bool is_measured(const struct svc_server *server)
{
	return sal_heap_is_on() && server->ops->facts(server->device)->is_host;
}

void svc_real_init(struct svc_real *r, const struct svc_server *server)
{
	*r = (struct svc_real){ .meter = is_measured(server) ? sal_meter_open() : SAL_NO_METER };
}

void svc_real_fini(struct svc_real *r)
{
	sal_heap_leave(r->meter);
	sal_meter_close(r->meter);
}

/* How many results may be read in place; 0 is "no limit". */
static uint64_t limit_of(const struct svc_server *server, enum svc_scope scope)
{
	uint64_t max = server->options.limits.max[scope][SVC_EXPOSED];

	return max ? max : UINT64_MAX;
}

void svc_real_open(struct svc_server *server)
{
	svc_margins_init(&server->margins);
	if (!is_measured(server))
		return;
	sal_heap_limit(server->options.memory_bytes);
	sal_heap_expose_limit(limit_of(server, SVC_JOB), limit_of(server, SVC_DAEMON));
}

bool svc_real_keep(struct svc_server *server)
{
	const struct sal_memory *memory = sal_engine_memory(server->engine);
	uint64_t keep = MEETING * memory->lane_sum_bytes + SPARE_BYTES;
	uint64_t rest = memory->open_mask | server->kept_mask;
	bool has_more = false;

	server->kept_mask = memory->open_mask;
	for (; rest; rest &= rest - 1) {
		uint32_t lane = (uint32_t)__builtin_ctzll(rest);

		if (memory->open_mask >> lane & 1)
			keep += GENERATIONS * server->lanes[lane].grow_bytes;
		sal_heap_keep_lane(lane, memory->lane_bytes[lane], &has_more);
	}
	/* Without lanes nobody needs memory soon. */
	sal_heap_keep(memory->open_mask ? keep : 0);
	return has_more;
}

static uint64_t positive(int64_t bytes)
{
	return bytes > 0 ? (uint64_t)bytes : 0;
}

/* The temporary bytes that the program says, on all its devices. */
static uint64_t temp_bytes(const struct svc_execution *x)
{
	return positive(x->shared->facts->memory.temp) * x->list_count;
}

void svc_real_expect(struct svc_execution *x)
{
	const struct svc_shared_program *p = x->shared;

	x->iteration.needs.ephem_bytes = temp_bytes(x);
	x->iteration.margin_bytes = 0;
	if (!x->session->real.meter || p->pace.scratch_bytes > 0)
		return;
	x->iteration.margin_bytes =
		svc_margin_guess(&x->session->server->margins, p->kinds, p->facts) * x->list_count;
	x->iteration.needs.ephem_bytes += x->iteration.margin_bytes;
}

/* Smaller buffers are not in the heap. */
static uint64_t counted(uint64_t bytes)
{
	return bytes >= SAL_BLOCK_MIN ? bytes : 0;
}

static uint32_t pages_of(uint64_t bytes)
{
	return (uint32_t)((bytes + SAL_PAGE_BYTES - 1) / SAL_PAGE_BYTES);
}

void svc_real_count(struct svc_session *s, uint64_t bytes, bool comes)
{
	uint64_t *sum = &s->real.large_bytes;

	*sum = comes ? *sum + counted(bytes) : *sum - counted(bytes);
}

/* The large outputs of the iteration that do not take over a donated argument. */
static uint64_t made_bytes(const struct svc_execution *x)
{
	uint64_t made = 0, taken = 0;
	size_t i;

	for (i = 0; i < x->output_count; i++)
		made += counted(x->outputs[i]->bytes);
	for (i = 0; i < x->donated_count; i++)
		taken += counted(x->args[x->donated[i]]->bytes);
	return made > taken ? made - taken : 0;
}

/* The heap must know what the iteration is going to leave. */
static void list_outputs(const struct svc_execution *x, struct sal_lasting_outputs *outputs)
{
	size_t i;

	*outputs = (struct sal_lasting_outputs){ 0 };
	for (i = 0; i < x->output_count; i++)
		if (counted(x->outputs[i]->bytes))
			sal_lasting_add(outputs, pages_of(x->outputs[i]->bytes));
	for (i = 0; i < x->donated_count; i++)
		if (counted(x->args[x->donated[i]]->bytes))
			sal_lasting_subtract(outputs, pages_of(x->args[x->donated[i]]->bytes));
}

void svc_real_begin(struct svc_execution *x)
{
	uint32_t meter = x->session->real.meter;
	struct sal_lasting_outputs outputs;

	x->real.made_bytes = made_bytes(x);
	if (!meter)
		return;
	list_outputs(x, &outputs);
	if (x->is_nested) {
		sal_heap_begin_nested(meter, &outputs);
		return;
	}
	sal_meter_begin(meter);
	sal_heap_begin(meter, x->lane, &outputs);
}

void svc_real_end(struct svc_execution *x)
{
	uint32_t meter = x->session->real.meter;
	struct sal_meter_run run;
	uint64_t all;

	if (x->is_nested || !meter)
		return;
	sal_heap_end(meter);
	run = sal_meter_run(meter);
	all = sal_meter_bytes(meter);
	x->real.peak_bytes = run.peak_bytes;
	x->real.older_bytes = all > run.left_bytes ? all - run.left_bytes : 0;
}

static void learn_framework(struct svc_real *r, const struct svc_real_run *run)
{
	uint64_t buffers = r->large_bytes > run->made_bytes ? r->large_bytes - run->made_bytes : 0;
	uint64_t least = UINT64_MAX;
	size_t i;

	r->seen_bytes[r->runs++ % SVC_REAL_RUNS] =
		run->older_bytes > buffers ? run->older_bytes - buffers : 0;
	for (i = 0; i < SVC_REAL_RUNS; i++)
		least = r->seen_bytes[i] < least ? r->seen_bytes[i] : least;
	r->framework_bytes = least;
}

/* What the iteration took beside its outputs; at least what the program says. Never 0. */
static uint64_t took_bytes(const struct svc_execution *x, uint64_t temp)
{
	const struct svc_real_run *run = &x->real;
	uint64_t took = run->peak_bytes > run->made_bytes ? run->peak_bytes - run->made_bytes : 0;

	took = (took + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
	return took > temp ? took : temp + 1;
}

/*
 * Outputs that take over no donated argument often replace arrays of the iteration before. Those
 * are freed then: their memory waits for the next outputs.
 */
static void learn_growth(struct svc_lane *lane, uint64_t bytes)
{
	if (bytes >= lane->grow_bytes)
		lane->grow_bytes = bytes;
	else
		lane->grow_bytes -= (lane->grow_bytes - bytes) / FORGETS;
}

/* What the device said of an iteration of the program before. */
static void learn_told(struct svc_execution *x, uint64_t temp)
{
	uint64_t took = (x->shared->told_bytes + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;

	if (took <= temp)
		return;
	x->iteration.took_bytes = took;
	if (took > x->session->temp_bytes)
		x->session->temp_bytes = took;
}

void svc_real_learn(struct svc_execution *x)
{
	uint64_t temp = temp_bytes(x), took = took_bytes(x, temp);
	struct svc_session *s = x->session;

	learn_growth(&s->server->lanes[x->lane], x->real.made_bytes);
	if (x->code)
		return;
	if (!s->real.meter) {
		learn_told(x, temp);
		return;
	}
	learn_framework(&s->real, &x->real);
	x->iteration.took_bytes = took;
	if (took > s->temp_bytes)
		s->temp_bytes = took;
	if (x->shared->pace.scratch_bytes == 0)
		svc_margin_learn(&s->server->margins, x->shared->kinds, x->shared->facts,
				 (took - temp) / x->list_count);
	if (took > x->shared->pace.scratch_bytes)
		sal_log_debug("memory",
			      "program=%" PRIu64 " temp=%" PRIu64 " took=%" PRIu64
			      " margin=%" PRIu64 " framework=%" PRIu64,
			      x->shared->number, temp, took, x->iteration.margin_bytes,
			      s->real.framework_bytes);
}
