/* SPDX-License-Identifier: Apache-2.0 */
/* task - one program on its way through the pool: hashed, searched, queued, compiled, stored. */
#include "compile/pool/pool_impl.h"

#include <stdlib.h>
#include <string.h>

#include "compile/store/key.h"

/* Programs up to this size are hashed on the loop's thread: about a millisecond. */
#define SMALL_PROGRAM_BYTES (UINT64_C(1) << 20)
/* Limit of tasks at once: each task holds its program's bytes. */
#define TASKS_MAX 4096

static int compare_tasks(const struct sal_task *a, const struct sal_task *b)
{
	return memcmp(a->key, b->key, SAL_PROGRAM_KEY_BYTES);
}

RB_GENERATE_INTERNAL(sal_task_tree, sal_task, by_key, compare_tasks, static __attribute__((unused)))

static void settle(struct sal_task *task);

static struct sal_text put(char **to, struct sal_text text)
{
	struct sal_text copy = { *to, text.size };

	if (text.size > 0)
		memcpy(*to, text.at, text.size);
	*to += text.size;
	return copy;
}

struct sal_task *sal_task_create(struct sal_compile_pool *pool, uint64_t owner,
				 const struct sal_compile_source *source, struct sal_err *err)
{
	struct sal_owner *whose;
	struct sal_task *task;
	char *to;

	if (pool->task_count >= TASKS_MAX) {
		(void)sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
				  "%u programs are already waiting to be compiled",
				  pool->task_count);
		return NULL;
	}
	task = calloc(1, sizeof(*task));
	to = malloc(source->format.size + source->options.size + 1);
	whose = task && to ? sal_owner_find(pool, owner) : NULL;
	if (!whose) {
		free(task);
		free(to);
		(void)sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
				  "no memory for a program of %zu bytes", source->program.size);
		return NULL;
	}
	task->pool = pool;
	task->bytes = to;
	task->work.data = task;
	task->source.format = put(&to, source->format);
	task->source.program = source->program;
	task->source.options = put(&to, source->options);
	task->source.devices = source->devices;
	TAILQ_INIT(&task->waiters);
	sal_owner_assign(task, whose);
	LIST_INSERT_HEAD(&pool->tasks, task, all);
	pool->task_count++;
	return task;
}

/* After this, no task joins this one. */
static void forget_key(struct sal_task *task)
{
	if (task->has_key)
		RB_REMOVE(sal_task_tree, &task->pool->by_key, task);
	task->has_key = false;
}

void sal_task_free(struct sal_task *task)
{
	struct sal_compile_request *r;

	forget_key(task);
	if (task->stage == SAL_TASK_QUEUED)
		sal_owner_unqueue(task);
	sal_owner_assign(task, NULL);
	while ((r = TAILQ_FIRST(&task->waiters))) {
		TAILQ_REMOVE(&task->waiters, r, link);
		sal_request_free(r);
	}
	LIST_REMOVE(task, all);
	task->pool->task_count--;
	sal_image_unref(task->found);
	free(task->bytes);
	free((void *)task->source.program.at);
	free(task);
}

static void succeed(struct sal_task *task, struct sal_image *take_image)
{
	sal_request_answer(task, SAL_OK, NULL, take_image);
	sal_image_unref(take_image);
	sal_task_free(task);
}

void sal_task_fail(struct sal_task *task, int code, const char *message)
{
	task->pool->stats.failed++;
	sal_request_answer(task, code, message, NULL);
	sal_task_free(task);
}

void sal_task_left(struct sal_task *task)
{
	if (!TAILQ_EMPTY(&task->waiters))
		return;
	if (task->stage == SAL_TASK_QUEUED) {
		sal_task_free(task);
	} else if (task->stage == SAL_TASK_RUNNING) {
		forget_key(task);
		sal_crew_abandon(task);
	}
}

/* Compiled */

void sal_task_compiled(struct sal_task *task, struct sal_image *take_image)
{
	struct sal_compile_pool *pool = task->pool;

	memcpy(take_image->key, task->key, sizeof(take_image->key));
	pool->stats.compiled++;
	take_image = sal_shelf_put(pool->shelf, take_image);
	sal_store_queue_add(pool, take_image);
	succeed(task, take_image);
}

/* Looked for */

static void enqueue(struct sal_task *task)
{
	if (TAILQ_EMPTY(&task->waiters)) {
		sal_task_free(task);
		return;
	}
	task->stage = SAL_TASK_QUEUED;
	sal_owner_queue(task);
	sal_crew_dispatch(task->pool);
}

void sal_task_requeue(struct sal_task *task)
{
	struct sal_owner *owner = task->owner;

	owner->running--;
	task->stage = SAL_TASK_QUEUED;
	task->was_moved = true;
	sal_owner_queue(task);
}

static void work(uv_work_t *uv_work)
{
	struct sal_task *task = uv_work->data;

	if (task->stage == SAL_TASK_HASHING)
		sal_program_key(&task->source, task->pool->identity, task->key);
	else
		task->found = sal_disk_read(&task->pool->disk, task->key);
}

static void worked(uv_work_t *uv_work, int status)
{
	struct sal_task *task = uv_work->data;
	struct sal_compile_pool *pool = task->pool;
	struct sal_image *image = task->found;

	(void)status;
	if (pool->closing || TAILQ_EMPTY(&task->waiters)) {
		sal_task_free(task);
	} else if (task->stage == SAL_TASK_HASHING) {
		settle(task);
	} else if (image) {
		task->found = NULL;
		pool->stats.disk_hits++;
		succeed(task, sal_shelf_put(pool->shelf, image));
	} else {
		enqueue(task);
	}
	sal_pool_unpin(pool);
}

static void start_work(struct sal_task *task, enum sal_task_stage stage)
{
	task->stage = stage;
	task->pool->pins++;
	(void)uv_queue_work(task->pool->loop, &task->work, work, worked);
}

/*
 * The other task counts for its first owner. If the other task is still queued behind that owner's
 * programs, and the joining owner has no other task queued, the other task moves to the
 * joining owner, whose turn comes sooner.
 */
static void join(struct sal_task *task, struct sal_task *other)
{
	struct sal_compile_request *r;

	if (other->stage == SAL_TASK_QUEUED && TAILQ_EMPTY(&task->owner->queue)) {
		sal_owner_unqueue(other);
		sal_owner_assign(other, task->owner);
		sal_owner_queue(other);
	}

	TAILQ_CONCAT(&other->waiters, &task->waiters, link);
	TAILQ_FOREACH(r, &other->waiters, link)
		r->task = other;
	sal_task_free(task);
	sal_crew_dispatch(other->pool);
}

/* Call this when the task has its key. */
static void settle(struct sal_task *task)
{
	struct sal_compile_pool *pool = task->pool;
	struct sal_image *image = sal_shelf_find(pool->shelf, task->key);
	struct sal_task *other;

	if (image) {
		pool->stats.memory_hits++;
		succeed(task, image);
		return;
	}
	other = RB_INSERT(sal_task_tree, &pool->by_key, task);
	if (other) {
		join(task, other);
		return;
	}
	task->has_key = true;
	if (pool->stats.has_disk)
		start_work(task, SAL_TASK_READING);
	else
		enqueue(task);
}

void sal_task_start(struct sal_task *task)
{
	if (task->source.program.size > SMALL_PROGRAM_BYTES) {
		start_work(task, SAL_TASK_HASHING);
		return;
	}
	sal_program_key(&task->source, task->pool->identity, task->key);
	settle(task);
}
