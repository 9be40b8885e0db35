/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "compile/pool/pool.h"
#include "compile/store/image.h"
#include "service/client/news.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/idmap.h"
#include "service/ledger.h"
#include "service/memory/program.h"
#include "service/profile/recall.h"
#include "service/run/worker.h"
#include "service/server.h"

/* Reading this many bytes takes about as long as asking another thread to read them. */
#define LONG_BYTES (UINT64_C(256) << 10)

static void task_free(struct svc_task *task)
{
	struct svc_session *s = task->session;

	svc_lock(s->server);
	svc_limit_give(s, SVC_COMPILES, 1);
	svc_limit_give(s, SVC_COMPILE_BYTES, task->program_at.size + task->options_at.size);
	s->patience.tasks_done++;
	svc_unlock(s->server);
	sal_image_unref(task->image);
	svc_session_unref(task->session);
	free(task->program);
	free(task->options);
	free(task);
}

void svc_tasks_post(struct svc_server *server, struct svc_task *take_task)
{
	TAILQ_INSERT_TAIL(&server->tasks, take_task, link);
	svc_news_watch(server);
	(void)uv_async_send(&server->task_bell);
}

/* A program that another session compiled may need devices that this session lacks. */
static int check_devices(const struct svc_session *s, const struct svc_shared_program *p,
			 struct sal_err *err)
{
	size_t i;

	for (i = 0; i < p->facts->chip_count; i++)
		if (p->facts->chips[i] >= s->devices)
			return sal_err_set(err, SAL_INVALID_ARGUMENT,
					   "salusd: the program runs on device %u, but the job has "
					   "%u; `salus run --devices` gives it more",
					   (unsigned)p->facts->chips[i], (unsigned)s->devices);
	return SAL_OK;
}

/* Add the program under the id that the client chose. */
static int add_program(struct svc_task *task, struct svc_shared_program *take_described,
		       struct sal_err *err) SVC_LOCKED
{
	struct svc_session *s = task->session;
	struct svc_program *p;

	if (check_devices(s, take_described, err) < 0 ||
	    svc_limit_take(s, SVC_PROGRAMS, 1, err) < 0) {
		svc_program_forget(take_described);
		return -err->code;
	}
	p = svc_program_create(s, take_described);
	if (!p) {
		svc_limit_give(s, SVC_PROGRAMS, 1);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "salusd: out of host memory");
	}
	if (!svc_idmap_add(&s->programs, task->id, p)) {
		svc_program_unref(p);
		return sal_err_set(err, SAL_INTERNAL, "salusd: the program cannot be kept");
	}
	svc_recall_program(s, p->shared->image->key);
	svc_recall_pace(s, p->shared->image->key, &p->shared->pace);
	svc_program_load_ahead(p);
	return SAL_OK;
}

/* Give the program to the session, and reply. */
static void give_program(struct svc_task *task, struct sal_image *take_image)
{
	struct svc_session *s = task->session;
	uint64_t fact_size = take_image->facts.size;
	struct svc_shared_program *described = svc_program_describe(take_image);
	struct sal_err err = { 0 };

	svc_lock(s->server);
	if (s->state != SVC_OPEN) {
		svc_program_forget(described);
	} else {
		int rc = described ? add_program(task, described, &err)
				   : sal_err_set(&err, SAL_INTERNAL,
						 "salusd: the program's facts cannot be read");

		svc_outbox_reply(&s->outbox, task->request, rc < 0 ? err.code : 0,
				 rc < 0 ? err.text : NULL, rc < 0 ? 0 : fact_size);
	}
	svc_unlock(s->server);
	svc_worker_wake(s->server); /* an errand was posted, and a grant may have been made */
}

static void on_compiled(void *ctx, int code, const char *message, struct sal_image *image)
{
	struct svc_task *task = ctx;

	TAILQ_REMOVE(&task->session->tasks, task, link);
	if (code || !image)
		svc_outbox_reply(&task->session->outbox, task->request,
				 code ? abs(code) : SAL_INTERNAL, message, 0);
	else
		give_program(task, image);
	task_free(task);
}

static void finish_compile(struct svc_task *task)
{
	struct svc_session *s = task->session;
	struct sal_compile_source source = {
		.format = { task->format, strlen(task->format) },
		.program = { task->program, (size_t)task->program_at.size },
		.options = { task->options, (size_t)task->options_at.size },
		.devices = s->devices,
	};
	struct sal_compile_asker asker = { s->id, on_compiled, task };
	struct sal_err err = { 0 };

	task->program = NULL; /* the pool owns the program's text now */
	TAILQ_INSERT_TAIL(&s->tasks, task, link);
	if (sal_compile_submit(s->server->pool, &source, &asker, &task->pending, &err) < 0)
		on_compiled(task, err.code, err.text, NULL);
}

static void finish(struct svc_task *task)
{
	struct svc_session *s = task->session;

	if (task->err.code) {
		svc_outbox_reply(&s->outbox, task->request, task->err.code, task->err.text, 0);
	} else if (task->kind == SVC_TASK_COMPILE) {
		finish_compile(task);
		return;
	} else if (task->kind == SVC_TASK_LOAD) {
		give_program(task, sal_compile_adopt(s->server->pool, task->image));
		task->image = NULL;
	} else {
		svc_outbox_reply(&s->outbox, task->request, 0, NULL, task->size);
	}
	task_free(task);
}

/* Copy bytes out of the arena: the client may write to the arena at any time. */
static void *copy_out(const void *from, uint64_t bytes)
{
	void *copy = malloc((size_t)bytes + 1);

	if (copy)
		memcpy(copy, from, (size_t)bytes);
	return copy;
}

static void prepare_compile(struct svc_task *task)
{
	task->program = copy_out(task->program_from, task->program_at.size);
	task->options = copy_out(task->options_from, task->options_at.size);
	if (!task->program || !task->options)
		(void)sal_err_set(&task->err, SAL_RESOURCE_EXHAUSTED, "salusd: out of host memory");
}

/* Report the size, and copy the bytes if there is room for them. */
static void give(struct svc_task *task, struct sal_text bytes)
{
	if (task->into.size > 0 && task->into.size >= bytes.size)
		memcpy(task->into_at, bytes.at, bytes.size);
	task->size = bytes.size;
}

static void prepare_fetch(struct svc_task *task)
{
	void *sealed = NULL;
	size_t size = 0;

	if (task->what == SAL_FETCH_FACTS)
		give(task, task->image->facts);
	else if (task->what == SAL_FETCH_OPTIMIZED)
		give(task, task->image->optimized);
	else if (sal_image_seal(task->session->server->pool, task->image, &sealed, &size,
				&task->err) == SAL_OK)
		give(task, (struct sal_text){ sealed, size });
	free(sealed);
}

static void prepare(struct svc_task *task)
{
	const struct sal_compile_pool *pool = task->session->server->pool;

	if (task->kind == SVC_TASK_COMPILE)
		prepare_compile(task);
	else if (task->kind == SVC_TASK_LOAD)
		(void)sal_image_open(pool, task->program_from, (size_t)task->program_at.size,
				     &task->image, &task->err);
	else
		prepare_fetch(task);
}

static bool is_long(const struct svc_task *task)
{
	uint64_t bytes = task->program_at.size + task->options_at.size;

	if (task->image)
		bytes += task->image->facts.size + task->image->image.size +
			 task->image->optimized.size;
	return bytes > LONG_BYTES;
}

static void on_prepare(uv_work_t *work)
{
	prepare(work->data);
}

static void prepare_long(struct svc_task *task);

static void on_prepared(uv_work_t *work, int status)
{
	struct svc_task *task = work->data;
	struct svc_session *s = task->session;
	struct svc_task *next = TAILQ_FIRST(&s->unprepared);
	bool is_open;

	(void)status;
	s->server->preparing--;
	s->is_preparing = false;
	svc_lock(s->server);
	is_open = s->state == SVC_OPEN;
	svc_unlock(s->server);
	if (next) {
		TAILQ_REMOVE(&s->unprepared, next, link);
		prepare_long(next);
	}
	if (is_open)
		finish(task);
	else
		task_free(task);
}

/*
 * libuv has few threads, and looking for programs on the disk needs them, too. So a session has one
 * of them at a time, and its next long task goes behind those of other sessions.
 */
static void prepare_long(struct svc_task *task)
{
	struct svc_session *s = task->session;

	if (s->is_preparing) {
		TAILQ_INSERT_TAIL(&s->unprepared, task, link);
		return;
	}
	s->is_preparing = true;
	s->server->preparing++;
	(void)uv_queue_work(&s->server->loop, &task->work, on_prepare, on_prepared);
}

static void start(struct svc_task *task)
{
	struct svc_session *s = task->session;

	/* The intake has checked that these places are in the arena. */
	task->program_from = svc_session_place(s, &task->program_at);
	task->options_from = svc_session_place(s, &task->options_at);
	task->into_at = svc_session_place(s, &task->into);
	task->work.data = task;
	if (is_long(task)) {
		prepare_long(task);
		return;
	}
	prepare(task);
	finish(task);
}

void svc_on_tasks(uv_async_t *bell)
{
	struct svc_server *server = bell->data;
	struct svc_task *task;
	bool is_open;

	for (;;) {
		svc_lock(server);
		task = TAILQ_FIRST(&server->tasks);
		if (task)
			TAILQ_REMOVE(&server->tasks, task, link);
		is_open = task && task->session->state == SVC_OPEN;
		svc_unlock(server);
		if (!task)
			return;
		if (is_open)
			break;
		task_free(task);
	}
	/* Start one task in each round of the loop, so that questions are answered in between. */
	start(task);
	(void)uv_async_send(&server->task_bell);
}

void svc_tasks_cancel(struct svc_session *s)
{
	struct svc_task *task;

	while ((task = TAILQ_FIRST(&s->unprepared))) {
		TAILQ_REMOVE(&s->unprepared, task, link);
		task_free(task);
	}
	while ((task = TAILQ_FIRST(&s->tasks))) {
		TAILQ_REMOVE(&s->tasks, task, link);
		if (task->pending)
			sal_compile_cancel(task->pending);
		task_free(task);
	}
}
