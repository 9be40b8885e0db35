/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks - work of the compile pool for a session: compile a program, open a sealed program, fetch a
 * part of a program.
 *
 *     the worker:                          post the task
 *     main thread, or a thread of libuv:   prepare the task, reading all its bytes
 *     main thread:                         finish the task; the pool compiles
 *     main thread:                         reply to the client
 *
 * The pool belongs to the main thread. Preparing a long task takes a while, so a thread of libuv
 * prepares it.
 *
 * Threads: the main thread, if nothing else is said.
 */
#ifndef SAL_SERVICE_TASKS_H
#define SAL_SERVICE_TASKS_H

#include <stdint.h>
#include <sys/queue.h>

#include <uv.h>

#include "base/err.h"
#include "service/lock.h"
#include "wire/messages.h"

struct sal_compile_request;
struct sal_image;
struct svc_server;
struct svc_session;

enum svc_task_kind {
	SVC_TASK_COMPILE,
	SVC_TASK_LOAD,
	SVC_TASK_FETCH
};

struct svc_task {
	TAILQ_ENTRY(svc_task) link; /* in server->tasks, session->unprepared, session->tasks */
	enum svc_task_kind kind;
	struct svc_session *session; /* owned reference */
	uint64_t request, id;
	char format[16];
	/* Places of the client's bytes in its arena. Load: program_at is the sealed program. */
	struct sal_place_in_arena program_at, options_at;
	const void *program_from, *options_from; /* borrowed: session; the mapped bytes */
	void *program, *options; /* owned; copies of the mapped bytes */
	uint32_t what; /* fetch: enum sal_fetch */
	struct sal_place_in_arena into; /* fetch */
	void *into_at; /* borrowed: session */
	struct sal_image *image; /* owned reference; fetch: the source; load: the opened program */
	uint64_t size; /* fetch: size of the requested part */
	struct sal_err err; /* why preparing failed */
	uv_work_t work;
	struct sal_compile_request *pending; /* compile: while the pool has the task */
};

TAILQ_HEAD(svc_task_list, svc_task);

/* Hand a task to the main thread. */
void svc_tasks_post(struct svc_server *server, struct svc_task *take_task) SVC_LOCKED;
/* Start the next posted task. */
void svc_on_tasks(uv_async_t *bell);
/* Cancel the tasks of a session that ends. */
void svc_tasks_cancel(struct svc_session *s);

#endif
