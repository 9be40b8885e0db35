/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin - answers to questions of people: one line of JSON for one line of JSON.
 */
#include "service/service.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "core/lane.h"

static json_t *refusal(const char *code, const char *text)
{
	return json_pack("{s:b, s:s, s:s}", "ok", 0, "code", code, "error", text);
}

static json_t *answer_ping(struct svc_server *server)
{
	struct sal_text platform = server->ops->facts(server->device)->platform_name;

	return json_pack("{s:b, s:s, s:i, s:s%, s:s, s:f, s:s}", "ok", 1, "version", SALUS_VERSION,
			 "pid", (int)getpid(), "platform", platform.at, platform.size, "policy",
			 sal_engine_policy(server->engine)->name, "uptime_s",
			 (double)(svc_now_ns() - server->start_ns) / 1e9, "log",
			 server->options.log_path ? server->options.log_path : "");
}

static const char *state_of(const struct sal_session *core)
{
	if (core->running)
		return "running";
	if (core->paused)
		return "paused";
	if (core->in_waiting)
		return "waiting";
	return TAILQ_EMPTY(&core->queue) ? "idle" : "ready";
}

static json_t *describe(const struct svc_session *s)
{
	const struct sal_session *core = s->core;
	const struct svc_execution *x;
	json_int_t queued = 0;
	json_t *name = json_string(s->name);

	TAILQ_FOREACH(x, &s->executions, link)
		queued += !x->started;
	if (!name) /* not UTF-8 */
		name = json_string("?");
	return json_pack(
		"{s:I, s:o, s:i, s:i, s:s, s:i, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:i, "
		"s:f}",
		"id", (json_int_t)s->id, "name", name, "pid", (int)s->pid, "uid", (int)s->uid,
		"state", state_of(core), "lane", core->lane ? (int)core->lane->index : -1,
		"iterations", (json_int_t)core->done_iterations, "used_s",
		(double)core->used_ns / 1e9, "queued", queued, "persist_bytes",
		(json_int_t)s->live_bytes, "ephem_bytes", (json_int_t)s->temp_bytes, "programs",
		(json_int_t)s->programs.count, "buffers", (json_int_t)s->buffers.count, "age_s",
		(double)(svc_now_ns() - s->open_ns) / 1e9, "weight",
		sal_session_weight(core) / 1000.0, "priority", (int)core->job.priority, "total_s",
		(double)core->job.total_ns / 1e9);
}

static json_t *answer_ps(struct svc_server *server)
{
	json_t *sessions = json_array();
	struct sal_compile_stats stats;
	const struct svc_session *s;

	(void)pthread_mutex_lock(&server->lock);
	TAILQ_FOREACH(s, &server->sessions, link)
		(void)json_array_append_new(sessions, describe(s));
	(void)pthread_mutex_unlock(&server->lock);
	sal_compile_stats(server->pool, &stats);
	return json_pack("{s:b, s:o, s:s, s:{s:I, s:I, s:I, s:I}}", "ok", 1, "sessions", sessions,
			 "policy", sal_engine_policy(server->engine)->name, "programs", "compiled",
			 (json_int_t)stats.compiled, "memory_hits", (json_int_t)stats.memory_hits,
			 "disk_hits", (json_int_t)stats.disk_hits, "failed",
			 (json_int_t)stats.failed);
}

static json_t *answer(struct svc_server *server, const char *line)
{
	json_t *question = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	const char *op = json_string_value(json_object_get(question, "op"));
	json_t *reply;

	if (!op)
		reply = refusal("INVALID_ARGUMENT", "a question is an object with an \"op\"");
	else if (strcmp(op, "ping") == 0)
		reply = answer_ping(server);
	else if (strcmp(op, "ps") == 0)
		reply = answer_ps(server);
	else if (strcmp(op, "trace") == 0)
		reply = svc_trace_answer(server);
	else
		reply = refusal("UNIMPLEMENTED", "salusd does not know that question");
	json_decref(question);
	return reply;
}

char *svc_admin_answer(struct svc_server *server, const char *line)
{
	json_t *reply = answer(server, line);
	char *text = json_dumps(reply, JSON_COMPACT);
	char *with_end = NULL;

	if (text) {
		size_t n = strlen(text);

		with_end = realloc(text, n + 2);
		if (with_end)
			memcpy(with_end + n, "\n", 2);
		else
			free(text);
	}
	json_decref(reply);
	return with_end;
}
