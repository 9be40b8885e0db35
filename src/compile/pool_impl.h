/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_impl - the pool from within. A request waits for a task, a task for a helper:
 *
 *     submit -> hashing -> [same key: join that task]
 *                       -> [on the shelf] --------------------------+
 *                       -> looking (disk) -> [found] ---------------+-> ready -> fn
 *                                         -> queued -> running -----+
 *
 * pool.c has the interface, request.c what waits, task.c the stages, crew.c the helpers.
 */
#ifndef SAL_COMPILE_POOL_IMPL_H
#define SAL_COMPILE_POOL_IMPL_H

#include <stdbool.h>
#include <sys/queue.h>

#include <bsd/sys/tree.h>

#include "compile/disk.h"
#include "compile/helper.h"
#include "compile/pool.h"
#include "compile/shelf.h"

struct sal_task;

struct sal_compile_request {
	TAILQ_ENTRY(sal_compile_request) link; /* task->waiters, then pool->ready */
	struct sal_compile_pool *pool; /* borrowed */
	struct sal_task *task; /* borrowed; NULL: ready */
	sal_compiled_fn *fn;
	void *ctx;
	int code;
	char *message; /* owned */
	struct sal_image *image; /* owned: one reference */
};
TAILQ_HEAD(sal_request_list, sal_compile_request);

enum sal_task_stage {
	SAL_TASK_HASHING, /* on a worker thread, if large */
	SAL_TASK_LOOKING, /* on a worker thread */
	SAL_TASK_QUEUED,
	SAL_TASK_RUNNING, /* a helper has it, and may still read its bytes */
};

struct sal_task {
	RB_ENTRY(sal_task) by_key; /* pool->by_key, from looking on */
	TAILQ_ENTRY(sal_task) queue; /* pool->queue, when queued */
	LIST_ENTRY(sal_task) all; /* pool->tasks */
	struct sal_compile_pool *pool; /* borrowed */
	enum sal_task_stage stage;
	bool has_key;
	uint8_t key[SAL_PROGRAM_KEY_BYTES];
	char *bytes; /* owned: what source points into */
	struct sal_compile_source source;
	struct sal_request_list waiters; /* owned */
	uv_work_t work;
	struct sal_image *found; /* owned; on its way from the disk */
};
RB_HEAD(sal_task_tree, sal_task);
TAILQ_HEAD(sal_task_queue, sal_task);
LIST_HEAD(sal_task_list, sal_task);

/* A place for a helper. */
struct sal_post {
	struct sal_compile_pool *pool; /* borrowed */
	struct sal_helper *helper; /* owned; NULL: vacant */
	struct sal_task *task; /* owned; what it is asked */
	bool was_asked;
};

struct sal_compile_pool {
	uv_loop_t *loop; /* borrowed */
	char *helper_path, *plugin_path; /* owned */
	uint8_t identity[SAL_IDENTITY_BYTES];
	struct sal_disk disk;
	struct sal_seal seal;
	struct sal_shelf *shelf; /* owned */

	struct sal_task_list tasks; /* owned */
	uint32_t task_count;
	struct sal_task_tree by_key;
	struct sal_task_queue queue;
	uint64_t last_id;

	struct sal_request_list ready; /* owned */
	uint32_t ready_count;
	uv_idle_t deliver; /* active while something is ready */

	struct sal_post *posts; /* owned */
	uint32_t post_count;

	struct sal_compile_stats stats;
	bool closing;
	uint32_t pins; /* handles and work that refer to the pool; it goes with the last */
};

/* pool.c */
void sal_pool_unpin(struct sal_compile_pool *pool);

/* request.c */
struct sal_compile_request *sal_request_create(struct sal_compile_pool *pool, sal_compiled_fn *fn,
					       void *ctx);
void sal_request_free(struct sal_compile_request *r);
/* All waiters become ready; image is borrowed. */
void sal_request_answer(struct sal_task *task, int code, const char *message,
			struct sal_image *image);
void sal_request_deliver(uv_idle_t *idle);

/* task.c */
struct sal_task *sal_task_create(struct sal_compile_pool *pool,
				 const struct sal_compile_source *source, struct sal_err *err);
void sal_task_free(struct sal_task *task);
/* To its end; the task may be gone when this returns. */
void sal_task_start(struct sal_task *task);
void sal_task_fail(struct sal_task *task, int code, const char *message);
void sal_task_compiled(struct sal_task *task, struct sal_image *take_image);
/* One waiter less: the task goes if it is still queued and that was the last. */
void sal_task_left(struct sal_task *task);

/* crew.c */
int sal_crew_open(struct sal_compile_pool *pool, uint32_t count, struct sal_err *err);
void sal_crew_stop(struct sal_compile_pool *pool);
/* Gives queued tasks to helpers. */
void sal_crew_dispatch(struct sal_compile_pool *pool);

#endif
