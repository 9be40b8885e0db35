/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execution - one iteration from its record to its end.
 *
 *     record --> submit --> (the engine) --> start --> the device --> report --> done list --> accounted
 *
 * The report goes to the client straight from the vendor's thread; the worker accounts for it a little
 * later and starts the next.
 */
#include "service/service.h"

#include <stdlib.h>
#include <string.h>

void svc_execution_free(struct svc_execution *x)
{
	struct svc_session *s = x->session;
	size_t i;

	for (i = 0; i < x->arg_count; i++)
		svc_buffer_unref(x->args[i]);
	for (i = 0; i < x->output_count; i++)
		svc_buffer_unref(x->outputs[i]);
	svc_program_unref(s->server, x->program);
	free(x->args);
	free(x->outputs);
	free(x->keep);
	free(x);
	svc_session_unref(s);
}

void svc_execution_submit(struct svc_execution *x)
{
	struct svc_session *s = x->session;

	x->iteration.id = x->request;
	x->iteration.expected_ns = x->program->mean_ns;
	if ((uint64_t)x->program->facts->memory.temp > s->temp_bytes)
		s->temp_bytes = (uint64_t)x->program->facts->memory.temp;
	TAILQ_INSERT_TAIL(&s->executions, x, link);
	s->waiting_count++;
	sal_engine_submit(s->server->engine, svc_now_ns(), s->core, &x->iteration);
}

/* Tell the client; from any thread. */
static void report(struct svc_execution *x, int code, const char *text)
{
	const char *why = text ? text : "";

	svc_outbox_done(&x->session->outbox, x->request, code < 0 ? -code : code, code ? why : NULL,
			code ? strnlen(why, SAL_INLINE_MAX) : 0);
}

/* From a thread of the vendor, or from within the call that started it. */
static void on_device_done(void *ctx, int code, const char *message)
{
	struct svc_execution *x = ctx;

	x->end_ns = svc_now_ns();
	report(x, code, message);
	svc_worker_push_done(x->session->server, x);
}

static void fail(struct svc_execution *x, int code, const char *text)
{
	size_t i;

	for (i = 0; i < x->output_count; i++)
		svc_buffer_fail(x->outputs[i], code, text);
	x->end_ns = svc_now_ns();
	report(x, code, text);
	svc_worker_push_done(x->session->server, x);
}

/* An argument that failed poisons what is computed from it. */
static const struct svc_buffer *find_failed(const struct svc_execution *x)
{
	size_t i;

	for (i = 0; i < x->arg_count; i++)
		if (!x->args[i]->device)
			return x->args[i];
	return NULL;
}

static int run_on_device(struct svc_execution *x, struct sal_buffer **outputs, struct sal_err *err)
{
	struct svc_server *server = x->session->server;
	struct sal_buffer **args = calloc(x->arg_count + 1, sizeof(struct sal_buffer *));
	struct sal_execution run = {
		.args = args,
		.arg_count = x->arg_count,
		.keep = x->keep,
		.keep_count = x->keep_count,
		.outputs = outputs,
		.output_count = x->output_count,
		.done = on_device_done,
		.done_ctx = x,
	};
	size_t i;
	int rc;

	if (!args)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "salusd: out of host memory");
	for (i = 0; i < x->arg_count; i++)
		args[i] = x->args[i]->device;
	rc = svc_program_load(server, x->program, err);
	if (rc >= 0) {
		x->start_ns = svc_now_ns();
		rc = server->ops->execute(x->program->loaded, &run, err);
	}
	free(args);
	return rc;
}

void svc_execution_start(struct svc_execution *x)
{
	const struct svc_buffer *failed = find_failed(x);
	struct sal_buffer **outputs;
	struct sal_err err = { 0 };
	size_t i;

	x->started = true;
	x->session->waiting_count--;
	x->session->server->running++;
	x->start_ns = svc_now_ns();
	if (x->session->dead) {
		fail(x, SAL_CANCELLED, "the session has ended");
		return;
	}
	if (failed) {
		fail(x, failed->code ? failed->code : SAL_INTERNAL,
		     failed->text ? failed->text : "an argument was never computed");
		return;
	}
	outputs = calloc(x->output_count + 1, sizeof(struct sal_buffer *));
	if (!outputs || run_on_device(x, outputs, &err) < 0) {
		fail(x, outputs ? err.code : SAL_RESOURCE_EXHAUSTED,
		     outputs ? err.text : "salusd: out of host memory");
		free(outputs);
		return;
	}
	for (i = 0; i < x->output_count; i++)
		svc_buffer_set(x->outputs[i], outputs[i]);
	free(outputs);
}
