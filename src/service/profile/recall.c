/* SPDX-License-Identifier: Apache-2.0 */
#include "service/profile/recall.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log/log.h"
#include "compile/pool/pool.h"
#include "core/engine.h"
#include "link/paths.h"
#include "service/client/session.h"
#include "service/profile/profile.h"
#include "service/server.h"

/* A shorter run does not predict the next run, so it is not remembered. */
#define ITERATIONS_MIN 10
#define RUN_NS_MIN UINT64_C(100000000)
#define SAVE_AFTER_MS 1000

void svc_recall_save(struct svc_server *server)
{
	struct svc_recall *r = &server->recall;
	struct svc_profiles *copy = NULL;
	struct sal_err err = { 0 };

	svc_lock(server);
	if (r->changed)
		copy = svc_profiles_copy(r->profiles);
	r->changed = r->changed && !copy;
	svc_unlock(server);
	if (copy && svc_profiles_save(copy, &err) < 0 && !r->warned) {
		sal_log_warn("profile", "jobs are remembered in memory alone: %s", err.text);
		r->warned = true;
	}
	svc_profiles_close(copy);
}

static void on_timer(uv_timer_t *timer)
{
	svc_recall_save(timer->data);
}

static void on_change(uv_async_t *bell)
{
	struct svc_server *server = bell->data;

	if (!uv_is_active((uv_handle_t *)&server->recall.timer))
		(void)uv_timer_start(&server->recall.timer, on_timer, SAVE_AFTER_MS, 0);
}

int svc_recall_open(struct svc_server *server, struct sal_err *err)
{
	struct svc_recall *r = &server->recall;
	struct sal_compile_stats stats;
	char path[SAL_PATH_BYTES];
	bool has_file;

	if (server->options.no_profiles)
		return SAL_OK;
	sal_compile_stats(server->pool, &stats);
	has_file = stats.has_disk && (size_t)snprintf(path, sizeof(path), "%s/profiles.json",
						      server->options.cache_dir) < sizeof(path);
	r->bell.data = r->timer.data = server;
	(void)uv_async_init(&server->loop, &r->bell, on_change);
	(void)uv_timer_init(&server->loop, &r->timer);
	return svc_profiles_open(has_file ? path : NULL, SVC_PROFILES_MAX, &r->profiles, err);
}

void svc_recall_close(struct svc_server *server)
{
	svc_profiles_close(server->recall.profiles);
	server->recall.profiles = NULL;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Set the needs that the user did not declare: to those of the profile, or to unknown without a
 * profile. The device may be smaller than in the earlier run, so limit them to what fits: salusd
 * may refuse a session for declared needs, but never for remembered needs.
 */
static void fill_in(const struct svc_session *s, const struct svc_profile *profile,
		    struct sal_job *job)
{
	const struct svc_recollection *r = &s->recollection;
	uint64_t most = sal_engine_memory(s->server->engine)->capacity_bytes;
	uint64_t told = r->persist_told ? job->declared.persist_bytes : 0;

	if (job->limit_bytes)
		most = smaller(most, job->limit_bytes);
	if (!r->ephem_told)
		job->declared.ephem_bytes =
			profile ? smaller(profile->ephem_bytes, most - smaller(told, most)) : 0;
	if (!r->persist_told)
		job->declared.persist_bytes =
			profile ? smaller(profile->persist_bytes,
					  most - smaller(job->declared.ephem_bytes, most))
				: 0;
	if (!r->total_told)
		job->total_ns = profile ? profile->total_ns : 0;
}

void svc_recall_begin(struct svc_session *s, const struct sal_hello *hello, struct sal_job *job)
{
	struct svc_recollection *r = &s->recollection;
	const struct svc_profile *profile;

	r->persist_told = hello->persist_bytes > 0;
	r->ephem_told = hello->ephem_bytes > 0;
	r->total_told = hello->total_ns > 0;
	if (!s->server->recall.profiles)
		return;
	profile = svc_profiles_match(s->server->recall.profiles, s->name, &r->programs);
	s->remembered = profile != NULL;
	fill_in(s, profile, job);
	if (job->kind_undeclared && profile && profile->serves)
		job->kind = SAL_INFERENCE;
}

static bool is_same_job(const struct sal_job *a, const struct sal_job *b)
{
	return a->declared.persist_bytes == b->declared.persist_bytes &&
	       a->declared.ephem_bytes == b->declared.ephem_bytes && a->total_ns == b->total_ns &&
	       a->kind == b->kind;
}

void svc_recall_program(struct svc_session *s, const uint8_t key[SAL_PROGRAM_KEY_BYTES])
{
	struct svc_server *server = s->server;
	const struct svc_profile *profile;
	struct sal_session_view view;
	struct sal_job job;

	if (!server->recall.profiles || !svc_program_keys_add(&s->recollection.programs, key))
		return;
	sal_engine_view(server->engine, s->core, &view);
	job = view.job;
	profile = svc_profiles_match(server->recall.profiles, s->name, &s->recollection.programs);
	if (!profile && !s->remembered)
		return;
	fill_in(s, profile, &job);
	if (job.kind_undeclared && !profile) /* another job than last time */
		job.kind = SAL_TRAINING;
	if (profile && s->recollection.programs.count == 1)
		sal_log_info("profile",
			     "recognised id=%" PRIu64 " name=%s persist_bytes=%" PRIu64
			     " ephem_bytes=%" PRIu64 " total_s=%.3f",
			     s->id, s->name, job.declared.persist_bytes, job.declared.ephem_bytes,
			     (double)job.total_ns / 1e9);
	s->remembered = profile != NULL;
	if (is_same_job(&job, &view.job))
		return;
	sal_engine_declare(server->engine, svc_now_ns(), s->core, &job);
}

void svc_recall_pace(struct svc_session *s, const uint8_t key[SAL_PROGRAM_KEY_BYTES],
		     struct sal_pace *pace)
{
	const struct svc_profiles *profiles = s->server->recall.profiles;
	const struct svc_program_keys *ours = &s->recollection.programs;
	const struct svc_profile *profile;
	const struct sal_pace *known;

	if (!profiles || pace->runs > 0)
		return;
	known = svc_program_keys_pace(ours, key);
	if (known && known->runs == 0) {
		profile = svc_profiles_match(profiles, s->name, ours);
		known = profile ? svc_program_keys_pace(&profile->programs, key) : NULL;
	}
	if (!known || known->runs == 0)
		return;
	*pace = *known;
	if (pace->beside_ns == 0) /* from the file: the engine trusts it for a while */
		pace->beside_ns = svc_now_ns();
}

void svc_recall_note(struct svc_session *s, const uint8_t key[SAL_PROGRAM_KEY_BYTES],
		     const struct sal_pace *pace)
{
	svc_program_keys_learn(&s->recollection.programs, key, pace);
}

void svc_recall_end(struct svc_session *s)
{
	struct svc_recall *r = &s->server->recall;
	struct svc_profile run = {
		.persist_bytes = s->peak_bytes,
		.ephem_bytes = s->temp_bytes,
		.programs = s->recollection.programs,
	};
	struct sal_session_view view;

	sal_engine_view(s->server->engine, s->core, &view);
	run.iterations = view.done_iterations;
	run.total_ns = view.used_ns;
	run.serves = view.job.kind == SAL_INFERENCE;
	if (!r->profiles || run.programs.count == 0 || run.iterations < ITERATIONS_MIN ||
	    run.total_ns < RUN_NS_MIN)
		return;
	run.iteration_ns = run.total_ns / run.iterations;
	memcpy(run.name, s->name, sizeof(run.name));
	if (svc_profiles_remember(r->profiles, &run) < 0)
		return;
	r->changed = true;
	(void)uv_async_send(&r->bell);
}
