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

	(void)pthread_mutex_lock(&s->server->lock);
	s->job_count--;
	s->job_bytes -= job->program_size + job->option_size;
	(void)pthread_mutex_unlock(&s->server->lock);
	sal_image_unref(job->image);
	svc_session_unref(job->session);
	free(job->program);
	free(job->options);
	free(job);
}

void svc_server_post(struct svc_server *server, struct svc_job *take_job)
{
	take_job->session->job_count++;
	take_job->session->job_bytes += take_job->program_size + take_job->option_size;
	TAILQ_INSERT_TAIL(&server->jobs, take_job, link);
	(void)uv_async_send(&server->job_bell);
}

/* The session gets the program under the id it chose. */
static void give_program(struct svc_job *job, struct sal_image *take_image)
{
	struct svc_session *s = job->session;
	uint64_t fact_size = take_image->facts.size;
	struct svc_program *p;

	(void)pthread_mutex_lock(&s->server->lock);
	if (s->dead) {
		sal_image_unref(take_image);
		(void)pthread_mutex_unlock(&s->server->lock);
		return;
	}
	p = svc_program_create(s->server, take_image);
	if (p && svc_idmap_add(&s->programs, job->id, p)) {
		svc_recall_program(s, p->shared->image->key);
		svc_outbox_reply(&s->outbox, job->request, 0, NULL, fact_size);
	} else {
		svc_program_unref(s->server, p);
		svc_outbox_reply(&s->outbox, job->request, SAL_INTERNAL,
				 "salusd: the program cannot be kept", 0);
	}
	(void)pthread_mutex_unlock(&s->server->lock);
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
		.program = { job->program, job->program_size },
		.options = { job->options, job->option_size },
	};
	struct sal_err err = { 0 };

	TAILQ_INSERT_TAIL(&job->session->jobs, job, link);
	if (sal_compile_submit(server->pool, &source, on_compiled, job, &job->pending, &err) < 0)
		on_compiled(job, err.code, err.text, NULL);
}

static void do_load(struct svc_server *server, struct svc_job *job)
{
	struct sal_err err = { 0 };
	struct sal_image *image = NULL;

	if (sal_image_open(server->pool, job->program, job->program_size, &image, &err) < 0 ||
	    !image)
		svc_outbox_reply(&job->session->outbox, job->request, err.code, err.text, 0);
	else
		give_program(job, image);
	job_free(job);
}

static void do_seal(struct svc_server *server, struct svc_job *job)
{
	struct svc_session *s = job->session;
	struct sal_err err = { 0 };
	void *bytes = NULL;
	size_t size = 0;

	if (sal_image_seal(server->pool, job->image, &bytes, &size, &err) < 0) {
		svc_outbox_reply(&s->outbox, job->request, err.code, err.text, 0);
	} else {
		void *into = job->into.size >= size && job->into.size > 0
				     ? svc_session_place(s, &job->into)
				     : NULL;

		if (into)
			memcpy(into, bytes, size);
		svc_outbox_reply(&s->outbox, job->request, 0, NULL, size);
	}
	free(bytes);
	job_free(job);
}

void svc_on_jobs(uv_async_t *bell)
{
	struct svc_server *server = bell->data;
	struct svc_job *job;

	for (;;) {
		(void)pthread_mutex_lock(&server->lock);
		job = TAILQ_FIRST(&server->jobs);
		if (job)
			TAILQ_REMOVE(&server->jobs, job, link);
		(void)pthread_mutex_unlock(&server->lock);
		if (!job)
			return;
		if (job->kind == SVC_JOB_COMPILE)
			do_compile(server, job);
		else if (job->kind == SVC_JOB_LOAD)
			do_load(server, job);
		else
			do_seal(server, job);
	}
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
