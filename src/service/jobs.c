/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs - what the main thread does with the compile pool for a session: compile a program, load a sealed one,
 * seal one. The worker posts them; they are done on the main thread, where the pool lives.
 */
#include "service/service.h"

#include <stdlib.h>
#include <string.h>

static void job_free(struct svc_job *job)
{
	struct svc_session *s = job->session;

	svc_lock(s->server);
	svc_limit_give(s, SVC_COMPILES, 1);
	svc_limit_give(s, SVC_COMPILE_BYTES, job->program_at.size + job->options_at.size);
	s->patience.jobs_done++;
	svc_unlock(s->server);
	sal_image_unref(job->image);
	svc_session_unref(job->session);
	free(job->program);
	free(job->options);
	free(job);
}

void svc_server_post(struct svc_server *server, struct svc_job *take_job)
{
	TAILQ_INSERT_TAIL(&server->jobs, take_job, link);
	svc_news_watch(server);
	(void)uv_async_send(&server->job_bell);
}

/* Keep the program under the id that the client chose. */
static int keep_program(struct svc_job *job, struct svc_shared_program *take_described,
			struct sal_err *err) SVC_LOCKED
{
	struct svc_session *s = job->session;
	struct svc_program *p;

	if (svc_limit_take(s, SVC_PROGRAMS, 1, err) < 0) {
		svc_program_forget(take_described);
		return -err->code;
	}
	p = svc_program_create(s, take_described);
	if (!p) {
		svc_limit_give(s, SVC_PROGRAMS, 1);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "salusd: out of host memory");
	}
	if (!svc_idmap_add(&s->programs, job->id, p)) {
		svc_program_unref(p);
		return sal_err_set(err, SAL_INTERNAL, "salusd: the program cannot be kept");
	}
	svc_recall_program(s, p->shared->image->key);
	svc_program_load_ahead(p);
	return SAL_OK;
}

/* The session gets the program. */
static void give_program(struct svc_job *job, struct sal_image *take_image)
{
	struct svc_session *s = job->session;
	uint64_t fact_size = take_image->facts.size;
	struct svc_shared_program *described = svc_program_describe(take_image);
	struct sal_err err = { 0 };

	svc_lock(s->server);
	if (s->state != SVC_OPEN) {
		svc_program_forget(described);
	} else {
		int rc = described ? keep_program(job, described, &err)
				   : sal_err_set(&err, SAL_INTERNAL,
						 "salusd: the program's facts cannot be read");

		svc_outbox_reply(&s->outbox, job->request, rc < 0 ? err.code : 0,
				 rc < 0 ? err.text : NULL, rc < 0 ? 0 : fact_size);
	}
	svc_unlock(s->server);
	svc_worker_wake(s->server); /* for the errand */
}

static void on_compiled(void *ctx, int code, const char *message, struct sal_image *image)
{
	struct svc_job *job = ctx;

	TAILQ_REMOVE(&job->session->jobs, job, link);
	if (code || !image)
		svc_outbox_reply(&job->session->outbox, job->request,
				 code ? abs(code) : SAL_INTERNAL, message, 0);
	else
		give_program(job, image);
	job_free(job);
}

static void do_compile(struct svc_server *server, struct svc_job *job)
{
	struct sal_compile_source source = {
		.format = { job->format, strlen(job->format) },
		.program = { job->program, (size_t)job->program_at.size },
		.options = { job->options, (size_t)job->options_at.size },
	};
	struct sal_compile_asker asker = { job->session->id, on_compiled, job };
	struct sal_err err = { 0 };

	TAILQ_INSERT_TAIL(&job->session->jobs, job, link);
	if (sal_compile_submit(server->pool, &source, &asker, &job->pending, &err) < 0)
		on_compiled(job, err.code, err.text, NULL);
}

static void do_load(struct svc_server *server, struct svc_job *job)
{
	struct sal_err err = { 0 };
	struct sal_image *image = NULL;

	if (sal_image_open(server->pool, job->program, (size_t)job->program_at.size, &image, &err) <
		    0 ||
	    !image)
		svc_outbox_reply(&job->session->outbox, job->request, err.code, err.text, 0);
	else
		give_program(job, image);
	job_free(job);
}

/* Tell the size, and copy the bytes if there is room for them. */
static void give(struct svc_job *job, struct sal_text bytes)
{
	struct svc_session *s = job->session;
	void *into = job->into.size > 0 && job->into.size >= bytes.size
			     ? svc_session_place(s, &job->into)
			     : NULL;

	if (into)
		memcpy(into, bytes.at, bytes.size);
	svc_outbox_reply(&s->outbox, job->request, 0, NULL, bytes.size);
}

static void do_fetch(struct svc_server *server, struct svc_job *job)
{
	struct sal_err err = { 0 };
	void *sealed = NULL;
	size_t size = 0;

	if (job->what == SAL_FETCH_FACTS)
		give(job, job->image->facts);
	else if (job->what == SAL_FETCH_OPTIMIZED)
		give(job, job->image->optimized);
	else if (sal_image_seal(server->pool, job->image, &sealed, &size, &err) < 0)
		svc_outbox_reply(&job->session->outbox, job->request, err.code, err.text, 0);
	else
		give(job, (struct sal_text){ sealed, size });
	free(sealed);
	job_free(job);
}

/* A copy of bytes in the arena, which the client may write to. */
static void *copy_out(struct svc_session *s, const struct sal_place_in_arena *place)
{
	const void *at = svc_session_place(s, place);
	void *copy = at ? malloc((size_t)place->size + 1) : NULL;

	if (copy)
		memcpy(copy, at, (size_t)place->size);
	return copy;
}

static bool copy_texts(struct svc_job *job)
{
	if (job->kind == SVC_JOB_FETCH)
		return true;
	job->program = copy_out(job->session, &job->program_at);
	job->options = copy_out(job->session, &job->options_at);
	return job->program && job->options;
}

static void do_job(struct svc_server *server, struct svc_job *job)
{
	if (!copy_texts(job)) {
		svc_outbox_reply(&job->session->outbox, job->request, SAL_RESOURCE_EXHAUSTED,
				 "salusd: out of host memory", 0);
		job_free(job);
	} else if (job->kind == SVC_JOB_COMPILE) {
		do_compile(server, job);
	} else if (job->kind == SVC_JOB_LOAD) {
		do_load(server, job);
	} else {
		do_fetch(server, job);
	}
}

void svc_on_jobs(uv_async_t *bell)
{
	struct svc_server *server = bell->data;
	struct svc_job *job;
	bool is_open;

	for (;;) {
		svc_lock(server);
		job = TAILQ_FIRST(&server->jobs);
		if (job)
			TAILQ_REMOVE(&server->jobs, job, link);
		is_open = job && job->session->state == SVC_OPEN;
		svc_unlock(server);
		if (!job)
			return;
		if (is_open)
			break;
		job_free(job);
	}
	/* One in a round of the loop, for texts are long: questions are answered in between. */
	do_job(server, job);
	(void)uv_async_send(&server->job_bell);
}

void svc_jobs_cancel(struct svc_session *s)
{
	struct svc_job *job;

	while ((job = TAILQ_FIRST(&s->jobs))) {
		TAILQ_REMOVE(&s->jobs, job, link);
		if (job->pending)
			sal_compile_cancel(job->pending);
		job_free(job);
	}
}
