/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks - what the compile pool does for a session: compile a program, open a sealed one, hand out
 * parts of one.
 *
 *     the worker posts it
 *     main thread, or a thread of libuv's: prepare, which reads every byte
 *     main thread: finish; the pool compiles
 *     reply
 *
 * The pool lives on the main thread. Preparing a long task takes a while, so a thread of libuv's
 * does that.
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
	TAILQ_ENTRY(svc_task) link; /* in server->tasks, then session->tasks */
	enum svc_task_kind kind;
	struct svc_session *session; /* owned reference */
	uint64_t request, id;
	char format[16];
	/* Where the client's bytes are in its arena. Load: the blob is the program. */
	struct sal_place_in_arena program_at, options_at;
	const void *program_from, *options_from; /* borrowed: session; the same places, mapped */
	void *program, *options; /* owned; copies of these bytes */
	uint32_t what; /* fetch: enum sal_fetch */
	struct sal_place_in_arena into; /* fetch */
	void *into_at; /* borrowed: session */
	struct sal_image *image; /* owned reference; fetch, and load when opened */
	uint64_t size; /* fetch: of the part that was asked for */
	struct sal_err err; /* why it could not be prepared */
	uv_work_t work;
	struct sal_compile_request *pending; /* compile, while the pool has it */
};

TAILQ_HEAD(svc_task_list, svc_task);

/* Hand a task to the main thread. */
void svc_tasks_post(struct svc_server *server, struct svc_task *take_task) SVC_LOCKED;
/* Start the next posted task. */
void svc_on_tasks(uv_async_t *bell);
/* The session ends: the pool forgets its tasks. */
void svc_tasks_cancel(struct svc_session *s);

#endif
