/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_view - everything there is to see: the device, its lanes, the sessions.
 */
#include "service/admin.h"

#include <unistd.h>

#include "core/lane.h"

json_t *svc_answer_ping(struct svc_question *q)
{
	struct svc_server *server = q->server;
	struct sal_text platform = server->ops->facts(server->device)->platform_name;
	const char *policy;

	svc_lock(server);
	policy = sal_engine_policy(server->engine)->name;
	svc_unlock(server);
	return json_pack("{s:b, s:s, s:i, s:s%, s:s, s:f, s:s}", "ok", 1, "version", SALUS_VERSION,
			 "pid", (int)getpid(), "platform", platform.at, platform.size, "policy",
			 policy, "uptime_s", svc_seconds(svc_now_ns() - server->start_ns), "log",
			 server->options.log_path ? server->options.log_path : "");
}

const char *svc_state_name(const struct sal_session *core)
{
	if (core->refused)
		return "refused";
	if (core->closing)
		return "closing";
	if (core->running)
		return "running";
	if (core->place == SAL_PAGING_OUT)
		return "paging out";
	if (core->place == SAL_PAGING_IN)
		return "paging in";
	if (core->paused)
		return "paused";
	if (core->in_waiting)
		return "waiting";
	if (core->place == SAL_OUTSIDE && core->admitted)
		return "paged";
	return TAILQ_EMPTY(&core->queue) ? "idle" : "ready";
}

/* --- sessions -------------------------------------------------------------------------------------------- */

static json_t *describe_memory(const struct svc_session *s)
{
	const struct sal_session *core = s->core;
	uint64_t ephem_bytes = core->ephem_bytes > s->temp_bytes ? core->ephem_bytes
								 : s->temp_bytes;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "persist_bytes",
			 (json_int_t)s->live_bytes, "held_bytes", (json_int_t)core->held_bytes,
			 "paged_bytes", (json_int_t)core->paged_bytes, "ephem_bytes",
			 (json_int_t)ephem_bytes, "limit_bytes", (json_int_t)core->job.limit_bytes,
			 "programs", (json_int_t)s->programs.count, "buffers",
			 (json_int_t)s->buffers.count);
}

json_t *svc_describe_job(const struct sal_session *core)
{
	return json_pack("{s:f, s:I, s:s, s:f}", "weight", sal_session_weight(core) / 1000.0,
			 "priority", (json_int_t)core->job.priority, "kind",
			 core->job.kind == SAL_INFERENCE ? "inference" : "training", "total_s",
			 svc_seconds(core->job.total_ns));
}

static json_t *describe_session(const struct svc_session *s, uint64_t now_ns)
{
	const struct sal_session *core = s->core;
	const struct svc_execution *x;
	json_int_t queued = 0;
	double idle_s = 0;
	json_t *session;

	TAILQ_FOREACH(x, &s->executions, link)
		queued += !svc_execution_has_started(x);
	if (!sal_session_has_work(core) && now_ns > core->idle_since_ns)
		idle_s = svc_seconds(now_ns - core->idle_since_ns);
	session = json_pack("{s:I, s:o, s:i, s:i, s:s, s:b, s:i, s:I, s:f, s:f, s:I, s:f, s:f}",
			    "id", (json_int_t)s->id, "name", svc_json_text(s->name), "pid",
			    (int)s->pid, "uid", (int)s->uid, "state", svc_state_name(core),
			    "paused", (int)core->paused, "lane",
			    core->lane ? (int)core->lane->index : -1, "iterations",
			    (json_int_t)core->done_iterations, "used_s", svc_seconds(core->used_ns),
			    "waited_s", svc_seconds(core->waited_ns), "queued", queued, "age_s",
			    svc_seconds(now_ns - s->open_ns), "idle_s", idle_s);
	(void)json_object_update_new(session, describe_memory(s));
	(void)json_object_update_new(session, svc_describe_job(core));
	return session;
}

static json_t *describe_sessions(const struct svc_server *server, uint64_t now_ns)
{
	json_t *sessions = json_array();
	const struct svc_session *s;

	TAILQ_FOREACH(s, &server->sessions, link)
		(void)json_array_append_new(sessions, describe_session(s, now_ns));
	return sessions;
}

/* --- lanes and the device -------------------------------------------------------------------------------- */

static json_t *describe_lane(const struct svc_server *server, const struct sal_lane *lane)
{
	const struct svc_lane *own = &server->lanes[lane->index];
	const struct svc_session *s;
	json_t *ids = json_array();

	TAILQ_FOREACH(s, &server->sessions, link)
		if (s->core->lane == lane)
			(void)json_array_append_new(ids, json_integer((json_int_t)s->id));
	return json_pack("{s:i, s:I, s:I, s:o, s:o, s:f, s:I}", "index", (int)lane->index,
			 "at_bytes", (json_int_t)lane->at, "bytes",
			 (json_int_t)sal_engine_memory(server->engine)->lane_bytes[lane->index],
			 "sessions", ids, "running",
			 lane->running ? json_integer((json_int_t)lane->running->id) : json_null(),
			 "busy_s", svc_seconds(own->busy_ns), "iterations",
			 (json_int_t)own->iterations);
}

static json_t *describe_lanes(const struct svc_server *server)
{
	json_t *lanes = json_array();
	uint32_t i;

	for (i = 0; i < SAL_LANES_MAX; i++) {
		const struct sal_lane *lane = sal_engine_lane(server->engine, i);

		if (lane->open)
			(void)json_array_append_new(lanes, describe_lane(server, lane));
	}
	return lanes;
}

static json_t *describe_device(const struct svc_server *server, uint64_t now_ns)
{
	struct sal_text platform = server->ops->facts(server->device)->platform_name;
	const struct sal_memory *memory = sal_engine_memory(server->engine);
	uint64_t busy_ns = 0, iterations = 0;
	uint32_t i;

	for (i = 0; i < SAL_LANES_MAX; i++) {
		busy_ns += server->lanes[i].busy_ns;
		iterations += server->lanes[i].iterations;
	}
	return json_pack("{s:s%, s:I, s:I, s:I, s:f, s:I, s:f, s:f, s:s, s:i}", "platform",
			 platform.at, platform.size, "capacity_bytes",
			 (json_int_t)memory->capacity_bytes, "persist_bytes",
			 (json_int_t)memory->persist_bytes, "lane_sum_bytes",
			 (json_int_t)memory->lane_sum_bytes, "busy_s", svc_seconds(busy_ns),
			 "iterations", (json_int_t)iterations, "now_s", svc_seconds(now_ns),
			 "uptime_s", svc_seconds(now_ns - server->start_ns), "policy",
			 sal_engine_policy(server->engine)->name, "lane_limit",
			 (int)sal_engine_lane_limit(server->engine));
}

json_t *svc_answer_ps(struct svc_question *q)
{
	struct svc_server *server = q->server;
	struct sal_compile_stats stats;
	json_t *sessions, *lanes, *device;
	const char *policy;
	uint64_t now_ns;

	svc_lock(server);
	now_ns = svc_now_ns();
	sessions = describe_sessions(server, now_ns);
	lanes = describe_lanes(server);
	device = describe_device(server, now_ns);
	policy = sal_engine_policy(server->engine)->name;
	svc_unlock(server);
	sal_compile_stats(server->pool, &stats);
	return json_pack("{s:b, s:o, s:o, s:o, s:s, s:{s:I, s:I, s:I, s:I}}", "ok", 1, "device",
			 device, "lanes", lanes, "sessions", sessions, "policy", policy, "programs",
			 "compiled", (json_int_t)stats.compiled, "memory_hits",
			 (json_int_t)stats.memory_hits, "disk_hits", (json_int_t)stats.disk_hits,
			 "failed", (json_int_t)stats.failed);
}
