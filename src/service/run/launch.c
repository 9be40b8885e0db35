/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch - the errand that starts an iteration: fetch program and arguments into the stream,
 * then make one vendor call.
 *
 * The end of an iteration has two halves, in any order. In one half the call returns and the
 * outputs get their memory. In the other half the vendor reports that the outputs are computed. A
 * vendor that computes inside the call reports before the call returns. The thread that does the
 * second half adds the execution to those that ended.
 */
#include "service/run/dispatch.h"

#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/sys/clock.h"
#include "core/view.h"
#include "service/client/call.h"
#include "service/client/session.h"
#include "service/memory/again.h"
#include "service/memory/buffer.h"
#include "service/memory/memory.h"
#include "service/memory/paging.h"
#include "service/memory/program.h"
#include "service/memory/stream.h"
#include "service/real/real.h"
#include "service/run/carrier.h"
#include "service/server.h"

/* The vendor computes inside a call that takes longer. A carrier makes such calls. */
#define SLOW_CALL_NS UINT64_C(1000000)
/* A slow call adds this to the program's slowness. A quick call subtracts 1. */
#define SLOW 8u
#define SLOWNESS_MAX 32u
/* Measure the CPU time of a program's first runs, then of every 16th, and of no short program. */
#define MEASURED_RUNS 8
#define MEASURED_EVERY 16
#define MEASURED_NS_MIN UINT64_C(200000)
/* After starting a longer iteration, the worker makes way for the threads that compute. */
#define LONG_NS UINT64_C(3000000)

uint64_t svc_execution_growth(const struct svc_execution *x)
{
	uint64_t made = 0, taken = 0;
	size_t i;

	for (i = 0; i < x->output_count; i++)
		made += x->outputs[i]->is_on_host ? 0 : svc_buffer_charge(x->outputs[i]);
	for (i = 0; i < x->donated_count; i++) {
		const struct svc_buffer *b = x->args[x->donated[i]];

		taken += b->is_on_host ? 0 : svc_buffer_charge(b);
	}
	return made > taken ? svc_memory_round(x->session->server, made - taken) : 0;
}

static struct svc_execution *execution_of(struct svc_errand *errand)
{
	return SAL_CONTAINER_OF(errand, struct svc_execution, errand);
}

/* An argument without contents; its failure becomes the failure of the outputs. NULL: none. */
static const struct svc_buffer *find_failed(const struct svc_execution *x)
{
	size_t i;

	for (i = 0; i < x->arg_count; i++)
		if (!x->args[i]->device && !x->args[i]->saved)
			return x->args[i];
	return NULL;
}

/* Are program and arguments in the stream? An argument without memory is not fetched. */
static bool is_all_there(const struct svc_execution *x)
{
	size_t i;

	if (!x->program->loaded || x->program->stream != x->stream)
		return false;
	for (i = 0; i < x->arg_count; i++) {
		const struct svc_buffer *b = x->args[i];

		if (b->saved || (b->device && b->stream != x->stream))
			return false;
	}
	return true;
}

/* The promise is fulfilled: the outputs have memory, or failed. */
static void fulfil_promise(struct svc_execution *x)
{
	x->session->promised_bytes -= x->iteration.grow_bytes;
}

static bool refuse(struct svc_execution *x, int code, const char *text) SVC_LOCKED
{
	fulfil_promise(x);
	svc_execution_fail(x, code, text);
	return false;
}

/* Nested iterations of the session must not move what this one uses. */
static void pin(struct svc_execution *x) SVC_LOCKED
{
	size_t i;

	x->is_pinning = true;
	(void)atomic_fetch_add(&x->program->pins, 1);
	for (i = 0; i < x->arg_count; i++)
		(void)atomic_fetch_add(&x->args[i]->pins, 1);
}

void svc_launch_unpin(struct svc_execution *x)
{
	size_t i;

	if (!x->is_pinning)
		return;
	x->is_pinning = false;
	(void)atomic_fetch_sub(&x->program->pins, 1);
	for (i = 0; i < x->arg_count; i++)
		(void)atomic_fetch_sub(&x->args[i]->pins, 1);
}

static bool begin(struct svc_errand *errand) SVC_LOCKED
{
	struct svc_execution *x = execution_of(errand);
	const struct svc_buffer *failed = find_failed(x);
	bool is_there = is_all_there(x);

	/* The program or an argument has left the stream: a carrier has to fetch it. */
	if (!is_there && errand->is_brief) {
		errand->is_brief = false;
		STAILQ_INSERT_HEAD(&x->session->errands, errand, link);
		return false;
	}
	if (x->session->state != SVC_OPEN)
		return refuse(x, SAL_CANCELLED, "the session has ended");
	if (failed)
		return refuse(x, failed->code ? failed->code : SAL_INTERNAL,
			      failed->text ? failed->text : "an argument was never computed");
	x->device_args = calloc(x->arg_count + 1, sizeof(struct sal_buffer *));
	x->device_outputs = calloc(x->output_count + 1, sizeof(struct sal_buffer *));
	if (!x->device_args || !x->device_outputs)
		return refuse(x, SAL_RESOURCE_EXHAUSTED, "salusd: out of host memory");
	svc_execution_move(x, is_there ? SVC_RUNNING : SVC_FETCHING);
	return true;
}

/* How long the processors have been busy with this stream, spread over all processors. */
static uint64_t read_busy_ns(const struct svc_execution *x)
{
	const struct svc_server *server = x->session->server;

	return server->ops->busy_ns(server->streams[x->stream].device) / server->cpus;
}

/* Why the execution failed: its Python's exception, which the vendor's message may cut. */
static char *copy_reason(const struct svc_execution *x, const char *message)
{
	return strndup(x->raised ? x->raised : message, SAL_TEXT_MAX);
}

/* Called by a vendor's thread, or from within the call that starts the execution. */
static void on_done(void *ctx, int code, const char *message)
{
	struct svc_execution *x = ctx;

	x->end_ns = svc_now_ns();
	svc_real_end(x);
	if (x->is_measured) {
		uint64_t busy_ns = read_busy_ns(x);

		x->busy_ns = busy_ns > x->busy_ns ? busy_ns - x->busy_ns : 0;
	}
	if (code) {
		x->code = code;
		x->text = copy_reason(x, message ? message : "");
	}
	if (svc_execution_half(x))
		svc_dispatch_report(x);
}

static int call_vendor(struct svc_execution *x, struct sal_execution *run, struct sal_err *err)
{
	struct svc_server *server = x->session->server;
	struct svc_again again = { 0 };
	int rc;

	do {
		x->start_ns = svc_now_ns();
		rc = svc_vendor(server)->execute(x->program->loaded, run, err);
	} while (svc_again(&again, x->session, rc));
	return rc;
}

static int execute(struct svc_execution *x, struct sal_err *err)
{
	struct sal_execution run = {
		.args = x->device_args,
		.arg_count = x->arg_count / x->list_count,
		.retained = x->retained,
		.retained_count = x->retained_count,
		.outputs = x->device_outputs,
		.output_count = x->output_count / x->list_count,
		.chip_count = x->list_count,
		.chip = x->chip,
		.is_quick = !x->errand.computes,
		.is_even = x->is_even,
		.is_measured = x->is_measured,
		.done = on_done,
		.done_ctx = x,
		.meter = x->session->real.meter,
		.call = x->calls ? svc_call_serve : NULL,
		.call_ctx = x,
	};
	uint64_t before_ns = x->is_long ? sal_thread_ns() : svc_now_ns();
	size_t i;
	int rc;

	for (i = 0; i < x->arg_count; i++)
		x->device_args[i] = x->args[i]->device;
	if (x->is_measured)
		x->busy_ns = read_busy_ns(x);
	atomic_store(&x->halves, 2);
	svc_stream_set_tier(x->session->server, x->stream, x->tier);
	svc_real_begin(x);
	svc_told_read(x);
	rc = call_vendor(x, &run, err);
	x->call_ns = (x->is_long ? sal_thread_ns() : svc_now_ns()) - before_ns;
	return rc;
}

/* Bring the program and the arguments into the iteration's stream. */
static int fetch(struct svc_execution *x, struct sal_err *err)
{
	int rc = svc_stream_open(x->session->server, x->stream, err);
	size_t i;

	if (rc >= 0)
		rc = svc_program_load(x->program, x->stream, err);
	for (i = 0; i < x->arg_count && rc >= 0; i++)
		rc = svc_buffer_bring(x->args[i], x->stream, err);
	return rc;
}

static void call(struct svc_errand *errand)
{
	struct svc_execution *x = execution_of(errand);
	struct sal_err err = { 0 };
	int rc = SAL_OK;

	if (atomic_load_explicit(&x->state, memory_order_relaxed) == SVC_FETCHING) {
		rc = fetch(x, &err);
		if (rc >= 0)
			svc_execution_move(x, SVC_RUNNING);
	}
	if (rc >= 0 && x->calls) {
		svc_lock(x->session->server);
		pin(x);
		svc_unlock(x->session->server);
	}
	if (rc >= 0)
		rc = execute(x, &err);
	if (rc < 0) {
		x->launch_code = err.code;
		free(x->text);
		x->text = copy_reason(x, err.text);
	}
}

/*
 * One slow call may be the machine's fault: after one quick call by a carrier the program is brief
 * again. After several slow calls that takes more quick calls.
 */
static void learn_slowness(struct svc_shared_program *p, uint64_t call_ns)
{
	if (call_ns > SLOW_CALL_NS)
		p->slowness = SLOWNESS_MAX < p->slowness + SLOW ? SLOWNESS_MAX : p->slowness + SLOW;
	else if (p->slowness > 0)
		p->slowness--;
}

static void settle_outputs(struct svc_execution *x) SVC_LOCKED
{
	size_t i;

	for (i = 0; i < x->donated_count; i++)
		svc_buffer_donate(x->args[x->donated[i]]);
	for (i = 0; i < x->output_count; i++) {
		x->outputs[i]->producer = x;
		svc_buffer_set(x->outputs[i], x->device_outputs[i], x->stream);
	}
}

static void settle(struct svc_errand *errand) SVC_LOCKED
{
	struct svc_execution *x = execution_of(errand);
	struct svc_session *s = x->session;

	fulfil_promise(x);
	svc_told_learn(x);
	if (x->launch_code) {
		char *why = x->text;

		x->text = NULL;
		svc_execution_fail(x, x->launch_code, why);
		free(why);
		return;
	}
	learn_slowness(x->program->shared, x->call_ns);
	s->server->worker.makes_way |= x->program->mean_ns > LONG_NS;
	settle_outputs(x);
	svc_memory_settle(s);
	if (svc_execution_half(x))
		svc_dispatch_push(x);
}

/* Reading the clocks of a stream's threads takes some microseconds: measure rarely. */
static bool is_worth_measuring(const struct svc_execution *x)
{
	const struct sal_pace *pace = &x->program->shared->pace;

	return x->session->server->has_tiers && x->is_long &&
	       (pace->alone_runs < MEASURED_RUNS || pace->runs % MEASURED_EVERY == 0);
}

/*
 * The vendor computes inside the call and so waits for Python there, if the program calls. The
 * worker makes such a call if Python is quick and nobody else needs the worker. Otherwise a carrier
 * makes the call: it can wait.
 */
static bool can_wait(const struct svc_execution *x) SVC_LOCKED
{
	const struct svc_session *s = x->session;

	return svc_calls_are_quick(s) &&
	       s->server->worker.attended_count <= s->attention.is_attended;
}

/*
 * In tier 1, a call in which the vendor computes waits for a thread of low priority: a carrier
 * makes such calls.
 */
void svc_launch_init(struct svc_execution *x)
{
	bool computes = !x->program->shared->is_asynchronous;

	x->is_long = x->program->mean_ns >= MEASURED_NS_MIN;
	x->is_even = !sal_engine_has_tiers(x->session->server->engine);
	x->is_measured = is_worth_measuring(x);
	x->errand = (struct svc_errand){
		.begin = begin,
		.call = call,
		.settle = settle,
		.is_brief = is_all_there(x) && x->program->mean_ns > 0 &&
			    x->program->shared->slowness < SLOW && !(x->tier > 0 && computes) &&
			    (!x->calls || !computes || can_wait(x)),
		.computes = computes,
		.lowers = x->tier > 0,
		.starts = true,
	};
}
