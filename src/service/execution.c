/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execution - one iteration from its record to its end.
 *
 *     record --> submit --> (the engine) --> start --> the device --> report --> done list --> accounted
 *                                              |          ^
 *                                              +- carrier-+   if its program or arguments are elsewhere
 *
 * The vendor's thread that reports the end takes the turn if the lock is free: it starts the next one and tells the
 * client, the client first if nothing waits. Otherwise it tells the client at once and leaves the rest to the worker.
 */
#include "service/service.h"

#include <stdlib.h>
#include <string.h>

/* They are computed: whoever wants to read them need not wait. */
static void finish_outputs(struct svc_execution *x)
{
	size_t i;

	for (i = 0; i < x->output_count; i++)
		x->outputs[i]->producer = NULL;
}

void svc_execution_release(struct svc_execution *x)
{
	size_t i;

	finish_outputs(x);
	for (i = 0; i < x->arg_count; i++)
		svc_buffer_unref(x->args[i]);
	for (i = 0; i < x->output_count; i++)
		svc_buffer_unref(x->outputs[i]);
	x->arg_count = x->output_count = 0;
}

void svc_execution_free(struct svc_execution *x)
{
	struct svc_session *s = x->session;

	svc_execution_release(x);
	svc_program_unref(s->server, x->program);
	free(x->args);
	free(x->outputs);
	free(x->keep);
	free(x->donated);
	free(x);
	svc_session_unref(s);
}

/* Device bytes that its outputs take beyond what they take over from arguments. */
static uint64_t growth(const struct svc_execution *x)
{
	uint64_t made = 0, taken = 0;
	size_t i;

	for (i = 0; i < x->output_count; i++)
		made += x->outputs[i]->bytes;
	for (i = 0; i < x->donated_count; i++)
		taken += x->args[x->donated[i]]->bytes;
	return made > taken ? svc_memory_round(x->session->server, made - taken) : 0;
}

void svc_execution_submit(struct svc_execution *x)
{
	struct svc_session *s = x->session;
	int64_t temp = x->program->shared->facts->memory.temp;

	x->iteration.id = x->request;
	x->iteration.expected_ns = x->program->mean_ns;
	x->iteration.needs.ephem_bytes = temp > 0 ? (uint64_t)temp : 0;
	x->iteration.grow_bytes = growth(x);
	if (x->iteration.needs.ephem_bytes > s->temp_bytes)
		s->temp_bytes = x->iteration.needs.ephem_bytes;
	TAILQ_INSERT_TAIL(&s->executions, x, link);
	s->waiting_count++;
	s->server->queued++;
	svc_news_watch(s->server);
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
	if (code) {
		report(x, code, message);
		x->is_told = true;
	}
	svc_turn_done(x);
}

void svc_execution_tell(struct svc_execution *x)
{
	if (!x->is_told)
		report(x, 0, NULL);
	x->is_told = true;
}

void svc_execution_serve(struct svc_execution *x)
{
	struct svc_waiter *w;

	finish_outputs(x);
	while ((w = STAILQ_FIRST(&x->readers))) {
		STAILQ_REMOVE_HEAD(&x->readers, link);
		w->go(w);
	}
}

static void fail_outputs(struct svc_execution *x, int code, const char *text)
{
	size_t i;

	for (i = 0; i < x->output_count; i++)
		svc_buffer_fail(x->outputs[i], code, text);
	report(x, code, text);
	x->is_told = true;
}

/* It was granted and cannot run. */
static void fail(struct svc_execution *x, int code, const char *text)
{
	fail_outputs(x, code, text);
	x->end_ns = svc_now_ns();
	svc_turn_done(x);
}

void svc_execution_refuse(struct svc_execution *x)
{
	struct svc_session *s = x->session;
	char text[1000];

	svc_memory_explain(s, &x->refusal, text, sizeof(text));
	TAILQ_REMOVE(&s->executions, x, link);
	s->waiting_count--;
	s->server->queued--;
	fail_outputs(x, SAL_RESOURCE_EXHAUSTED, text);
	svc_execution_release(x);
	svc_memory_settle(s);
	svc_execution_free(x);
}

/* An argument that failed poisons what is computed from it. */
static const struct svc_buffer *find_failed(const struct svc_execution *x)
{
	size_t i;

	for (i = 0; i < x->arg_count; i++)
		if (!x->args[i]->device && !x->args[i]->saved)
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
	x->start_ns = svc_now_ns();
	atomic_store(&x->launching, true);
	rc = server->ops->execute(x->program->loaded, &run, err);
	atomic_store(&x->launching, false);
	free(args);
	return rc;
}

/* What was promised to it is now there, or will never be. */
static void redeem(struct svc_execution *x)
{
	x->session->promised_bytes -= x->iteration.grow_bytes;
}

static void launch(struct svc_execution *x)
{
	struct sal_buffer **outputs = calloc(x->output_count + 1, sizeof(struct sal_buffer *));
	struct sal_err err = { 0 };
	size_t i;

	redeem(x);
	if (!outputs || run_on_device(x, outputs, &err) < 0) {
		fail(x, outputs ? err.code : SAL_RESOURCE_EXHAUSTED,
		     outputs ? err.text : "salusd: out of host memory");
		free(outputs);
		return;
	}
	for (i = 0; i < x->donated_count; i++)
		svc_buffer_donate(x->args[x->donated[i]]);
	for (i = 0; i < x->output_count; i++) {
		x->outputs[i]->producer = x;
		svc_buffer_set(x->outputs[i], outputs[i], x->lane);
	}
	free(outputs);
	svc_memory_settle(x->session);
}

/* On the carrier. */
static void run_fetch(struct svc_errand *errand)
{
	struct svc_execution *x =
		(struct svc_execution *)((char *)errand - offsetof(struct svc_execution, errand));
	struct svc_server *server = x->session->server;
	struct sal_err err = { 0 };
	int rc = svc_carrier_fetch(x, &err);

	(void)pthread_mutex_lock(&server->lock);
	x->start_ns = svc_now_ns();
	if (rc >= 0 && !x->session->dead) {
		launch(x);
	} else {
		redeem(x);
		fail(x, rc < 0 ? err.code : SAL_CANCELLED,
		     rc < 0 ? err.text : "the session has ended");
	}
	(void)svc_turn(server);
	(void)pthread_mutex_unlock(&server->lock);
	svc_worker_wake(server);
}

/* Its program and all its arguments are in its lane. */
static bool is_all_there(const struct svc_execution *x)
{
	size_t i;

	if (!x->program->loaded || x->program->lane != x->lane)
		return false;
	for (i = 0; i < x->arg_count; i++)
		if (x->args[i]->lane != x->lane || !svc_buffer_is_there(x->args[i]))
			return false;
	return true;
}

void svc_execution_start(struct svc_execution *x)
{
	struct svc_server *server = x->session->server;
	const struct svc_buffer *failed = find_failed(x);

	x->started = true;
	x->session->waiting_count--;
	server->queued--;
	x->start_ns = svc_now_ns();
	if (server->running++ == 0)
		svc_pause_end(&server->worker.pause, x->start_ns);
	if (x->session->dead) {
		redeem(x);
		fail(x, SAL_CANCELLED, "the session has ended");
	} else if (failed) {
		redeem(x);
		fail(x, failed->code ? failed->code : SAL_INTERNAL,
		     failed->text ? failed->text : "an argument was never computed");
	} else if (is_all_there(x)) {
		launch(x);
	} else {
		x->errand.run = run_fetch;
		svc_carrier_post(server, &x->errand);
	}
}
