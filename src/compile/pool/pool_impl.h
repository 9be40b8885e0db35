/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_impl - the pool from within. A request waits for a task, a task for a helper:
 *
 *     submit -> hashing -> [same key: join that task]
 *                       -> [on the shelf] --------------------------+
 *                       -> looking (disk) -> [found] ---------------+-> ready -> fn
 *                                         -> queued -> running -----+
 *                                                      -> ending (nobody waits) -> gone
 *
 * pool.c has the interface, request.c what waits, task.c the stages, owner.c whose turn it is, crew.c the
 * helpers, keep.c what goes to the disk.
 */
#ifndef SAL_COMPILE_POOL_IMPL_H
#define SAL_COMPILE_POOL_IMPL_H

#include <stdbool.h>
#include <sys/queue.h>

#include <bsd/sys/tree.h>

#include "compile/store/disk.h"
#include "compile/pool/helper.h"
#include "compile/pool/pool.h"
#include "compile/store/shelf.h"

struct sal_task;

struct sal_compile_request {
	TAILQ_ENTRY(sal_compile_request) link; /* task->waiters, then pool->ready */
	struct sal_compile_pool *pool; /* borrowed */
	struct sal_task *task; /* borrowed; NULL: ready */
	struct sal_compile_asker asker;
	uint64_t since_ns;
	int code;
	char *message; /* owned */
	struct sal_image *image; /* owned: one reference */
};
TAILQ_HEAD(sal_request_list, sal_compile_request);

TAILQ_HEAD(sal_task_queue, sal_task);

enum sal_task_stage {
	SAL_TASK_HASHING, /* on a worker thread, if large */
	SAL_TASK_LOOKING, /* on a worker thread */
	SAL_TASK_QUEUED,
	SAL_TASK_RUNNING, /* a helper has it, and may still read its bytes */
	SAL_TASK_ENDING, /* its helper was killed and is not reaped; nobody waits for it or joins it */
};

/* Whose tasks they are. It is there while it has any. */
struct sal_owner {
	LIST_ENTRY(sal_owner) all; /* pool->owners */
	TAILQ_ENTRY(sal_owner) turn; /* pool->turns, while a task of it is queued */
	uint64_t id;
	uint32_t tasks; /* that count for it */
	uint32_t running; /* of these, with a helper */
	struct sal_task_queue queue; /* of these, queued */
};
LIST_HEAD(sal_owner_list, sal_owner);
TAILQ_HEAD(sal_owner_queue, sal_owner);

struct sal_task {
	RB_ENTRY(sal_task) by_key; /* pool->by_key, from looking on */
	TAILQ_ENTRY(sal_task) queue; /* owner->queue, when queued */
	LIST_ENTRY(sal_task) all; /* pool->tasks */
	struct sal_compile_pool *pool; /* borrowed */
	struct sal_owner *owner; /* borrowed: pool */
	enum sal_task_stage stage;
	uint64_t start_ns; /* a helper got it */
	bool was_moved; /* it was given to a second helper: the first ran out of memory */
	bool has_key;
	uint8_t key[SAL_PROGRAM_KEY_BYTES];
	char *bytes; /* owned: the format and the options of source */
	struct sal_compile_source source; /* owns the program's bytes */
	struct sal_request_list waiters; /* owned */
	uv_work_t work;
	struct sal_image *found; /* owned; on its way from the disk */
};
RB_HEAD(sal_task_tree, sal_task);
LIST_HEAD(sal_task_list, sal_task);

/* A place for a helper. */
struct sal_post {
	struct sal_compile_pool *pool; /* borrowed */
	struct sal_helper *helper; /* owned; NULL: vacant */
	struct sal_task *task; /* owned; what it is asked */
	struct sal_err verdict; /* why we killed it, if we did */
	uint32_t asked; /* so many tasks were given to this helper */
	uint64_t idle_ns; /* since when it has nothing to do */
};

struct sal_saving;
STAILQ_HEAD(sal_saving_queue, sal_saving);

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
	struct sal_owner_list owners; /* owned */
	struct sal_owner_queue turns;
	uint64_t last_id;

	struct sal_request_list ready; /* owned */
	uint32_t ready_count;
	uv_idle_t deliver; /* active while something is ready */

	struct sal_post *posts; /* owned */
	uint32_t post_count;
	struct sal_helper_limits limits; /* of each helper */
	uint64_t task_limit_ns;
	uint64_t spare_ns;
	uv_timer_t watch; /* active until the next task is due, or the next spare helper */

	struct sal_saving_queue savings; /* owned */
	uint32_t saving_count;
	uint64_t saving_bytes;
	bool is_saving; /* the first */
	uv_timer_t lull; /* active until the first is to be written */

	struct sal_compile_stats stats;
	bool closing;
	uint32_t pins; /* handles and work that refer to the pool; it goes with the last */
};

/* pool.c */
void sal_pool_unpin(struct sal_compile_pool *pool);

/* request.c */
struct sal_compile_request *sal_request_create(struct sal_compile_pool *pool,
					       const struct sal_compile_asker *asker);
void sal_request_free(struct sal_compile_request *r);
/* All waiters become ready; image is borrowed. */
void sal_request_answer(struct sal_task *task, int code, const char *message,
			struct sal_image *image);
void sal_request_deliver(uv_idle_t *idle);

/* task.c */
/* Takes the program's bytes; NULL: no memory, or too many tasks, and nothing is taken. */
struct sal_task *sal_task_create(struct sal_compile_pool *pool, uint64_t owner,
				 const struct sal_compile_source *source, struct sal_err *err);
void sal_task_free(struct sal_task *task);
/* To its end; the task may be gone when this returns. */
void sal_task_start(struct sal_task *task);
void sal_task_fail(struct sal_task *task, int code, const char *message);
void sal_task_compiled(struct sal_task *task, struct sal_image *take_image);
/* Back into the queue, to be compiled again. */
void sal_task_requeue(struct sal_task *task);
/* One waiter less. If that was the last, the task goes, or is ended if a helper has it. */
void sal_task_left(struct sal_task *task);

/* owner.c */
/* NULL: no memory. */
struct sal_owner *sal_owner_find(struct sal_compile_pool *pool, uint64_t id);
/* The task counts for the owner from now on, and for the one before no longer. NULL: for nobody. */
void sal_owner_assign(struct sal_task *task, struct sal_owner *owner);
void sal_owner_queue(struct sal_task *task);
void sal_owner_unqueue(struct sal_task *task);
/* Who is next, if that many helpers can be had; NULL: nobody. */
struct sal_owner *sal_owner_next(const struct sal_compile_pool *pool, uint32_t free_posts);
/* Its first task goes to a helper. */
struct sal_task *sal_owner_take(struct sal_compile_pool *pool, struct sal_owner *owner);
/* Queued tasks that are served before this one. */
uint32_t sal_owner_ahead(const struct sal_task *task);

/* keep.c */
/* To the disk, if there is one, later, and after all that was given before. */
void sal_keep(struct sal_compile_pool *pool, struct sal_image *image);
/* Now. */
void sal_keep_all(struct sal_compile_pool *pool);

/* crew.c */
int sal_crew_open(struct sal_compile_pool *pool, uint32_t count, struct sal_err *err);
void sal_crew_stop(struct sal_compile_pool *pool);
/* Gives queued tasks to helpers. */
void sal_crew_dispatch(struct sal_compile_pool *pool);
/* Nobody waits for a task that a helper has: ends both. */
void sal_crew_abandon(struct sal_task *task);

#endif
