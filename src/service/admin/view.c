/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view - the state of the device, its lanes and the sessions.
 *
 * The answer copies numbers under server->lock, a few sessions at a time. Then it makes the text
 * without the lock. So with many sessions the numbers are not all of the same moment.
 */
#include "service/admin/admin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compile/pool/pool.h"
#include "core/engine.h"
#include "heap/heap.h"
#include "service/admin/walk.h"
#include "service/client/session.h"
#include "service/run/closing.h"
#include "service/run/dispatch.h"
#include "service/server.h"

/* A copy of a session's numbers. */
struct session_view {
	uint64_t id, open_ns, idle_ns, used_ns, waited_ns, iterations;
	uint64_t live_bytes, held_bytes, paged_bytes, ephem_bytes, framework_bytes, real_bytes;
	uint64_t programs, buffers, queued;
	char name[SAL_NAME_BYTES];
	pid_t pid;
	uid_t uid;
	const char *state; /* a literal */
	char program[64]; /* name of the running program; may be cut */
	bool paused;
	int lane; /* -1: none */
	uint32_t tier, weight_milli;
	struct sal_job job;
};

struct lane_view {
	bool is_open, is_running;
	uint64_t at, bytes, running, busy_ns, iterations;
};

/* All copied numbers, and when they were copied. */
struct view {
	const struct svc_server *server; /* borrowed */
	uint64_t now_ns;
	struct session_view *sessions; /* owned */
	size_t session_count;
	struct lane_view lanes[SAL_LANES_MAX];
	uint64_t capacity_bytes, persist_bytes, lane_sum_bytes, busy_ns, iterations;
	const char *policy; /* a literal */
	uint32_t lane_limit;
	struct sal_gain_view gain;
};

json_t *svc_answer_ping(struct svc_question *q)
{
	struct svc_server *server = q->server;
	struct sal_text platform = server->ops->facts(server->device)->platform_name;
	const char *policy;

	svc_lock(server);
	policy = sal_policy_name(sal_engine_policy(server->engine));
	svc_unlock(server);
	return json_pack("{s:b, s:s, s:i, s:s%, s:s, s:f, s:s}", "ok", 1, "version", SALUS_VERSION,
			 "pid", (int)getpid(), "platform", platform.at, platform.size, "policy",
			 policy, "uptime_s", svc_seconds(svc_now_ns() - server->start_ns), "log",
			 server->options.log_path ? server->options.log_path : "");
}

const char *svc_state_name(const struct svc_session *s)
{
	static const char *const names[] = {
		[SAL_STATE_REFUSED] = "refused",       [SAL_STATE_RUNNING] = "running",
		[SAL_STATE_PAGING_OUT] = "paging out", [SAL_STATE_PAGING_IN] = "paging in",
		[SAL_STATE_PAUSED] = "paused",	       [SAL_STATE_WAITING] = "waiting",
		[SAL_STATE_PAGED] = "paged",	       [SAL_STATE_IDLE] = "idle",
		[SAL_STATE_READY] = "ready",
	};
	struct sal_session_view core;

	if (s->state != SVC_OPEN)
		return "closing";
	sal_engine_view(s->server->engine, s->core, &core);
	return names[core.state];
}

static void copy_memory(const struct svc_session *s, const struct sal_session_view *core,
			struct session_view *v)
{
	v->live_bytes = s->live_bytes;
	v->held_bytes = core->held_bytes;
	v->paged_bytes = core->paged_bytes;
	v->ephem_bytes = core->ephem_bytes > s->temp_bytes ? core->ephem_bytes : s->temp_bytes;
	v->framework_bytes = s->real.framework_bytes;
	v->real_bytes = sal_meter_bytes(s->real.meter);
	v->programs = s->programs.count;
	v->buffers = s->buffers.count;
}

static void copy_program(const struct svc_execution *x, struct session_view *v)
{
	struct sal_text name = x->program->shared->facts->name;
	size_t size = name.size < sizeof(v->program) ? name.size : sizeof(v->program) - 1;

	if (size > 0)
		memcpy(v->program, name.at, size);
}

static void copy_session(struct view *view, const struct svc_session *s)
{
	struct session_view *v = &view->sessions[view->session_count++];
	const struct svc_execution *x = svc_session_running(s);
	struct sal_session_view core;

	sal_engine_view(s->server->engine, s->core, &core);
	*v = (struct session_view){
		.id = s->id,
		.open_ns = s->open_ns,
		.used_ns = core.used_ns,
		.waited_ns = core.waited_ns,
		.iterations = core.done_iterations,
		.pid = s->pid,
		.uid = s->uid,
		.state = svc_state_name(s),
		.paused = core.paused,
		.lane = core.lane == SAL_NO_LANE ? -1 : (int)core.lane,
		.tier = s->tier,
		.weight_milli = core.weight_milli,
		.job = core.job,
	};
	memcpy(v->name, s->name, sizeof(v->name));
	copy_memory(s, &core, v);
	v->queued = s->queued_count;
	if (x && x->program)
		copy_program(x, v);
	if (!core.has_work && view->now_ns > core.idle_since_ns)
		v->idle_ns = view->now_ns - core.idle_since_ns;
}

static void copy_lane(const struct svc_server *server, uint32_t index, struct lane_view *v)
{
	struct sal_lane_view lane;

	sal_engine_lane_view(server->engine, index, &lane);
	v->is_open = lane.open;
	v->at = lane.at;
	v->bytes = lane.bytes;
	v->is_running = lane.running;
	v->running = lane.running ? sal_session_id(lane.running) : 0;
	v->busy_ns = server->lanes[index].busy_ns;
	v->iterations = server->lanes[index].iterations;
}

static void copy_device(struct view *view)
{
	const struct sal_engine *engine = view->server->engine;
	const struct sal_memory *memory = sal_engine_memory(engine);
	uint32_t i;

	view->capacity_bytes = memory->capacity_bytes;
	view->persist_bytes = memory->persist_bytes;
	view->lane_sum_bytes = memory->lane_sum_bytes;
	view->policy = sal_policy_name(sal_engine_policy(engine));
	view->lane_limit = sal_engine_lane_limit(engine);
	sal_engine_gain_view(engine, &view->gain);
	for (i = 0; i < SAL_LANES_MAX; i++) {
		copy_lane(view->server, i, &view->lanes[i]);
		view->busy_ns += view->lanes[i].busy_ns;
		view->iterations += view->lanes[i].iterations;
	}
}

static void copy(void *ctx, const struct svc_session *s)
{
	if (s)
		copy_session(ctx, s);
	else
		copy_device(ctx);
}

static int copy_all(struct svc_server *server, struct view *view, struct sal_err *err)
{
	struct svc_walk walk = { .server = server };

	*view = (struct view){ .server = server, .now_ns = svc_now_ns() };
	do {
		struct session_view *more = reallocarray(view->sessions,
							 view->session_count + SVC_WALK_SESSIONS,
							 sizeof(*view->sessions));

		if (!more) {
			svc_walk_end(&walk);
			return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
		}
		view->sessions = more;
		/* Get the pages from the kernel before taking the lock. */
		memset(more + view->session_count, 0, SVC_WALK_SESSIONS * sizeof(*more));
	} while (svc_walk_on(&walk, copy, view));
	return SAL_OK;
}

static json_t *describe_memory(const struct session_view *v)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "persist_bytes",
			 (json_int_t)v->live_bytes, "framework_bytes",
			 (json_int_t)v->framework_bytes, "held_bytes", (json_int_t)v->held_bytes,
			 "paged_bytes", (json_int_t)v->paged_bytes, "ephem_bytes",
			 (json_int_t)v->ephem_bytes, "real_bytes", (json_int_t)v->real_bytes,
			 "limit_bytes", (json_int_t)v->job.limit_bytes, "programs",
			 (json_int_t)v->programs, "buffers", (json_int_t)v->buffers);
}

json_t *svc_describe_job(const struct sal_job *job, uint32_t weight_milli)
{
	bool is_inference = job->kind == SAL_INFERENCE;

	return json_pack("{s:f, s:I, s:s, s:b, s:f, s:o}", "weight", weight_milli / 1000.0,
			 "priority", (json_int_t)job->priority, "kind",
			 is_inference ? "inference" : "training", "kind_found",
			 is_inference && job->kind_undeclared, "total_s",
			 svc_seconds(job->total_ns), "deadline_s",
			 job->deadline_ns ? json_real(svc_seconds(job->deadline_ns)) : json_null());
}

static json_t *describe_session(const struct session_view *v, uint64_t now_ns)
{
	uint64_t age_ns = now_ns > v->open_ns ? now_ns - v->open_ns : 0;
	json_t *session =
		json_pack("{s:I, s:o, s:i, s:i, s:s, s:b, s:i, s:i, s:I, s:f, s:f, s:I, s:f, s:f}",
			  "id", (json_int_t)v->id, "name", svc_json_text(v->name), "pid",
			  (int)v->pid, "uid", (int)v->uid, "state", v->state, "paused",
			  (int)v->paused, "lane", v->lane, "tier", (int)v->tier, "iterations",
			  (json_int_t)v->iterations, "used_s", svc_seconds(v->used_ns), "waited_s",
			  svc_seconds(v->waited_ns), "queued", (json_int_t)v->queued, "age_s",
			  svc_seconds(age_ns), "idle_s", svc_seconds(v->idle_ns));

	(void)json_object_set_new(session, "program",
				  v->program[0] ? svc_json_text(v->program) : json_null());
	(void)json_object_update_new(session, describe_memory(v));
	(void)json_object_update_new(session, svc_describe_job(&v->job, v->weight_milli));
	return session;
}

static json_t *describe_sessions(const struct view *view)
{
	json_t *sessions = json_array();
	size_t i;

	for (i = 0; i < view->session_count; i++)
		(void)json_array_append_new(sessions,
					    describe_session(&view->sessions[i], view->now_ns));
	return sessions;
}

/* The memory of this process is the device's memory. */
static bool is_measured(const struct svc_server *server)
{
	return sal_heap_is_on() && server->ops->facts(server->device)->is_host;
}

/* What is really in memory in the range of a lane; null: lanes have no ranges. */
static json_t *describe_range(const struct svc_server *server, uint32_t lane)
{
	struct sal_heap_lane range = sal_heap_lane(lane);

	if (!is_measured(server))
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I}", "resident_bytes", (json_int_t)range.resident,
			 "extent_bytes", (json_int_t)range.extent, "used_bytes",
			 (json_int_t)range.used, "lasting_bytes", (json_int_t)range.lasting);
}

static json_t *describe_lane(const struct view *view, uint32_t index)
{
	const struct lane_view *v = &view->lanes[index];
	json_t *ids = json_array();
	size_t i;

	for (i = 0; i < view->session_count; i++)
		if (view->sessions[i].lane == (int)index)
			(void)json_array_append_new(ids,
						    json_integer((json_int_t)view->sessions[i].id));
	return json_pack("{s:i, s:I, s:I, s:o, s:o, s:f, s:I, s:o}", "index", (int)index,
			 "at_bytes", (json_int_t)v->at, "bytes", (json_int_t)v->bytes, "sessions",
			 ids, "running",
			 v->is_running ? json_integer((json_int_t)v->running) : json_null(),
			 "busy_s", svc_seconds(v->busy_ns), "iterations", (json_int_t)v->iterations,
			 "real", describe_range(view->server, index));
}

static json_t *describe_lanes(const struct view *view)
{
	json_t *lanes = json_array();
	uint32_t i;

	for (i = 0; i < SAL_LANES_MAX; i++)
		if (view->lanes[i].is_open)
			(void)json_array_append_new(lanes, describe_lane(view, i));
	return lanes;
}

/* What the lanes gain; null: not known yet. */
static json_t *describe_gain(const struct sal_gain_view *gain)
{
	if (gain->lanes_milli == 0)
		return json_null();
	return json_pack("{s:f, s:f}", "lanes", gain->lanes_milli / 1000.0, "rate",
			 gain->rate_milli / 1000.0);
}

/* The memory that is really there, on a host device; null: nobody measures it. */
static json_t *describe_real(const struct svc_server *server)
{
	struct sal_heap_view heap = sal_heap_view();

	if (!is_measured(server))
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "sessions_bytes",
			 (json_int_t)heap.metered, "arena_bytes",
			 (json_int_t)atomic_load(&server->arena_bytes), "spare_bytes",
			 (json_int_t)heap.warm, "other_bytes", (json_int_t)heap.own, "peak_bytes",
			 (json_int_t)heap.metered_peak, "exposed_bytes", (json_int_t)heap.exposed);
}

static json_t *describe_device(const struct svc_server *server, const struct view *view)
{
	struct sal_text platform = server->ops->facts(server->device)->platform_name;

	return json_pack("{s:s%, s:I, s:I, s:I, s:f, s:I, s:f, s:f, s:s, s:i, s:o, s:o}",
			 "platform", platform.at, platform.size, "capacity_bytes",
			 (json_int_t)view->capacity_bytes, "persist_bytes",
			 (json_int_t)view->persist_bytes, "lane_sum_bytes",
			 (json_int_t)view->lane_sum_bytes, "busy_s", svc_seconds(view->busy_ns),
			 "iterations", (json_int_t)view->iterations, "now_s",
			 svc_seconds(view->now_ns), "uptime_s",
			 svc_seconds(view->now_ns - server->start_ns), "policy", view->policy,
			 "lane_limit", (int)view->lane_limit, "gain", describe_gain(&view->gain),
			 "real", describe_real(server));
}

static json_t *describe_programs(const struct sal_compile_stats *stats)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "compiled",
			 (json_int_t)stats->compiled, "memory_hits", (json_int_t)stats->memory_hits,
			 "disk_hits", (json_int_t)stats->disk_hits, "failed",
			 (json_int_t)stats->failed, "running", (json_int_t)stats->running,
			 "abandoned", (json_int_t)stats->abandoned, "over_limit",
			 (json_int_t)stats->over_limit);
}

json_t *svc_answer_ps(struct svc_question *q)
{
	struct svc_server *server = q->server;
	struct sal_compile_stats stats;
	struct view view;
	json_t *reply = NULL;

	if (copy_all(server, &view, &q->err) >= 0) {
		sal_compile_stats(server->pool, &stats);
		reply = json_pack("{s:b, s:o, s:o, s:o, s:s, s:o}", "ok", 1, "device",
				  describe_device(server, &view), "lanes", describe_lanes(&view),
				  "sessions", describe_sessions(&view), "policy", view.policy,
				  "programs", describe_programs(&stats));
	}
	free(view.sessions);
	return reply;
}
