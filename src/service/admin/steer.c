/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steer - changes while jobs run. Each change is an event for the engine, so it takes effect
 * between two iterations. Each change writes a line to the log that says who asked for it.
 */
#include "service/admin/admin.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log/log.h"
#include "base/units.h"
#include "core/engine.h"
#include "loader/loader.h"
#include "service/client/session.h"
#include "service/memory/memory.h"
#include "service/run/closing.h"
#include "service/run/dispatch.h"
#include "service/run/worker.h"
#include "service/server.h"

#define WEIGHT_MAX 1e6
#define SECONDS_MAX 9e9
#define TUNES_MAX 16 /* in one question */

static void note(struct svc_question *q, const char *what, const struct svc_session *s)
{
	sal_log_info("admin", "%s id=%" PRIu64 " name=%s by pid=%d uid=%u", what, s->id, s->name,
		     (int)q->pid, (unsigned)q->uid);
}

static void add_policy(json_t *list, const struct sal_policy *policy)
{
	(void)json_array_append_new(list, json_pack("{s:s, s:s}", "name", sal_policy_name(policy),
						    "idea", sal_policy_idea(policy)));
}

/* The built-in policies, then those from files. */
static json_t *list_policies(const struct sal_loader *loader)
{
	json_t *list = json_array();
	const struct sal_policy *const *p;
	uint32_t i;

	for (p = sal_policies; *p; p++)
		add_policy(list, *p);
	for (i = 0; loader && i < loader->count; i++)
		if (sal_loader_at(loader, i))
			add_policy(list, sal_loader_at(loader, i));
	return list;
}

static json_t *refuse_policy(struct svc_question *q, const char *name)
{
	char names[SAL_POLICY_NAMES_BYTES];

	(void)sal_err_set(&q->err, SAL_INVALID_ARGUMENT,
			  "there is no policy \"%.60s\"; there are %s", name,
			  sal_policy_names(", ", names, sizeof(names)));
	return NULL;
}

static void add_param(json_t *list, const char *policy, const struct sal_param *param,
		      uint64_t value)
{
	char now[SAL_UNITS_TEXT], standard[SAL_UNITS_TEXT];
	char min[SAL_UNITS_TEXT], max[SAL_UNITS_TEXT];

	(void)json_array_append_new(
		list,
		json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s?}", "name", param->name, "about",
			  param->about, "value", sal_param_format(param, value, now, sizeof(now)),
			  "default",
			  sal_param_format(param, param->standard, standard, sizeof(standard)),
			  "min", sal_param_format(param, param->min, min, sizeof(min)), "max",
			  sal_param_format(param, param->max, max, sizeof(max)), "policy", policy));
}

/* List what can be tuned now: parameters of the policy, then knobs. Under server->lock. */
static json_t *list_params(const struct sal_engine *engine)
{
	const struct sal_policy *policy = sal_engine_policy(engine);
	const struct sal_param *params = sal_policy_params(policy);
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; params && params[i].name; i++)
		add_param(list, sal_policy_name(policy), &params[i], sal_engine_param(engine, i));
	for (i = 0; sal_knobs[i].name; i++)
		add_param(list, NULL, &sal_knobs[i], sal_knob_get(sal_engine_tuning(engine), i));
	return list;
}

/* The changes that a question asks for; NULL and 0: no change. */
struct wish {
	const struct sal_policy *policy;
	const json_t *lanes;
	struct sal_change changes[TUNES_MAX];
	size_t change_count;
};

/* "tune" is an array of `name=value`, for the policy after the change. */
static int read_tune(struct svc_question *q, const struct sal_policy *policy, struct wish *wish)
{
	const json_t *tune = json_object_get(q->object, "tune");
	size_t i;

	if (!tune)
		return SAL_OK;
	if (!json_is_array(tune) || json_array_size(tune) > TUNES_MAX)
		return sal_err_set(&q->err, SAL_INVALID_ARGUMENT,
				   "\"tune\" is an array of at most %d texts", TUNES_MAX);
	for (i = 0; i < json_array_size(tune); i++) {
		const char *pair = json_string_value(json_array_get(tune, i));

		if (sal_change_parse(policy, pair ? pair : "", &wish->changes[i], &q->err) < 0)
			return sal_err_set(&q->err, SAL_INVALID_ARGUMENT, "%s", q->err.text);
	}
	wish->change_count = i;
	return SAL_OK;
}

/* Make all changes, or none if one of them is impossible. Under server->lock. */
static int grant_wish(struct svc_question *q, struct wish *wish)
{
	struct sal_engine *engine = q->server->engine;
	struct sal_tuning tuning;
	size_t i;
	int rc = read_tune(q, wish->policy ? wish->policy : sal_engine_policy(engine), wish);

	if (rc >= 0 && wish->policy)
		rc = sal_engine_set_policy(engine, svc_now_ns(), wish->policy, &q->err);
	if (rc < 0)
		return rc;
	if (wish->lanes) {
		tuning = *sal_engine_tuning(engine);
		tuning.lanes = json_is_string(wish->lanes)
				       ? SAL_LANES_AUTO
				       : (uint32_t)json_integer_value(wish->lanes);
		sal_engine_set_tuning(engine, svc_now_ns(), &tuning);
	}
	for (i = 0; i < wish->change_count; i++)
		sal_engine_change(engine, svc_now_ns(), &wish->changes[i]);
	return SAL_OK;
}

static json_t *describe_lanes(const struct sal_engine *engine)
{
	uint32_t lanes = sal_engine_tuning(engine)->lanes;

	return lanes == SAL_LANES_AUTO ? json_string("auto") : json_integer((json_int_t)lanes);
}

/* Under server->lock. */
static json_t *describe_policy(const struct svc_server *server)
{
	const struct sal_engine *engine = server->engine;

	return json_pack("{s:b, s:s, s:o, s:i, s:o, s:o}", "ok", 1, "policy",
			 sal_policy_name(sal_engine_policy(engine)), "lanes",
			 describe_lanes(engine), "lane_limit", (int)sal_engine_lane_limit(engine),
			 "policies", list_policies(server->options.loader), "tuning",
			 list_params(engine));
}

static void note_policy(struct svc_question *q)
{
	const json_t *tune = json_object_get(q->object, "tune");
	struct sal_words words = { 0 };
	size_t i;

	for (i = 0; i < json_array_size(tune); i++)
		sal_words_add(&words, " %s", json_string_value(json_array_get(tune, i)));
	sal_log_info("admin", "policy=%s lanes=%u%s by pid=%d uid=%u",
		     sal_policy_name(sal_engine_policy(q->server->engine)),
		     sal_engine_tuning(q->server->engine)->lanes, words.at, (int)q->pid,
		     (unsigned)q->uid);
}

/* Takes the lock. *out_changed says whether anything changed. */
static json_t *change_policy(struct svc_question *q, struct wish *wish, bool *out_changed)
{
	json_t *reply = NULL;

	svc_lock(q->server);
	if (grant_wish(q, wish) >= 0)
		reply = describe_policy(q->server);
	*out_changed = reply && (wish->policy || wish->lanes || wish->change_count > 0);
	if (*out_changed)
		note_policy(q);
	svc_unlock(q->server);
	return reply;
}

/* A number, or "auto". */
static bool can_be_lanes(const json_t *lanes)
{
	const char *word = json_string_value(lanes);

	if (word)
		return strcmp(word, "auto") == 0;
	return json_is_integer(lanes) && json_integer_value(lanes) >= 0 &&
	       json_integer_value(lanes) <= SAL_LANES_MAX;
}

/* Code from a file runs as the daemon's user: only that user may choose it, or root. */
static int may_load(struct svc_question *q, const char *path)
{
	if (q->uid != geteuid() && q->uid != 0)
		return sal_err_set(&q->err, SAL_PERMISSION_DENIED,
				   "only user %u, who runs salusd, may load a policy from a file",
				   (unsigned)geteuid());
	if (*path != '/' || !q->server->options.loader)
		return sal_err_set(&q->err, SAL_INVALID_ARGUMENT,
				   "the path of a policy's file must start with a /");
	return SAL_OK;
}

/* NULL and q->waits: the file is being loaded. NULL otherwise: q->err says why. */
static const struct sal_policy *load_policy(struct svc_question *q, const char *path)
{
	const struct sal_policy *policy = NULL;

	if (may_load(q, path) < 0)
		return NULL;
	if (!q->has_loaded) {
		q->waits = svc_load_start(q->server, path, &q->err) >= 0;
		return NULL;
	}
	if (svc_load_take(q->server, &policy, &q->err) >= 0)
		sal_log_info("admin", "loaded policy=%s file=%s by pid=%d uid=%u",
			     sal_policy_name(policy), path, (int)q->pid, (unsigned)q->uid);
	return policy;
}

json_t *svc_answer_policy(struct svc_question *q)
{
	const json_t *named = json_object_get(q->object, "name");
	const char *name = json_string_value(named);
	bool is_path = name && sal_loader_is_path(name);
	struct wish wish = { .lanes = json_object_get(q->object, "lanes") };
	json_t *reply;
	bool changed;

	if (name)
		wish.policy = is_path ? load_policy(q, name) : svc_find_policy(q->server, name);
	if (is_path && !wish.policy)
		return NULL;
	if (named && !wish.policy)
		return refuse_policy(q, name ? name : "?");
	if (wish.lanes && !can_be_lanes(wish.lanes)) {
		(void)sal_err_set(&q->err, SAL_INVALID_ARGUMENT,
				  "\"lanes\" is \"auto\" or a number up to %d; 0: as many as the "
				  "policy wants",
				  SAL_LANES_MAX);
		return NULL;
	}
	reply = change_policy(q, &wish, &changed);
	if (changed)
		svc_worker_wake(q->server);
	return reply;
}

static bool set_weight(struct sal_job *job, const json_t *value)
{
	double weight = json_number_value(value);

	if (!json_is_number(value) || !(weight > 0 && weight <= WEIGHT_MAX))
		return false;
	job->weight_milli = weight < 0.001 ? 1 : (uint32_t)(weight * 1000 + 0.5);
	return true;
}

static bool set_priority(struct sal_job *job, const json_t *value)
{
	json_int_t priority = json_integer_value(value);

	if (!json_is_integer(value) || priority < 0 || priority > UINT32_MAX)
		return false;
	job->priority = (uint32_t)priority;
	return true;
}

static bool set_memory(struct sal_job *job, const json_t *value)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	job->limit_bytes = (uint64_t)json_integer_value(value);
	return true;
}

static bool set_time(struct sal_job *job, const json_t *value)
{
	double seconds = json_number_value(value);

	if (!json_is_number(value) || !(seconds >= 0 && seconds <= SECONDS_MAX))
		return false;
	job->total_ns = (uint64_t)(seconds * 1e9);
	return true;
}

static bool set_kind(struct sal_job *job, const json_t *value)
{
	const char *kind = json_is_string(value) ? json_string_value(value) : "";

	job->kind = strcmp(kind, "inference") == 0 ? SAL_INFERENCE : SAL_TRAINING;
	job->kind_undeclared = false;
	return job->kind == SAL_INFERENCE || strcmp(kind, "training") == 0;
}

static bool set_deadline(struct sal_job *job, const json_t *value)
{
	double seconds = json_number_value(value);

	if (!json_is_number(value) || !(seconds >= 0 && seconds <= SECONDS_MAX))
		return false;
	job->deadline_ns = (uint64_t)(seconds * 1e9 + 0.5);
	return true;
}

static const struct {
	const char *key;
	bool (*set)(struct sal_job *job, const json_t *value);
	const char *expected;
} wishes[] = {
	{ "weight", set_weight, "a number above 0, at most 1000 (salusd --limit job-weight=N)" },
	{ "priority", set_priority, "a whole number from 0 on; smaller is more important" },
	{ "memory", set_memory, "bytes; 0: no limit of its own" },
	{ "time", set_time, "seconds of device time; 0: unknown" },
	{ "kind", set_kind, "training or inference" },
	{ "deadline", set_deadline, "seconds from an iteration's submission to its end; 0: none" },
};

#define WISHES SAL_COUNT(wishes)

/* Copy the values in the question into the job. */
static int take_wishes(const json_t *question, struct sal_job *job, struct sal_err *err)
{
	const char *key;
	json_t *value;
	size_t i, count = 0;

	json_object_foreach((json_t *)question, key, value)
	{
		if (strcmp(key, "op") == 0 || strcmp(key, "job") == 0)
			continue;
		for (i = 0; i < WISHES && strcmp(wishes[i].key, key) != 0; i++)
			;
		if (i == WISHES)
			return sal_err_set(err, SAL_INVALID_ARGUMENT,
					   "\"%.60s\" cannot be set; weight, priority, memory, "
					   "time, kind and deadline can",
					   key);
		if (!wishes[i].set(job, value))
			return sal_err_set(err, SAL_INVALID_ARGUMENT, "%s must be %s", key,
					   wishes[i].expected);
		count++;
	}
	if (count == 0)
		return sal_err_set(
			err, SAL_INVALID_ARGUMENT,
			"nothing to set; weight, priority, memory, time, kind and deadline can be");
	return SAL_OK;
}

/* Describe the job after the change. Under server->lock. */
static json_t *acknowledge(const struct svc_session *s)
{
	struct sal_session_view view;
	json_t *reply;

	sal_engine_view(s->server->engine, s->core, &view);
	reply = json_pack("{s:b, s:I, s:o, s:s, s:I}", "ok", 1, "id", (json_int_t)s->id, "name",
			  svc_json_text(s->name), "state", svc_state_name(s), "limit_bytes",
			  (json_int_t)view.job.limit_bytes);
	(void)json_object_update_new(reply, svc_describe_job(&view.job, view.weight_milli));
	return reply;
}

static json_t *do_set(struct svc_question *q, struct svc_session *s) SVC_LOCKED
{
	struct sal_session_view view;
	struct sal_job job;

	sal_engine_view(q->server->engine, s->core, &view);
	job = view.job;
	if (take_wishes(q->object, &job, &q->err) < 0 ||
	    svc_limit_check_weight(&q->server->options.limits, job.weight_milli, &q->err) < 0)
		return NULL;
	sal_engine_declare(q->server->engine, svc_now_ns(), s->core, &job);
	svc_memory_publish(s);
	note(q, "set", s);
	return acknowledge(s);
}

static json_t *do_pause(struct svc_question *q, struct svc_session *s)
{
	sal_engine_pause(q->server->engine, svc_now_ns(), s->core);
	note(q, "paused", s);
	return acknowledge(s);
}

static json_t *do_resume(struct svc_question *q, struct svc_session *s)
{
	sal_engine_resume(q->server->engine, svc_now_ns(), s->core);
	note(q, "resumed", s);
	return acknowledge(s);
}

static json_t *do_kill(struct svc_question *q, struct svc_session *s) SVC_LOCKED
{
	const struct svc_execution *x = svc_session_running(s);
	json_t *reply;

	if (s->state == SVC_OPEN)
		note(q, "killed", s);
	/*
	 * The connection holds a reference to the session until the client hangs up, so the session
	 * is not freed before.
	 */
	svc_session_kill(s, "salus: the job was ended by `salus kill`");
	reply = acknowledge(s);
	if (x && x->program) {
		struct sal_text name = x->program->shared->facts->name;

		(void)json_object_update_new(
			reply,
			json_pack("{s:s%, s:f, s:i}", "running", name.at, name.size, "run_s",
				  svc_seconds(svc_now_ns() - x->start_ns), "lane", (int)x->lane));
	}
	return reply;
}

/* Find the job, act on it, and wake the worker. */
static json_t *steer(struct svc_question *q,
		     json_t *(*act)(struct svc_question *q, struct svc_session *s))
{
	struct svc_session *s;
	json_t *reply = NULL;

	svc_lock(q->server);
	s = svc_find_job(q);
	if (s && s->state != SVC_OPEN && act != do_kill)
		(void)sal_err_set(&q->err, SAL_FAILED_PRECONDITION,
				  "%s (id %" PRIu64 ") is closing", s->name, s->id);
	else
		reply = s ? act(q, s) : NULL;
	svc_unlock(q->server);
	svc_worker_wake(q->server);
	return reply;
}

json_t *svc_answer_set(struct svc_question *q)
{
	return steer(q, do_set);
}

json_t *svc_answer_pause(struct svc_question *q)
{
	return steer(q, do_pause);
}

json_t *svc_answer_resume(struct svc_question *q)
{
	return steer(q, do_resume);
}

json_t *svc_answer_kill(struct svc_question *q)
{
	return steer(q, do_kill);
}
