/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits - all limits with their present use: the limits of the table in service/limits.c, and the
 * limits that are options.
 */
#include "service/admin/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "core/engine.h"
#include "service/client/session.h"
#include "service/ledger.h"
#include "service/server.h"

/* The job that uses most of a resource. */
struct most {
	uint64_t used;
	uint64_t id;
	char name[SAL_NAME_BYTES];
};

/* Under server->lock. */
static void find_most(struct svc_server *server, uint64_t now_ns, struct most most[SVC_RESOURCES])
{
	uint64_t used[SVC_RESOURCES];
	struct sal_session_view view;
	struct svc_session *s;
	int what;

	TAILQ_FOREACH(s, &server->sessions, link) {
		svc_account_usage(&s->account, now_ns, used);
		sal_engine_view(server->engine, s->core, &view);
		used[SVC_WEIGHT] = view.weight_milli;
		for (what = 0; what < SVC_RESOURCES; what++) {
			if (used[what] <= most[what].used)
				continue;
			most[what].used = used[what];
			most[what].id = s->id;
			memcpy(most[what].name, s->name, sizeof(most[what].name));
		}
	}
}

static const char *const units[] = {
	[SVC_UNIT_COUNT] = "count",
	[SVC_UNIT_BYTES] = "bytes",
	[SVC_UNIT_PER_S] = "per_s",
	[SVC_UNIT_MILLI] = "real",
};

static json_t *number(enum svc_unit unit, uint64_t value)
{
	if (unit == SVC_UNIT_MILLI)
		return json_real((double)value / 1000);
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* Name the owner of the use: the user, the job, or "" for all jobs. */
static void name_owner(enum svc_scope scope, const struct svc_usage *usage, const struct most *most,
		       char *out, size_t size)
{
	out[0] = '\0';
	if (scope == SVC_USER && usage->user > 0)
		(void)snprintf(out, size, "user %u", (unsigned)usage->uid);
	if (scope == SVC_JOB && most->used > 0)
		(void)snprintf(out, size, "%s (id %" PRIu64 ")", most->name, most->id);
}

static json_t *describe_limit(struct svc_server *server, enum svc_scope scope,
			      enum svc_resource what, const struct svc_usage *usage,
			      const struct most *most)
{
	char name[SVC_LIMIT_NAME], option[SVC_LIMIT_NAME + 10], owner[SAL_NAME_BYTES + 40];
	const uint64_t used[SVC_SCOPES] = { most->used, usage->user, usage->all };
	const enum svc_unit unit = svc_limit_unit(what);
	uint64_t limit = server->options.limits.max[scope][what];

	(void)svc_limit_name(scope, what, name, sizeof(name));
	(void)snprintf(option, sizeof(option), "--limit %s", name);
	name_owner(scope, usage, most, owner, sizeof(owner));
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s}", "name", name, "option", option,
			 "unit", units[unit], "limit", limit ? number(unit, limit) : json_null(),
			 "used", number(unit, used[scope]), "by", svc_json_text(owner), "help",
			 svc_limit_help(what));
}

static void add_table(struct svc_server *server, json_t *list,
		      const struct most most[SVC_RESOURCES])
{
	const uint64_t now_ns = svc_now_ns();
	struct svc_usage usage;
	int what, scope;

	for (what = 0; what < SVC_RESOURCES; what++) {
		svc_ledger_usage(&server->ledger, (enum svc_resource)what, now_ns, &usage);
		for (scope = 0; scope < SVC_SCOPES; scope++)
			if (svc_limit_applies((enum svc_scope)scope, (enum svc_resource)what))
				(void)json_array_append_new(
					list, describe_limit(server, (enum svc_scope)scope,
							     (enum svc_resource)what, &usage,
							     &most[what]));
	}
}

static json_t *limit_memory(const struct svc_server *server)
{
	return json_integer((json_int_t)server->options.memory_bytes);
}

/* Under server->lock. */
static json_t *use_memory(const struct svc_server *server)
{
	const struct sal_memory *memory = sal_engine_memory(server->engine);
	uint64_t used_bytes = memory->persist_bytes + memory->lane_sum_bytes;

	return json_integer((json_int_t)used_bytes);
}

static json_t *limit_lanes(const struct svc_server *server)
{
	return json_integer((json_int_t)sal_engine_lane_limit(server->engine));
}

/* Under server->lock. */
static json_t *use_lanes(const struct svc_server *server)
{
	uint64_t open = sal_engine_memory(server->engine)->open_mask;

	return json_integer(__builtin_popcountll(open));
}

static json_t *limit_cache(const struct svc_server *server)
{
	return json_integer((json_int_t)server->options.cache_bytes);
}

static json_t *limit_compile_time(const struct svc_server *server)
{
	return json_real(svc_seconds(server->options.compile_time_ns));
}

static json_t *limit_compile_memory(const struct svc_server *server)
{
	return json_integer((json_int_t)server->options.compile_memory_bytes);
}

static json_t *limit_iteration(const struct svc_server *server)
{
	uint64_t limit_ns = server->options.iteration_limit_ns;

	return limit_ns ? json_real(svc_seconds(limit_ns)) : json_null();
}

static json_t *limit_log(const struct svc_server *server)
{
	return json_integer((json_int_t)server->options.log_bytes);
}

static json_t *limit_trace(const struct svc_server *server)
{
	return json_integer((json_int_t)server->options.trace_records);
}

/* One row for each limit. If `use` is NULL, the use is unknown. json_null() means: no limit. */
static const struct {
	const char *name, *unit, *help;
	json_t *(*limit)(const struct svc_server *server);
	json_t *(*use)(const struct svc_server *server);
} others[] = {
	{ "memory", "bytes", "memory of the device", limit_memory, use_memory },
	{ "lanes", "count", "lanes at once", limit_lanes, use_lanes },
	{ "cache-size", "bytes", "compiled programs on disk", limit_cache, NULL },
	{ "compile-time", "seconds", "one compilation", limit_compile_time, NULL },
	{ "compile-memory", "bytes", "one compiler process", limit_compile_memory, NULL },
	{ "iteration-limit", "seconds", "one iteration of a job", limit_iteration, NULL },
	{ "log-size", "bytes", "the log on disk; one older file is kept", limit_log, NULL },
	{ "trace-records", "count", "events kept for `salus trace`", limit_trace, NULL },
};

/* Under server->lock. */
static void add_others(const struct svc_server *server, json_t *list)
{
	char option[SVC_LIMIT_NAME];
	size_t i;

	for (i = 0; i < SAL_COUNT(others); i++) {
		(void)snprintf(option, sizeof(option), "--%s", others[i].name);
		(void)json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:o, s:o, s:s, s:s}", "name",
					others[i].name, "option", option, "unit", others[i].unit,
					"limit", others[i].limit(server), "used",
					others[i].use ? others[i].use(server) : json_null(), "by",
					"", "help", others[i].help));
	}
}

json_t *svc_answer_limits(struct svc_question *q)
{
	struct svc_server *server = q->server;
	struct most most[SVC_RESOURCES] = { 0 };
	json_t *list = json_array(), *rest = json_array();

	svc_lock(server);
	find_most(server, svc_now_ns(), most);
	add_others(server, rest);
	svc_unlock(server);
	add_table(server, list, most);
	(void)json_array_extend(list, rest);
	json_decref(rest);
	return json_pack("{s:b, s:o}", "ok", 1, "limits", list);
}
