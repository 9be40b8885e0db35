/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_impl - the internals of the pool. A request waits for a task, a task for a helper:
 *
 *     submit -> hashing -> [same key: join that task]
 *                       -> [on the shelf] --------------------------+
 *                       -> reading (disk) -> [found] ---------------+-> ready -> fn
 *                                         -> queued -> running -----+
 *                                                      -> ending (nobody waits) -> gone
 *
 * pool.c has the interface, request.c the requests, task.c the stages, owner.c the turns, crew.c
 * the helpers, store_queue.c the writes to the disk.
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
	SAL_TASK_HASHING, /* on a libuv thread, if the program is large */
	SAL_TASK_READING, /* from disk, on a libuv thread */
	SAL_TASK_QUEUED,
	SAL_TASK_RUNNING, /* a helper compiles it and may still read its bytes */
	SAL_TASK_ENDING, /* its helper was killed and is not reaped; no task joins it */
};

/* The owner of tasks. It exists while it has a task. */
struct sal_owner {
	LIST_ENTRY(sal_owner) all; /* pool->owners */
	TAILQ_ENTRY(sal_owner) turn; /* pool->turns, while it has a queued task */
	uint64_t id;
	uint32_t tasks; /* number of its tasks */
	uint32_t running; /* tasks at a helper */
	struct sal_task_queue queue; /* tasks that are queued */
};
LIST_HEAD(sal_owner_list, sal_owner);
TAILQ_HEAD(sal_owner_queue, sal_owner);

struct sal_task {
	RB_ENTRY(sal_task) by_key; /* pool->by_key, from SAL_TASK_READING on */
	TAILQ_ENTRY(sal_task) queue; /* owner->queue, while queued */
	LIST_ENTRY(sal_task) all; /* pool->tasks */
	struct sal_compile_pool *pool; /* borrowed */
	struct sal_owner *owner; /* borrowed: pool */
	enum sal_task_stage stage;
	uint64_t start_ns; /* when a helper got the task */
	bool was_moved; /* this is the second helper: the first one ran out of memory */
	bool has_key;
	uint8_t key[SAL_PROGRAM_KEY_BYTES];
	char *bytes; /* owned: the format and the options of source */
	struct sal_compile_source source; /* owns the program's bytes */
	struct sal_request_list waiters; /* owned */
	uv_work_t work;
	struct sal_image *found; /* owned; read from the disk, not yet delivered */
};
RB_HEAD(sal_task_tree, sal_task);
LIST_HEAD(sal_task_list, sal_task);

/* A place for a helper. */
struct sal_post {
	struct sal_compile_pool *pool; /* borrowed */
	struct sal_helper *helper; /* owned; NULL: vacant */
	struct sal_task *task; /* owned; the task that the helper compiles */
	struct sal_err kill_err; /* why the crew killed the helper, if it did */
	uint32_t asked; /* number of tasks that this helper got */
	uint64_t idle_ns; /* the time since which the helper is idle */
};

struct sal_store_entry;
STAILQ_HEAD(sal_store_list, sal_store_entry);

struct sal_compile_pool {
	uv_loop_t *loop; /* borrowed */
	char *helper_path, *plugin_path; /* owned */
	const char *const *plugin_options; /* borrowed: the config; NULL: none */
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
	uv_idle_t deliver; /* active while a request is ready */

	struct sal_post *posts; /* owned */
	uint32_t post_count;
	struct sal_helper_limits limits; /* limits of each helper */
	uint64_t task_limit_ns;
	uint64_t spare_ns;
	uv_timer_t watch; /* fires at the next time limit of a task or spare helper */

	struct sal_store_list store_queue; /* owned */
	uint32_t store_count;
	uint64_t store_bytes;
	bool is_storing; /* the first entry is being written */
	uv_timer_t lull; /* fires when writing begins */

	struct sal_compile_stats stats;
	bool closing;
	uint32_t pins; /* handles and work that refer to the pool; the last one frees it */
};

/* pool.c */
void sal_pool_unpin(struct sal_compile_pool *pool);

/* request.c */
struct sal_compile_request *sal_request_create(struct sal_compile_pool *pool,
					       const struct sal_compile_asker *asker);
void sal_request_free(struct sal_compile_request *r);
/* Makes all waiters ready; image is borrowed. */
void sal_request_answer(struct sal_task *task, int code, const char *message,
			struct sal_image *image);
void sal_request_deliver(uv_idle_t *idle);

/* task.c */
/* Takes the program's bytes. NULL: no memory or too many tasks; then nothing is taken. */
struct sal_task *sal_task_create(struct sal_compile_pool *pool, uint64_t owner,
				 const struct sal_compile_source *source, struct sal_err *err);
void sal_task_free(struct sal_task *task);
/* These end the task. The task may be freed when the call returns. */
void sal_task_start(struct sal_task *task);
void sal_task_fail(struct sal_task *task, int code, const char *message);
void sal_task_compiled(struct sal_task *task, struct sal_image *take_image);
/* Queues the task again. */
void sal_task_requeue(struct sal_task *task);
/* One waiter has left. Without waiters the task is freed, or abandoned if a helper has it. */
void sal_task_left(struct sal_task *task);

/* owner.c */
/* NULL: no memory. */
struct sal_owner *sal_owner_find(struct sal_compile_pool *pool, uint64_t id);
/* Counts the task for this owner, and no longer for the former one. NULL: for nobody. */
void sal_owner_assign(struct sal_task *task, struct sal_owner *owner);
void sal_owner_queue(struct sal_task *task);
void sal_owner_unqueue(struct sal_task *task);
/* The next owner, if free_posts helpers are free; NULL: nobody. */
struct sal_owner *sal_owner_next(const struct sal_compile_pool *pool, uint32_t free_posts);
/* Gives the owner's first task to a helper. */
struct sal_task *sal_owner_take(struct sal_compile_pool *pool, struct sal_owner *owner);
/* The number of queued tasks that are served before this one. */
uint32_t sal_owner_ahead(const struct sal_task *task);

/* store_queue.c */
/* Queues the image for the disk, if there is one. */
void sal_store_queue_add(struct sal_compile_pool *pool, struct sal_image *image);
/* Starts to write all queued images. */
void sal_store_queue_flush(struct sal_compile_pool *pool);

/* crew.c */
int sal_crew_open(struct sal_compile_pool *pool, uint32_t count, struct sal_err *err);
void sal_crew_stop(struct sal_compile_pool *pool);
/* Gives queued tasks to helpers. */
void sal_crew_dispatch(struct sal_compile_pool *pool);
/* Nobody waits for this task any more: kills its helper. */
void sal_crew_abandon(struct sal_task *task);

#endif
