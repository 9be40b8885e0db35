/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner - decides whose task is next. Each owner has a queue, and owners take turns: however many
 * programs one owner queues, a program of another owner waits only for the running tasks.
 *
 * The owner with the fewest running tasks is next. Among equals, the owner that has waited longest
 * for its turn is next. The last free helper is reserved for owners without a running task, so that
 * slow compilations of one owner never occupy all helpers. With a single helper nothing is
 * reserved.
 */
#include "compile/pool/pool_impl.h"

#include <stdlib.h>

struct sal_owner *sal_owner_find(struct sal_compile_pool *pool, uint64_t id)
{
	struct sal_owner *owner;

	LIST_FOREACH(owner, &pool->owners, all)
		if (owner->id == id)
			return owner;
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	owner->id = id;
	TAILQ_INIT(&owner->queue);
	LIST_INSERT_HEAD(&pool->owners, owner, all);
	return owner;
}

static bool has_helper(const struct sal_task *task)
{
	return task->stage == SAL_TASK_RUNNING || task->stage == SAL_TASK_ENDING;
}

static void release(struct sal_task *task)
{
	struct sal_owner *owner = task->owner;

	task->owner = NULL;
	if (has_helper(task))
		owner->running--;
	if (--owner->tasks > 0)
		return;
	SAL_ASSERT(owner->running == 0 && TAILQ_EMPTY(&owner->queue));
	LIST_REMOVE(owner, all);
	free(owner);
}

void sal_owner_assign(struct sal_task *task, struct sal_owner *owner)
{
	if (owner) {
		owner->tasks++;
		owner->running += has_helper(task);
	}
	if (task->owner)
		release(task);
	task->owner = owner;
}

void sal_owner_queue(struct sal_task *task)
{
	struct sal_owner *owner = task->owner;

	if (TAILQ_EMPTY(&owner->queue))
		TAILQ_INSERT_TAIL(&task->pool->turns, owner, turn);
	TAILQ_INSERT_TAIL(&owner->queue, task, queue);
}

void sal_owner_unqueue(struct sal_task *task)
{
	struct sal_owner *owner = task->owner;

	TAILQ_REMOVE(&owner->queue, task, queue);
	if (TAILQ_EMPTY(&owner->queue))
		TAILQ_REMOVE(&task->pool->turns, owner, turn);
}

struct sal_owner *sal_owner_next(const struct sal_compile_pool *pool, uint32_t free_posts)
{
	bool is_last_reserved = pool->post_count > 1 && free_posts == 1;
	struct sal_owner *owner, *next = NULL;

	if (free_posts == 0)
		return NULL;
	TAILQ_FOREACH(owner, &pool->turns, turn)
		if (!next || owner->running < next->running)
			next = owner;
	return next && is_last_reserved && next->running > 0 ? NULL : next;
}

struct sal_task *sal_owner_take(struct sal_compile_pool *pool, struct sal_owner *owner)
{
	struct sal_task *task = TAILQ_FIRST(&owner->queue);

	TAILQ_REMOVE(&owner->queue, task, queue);
	TAILQ_REMOVE(&pool->turns, owner, turn);
	if (!TAILQ_EMPTY(&owner->queue))
		TAILQ_INSERT_TAIL(&pool->turns, owner, turn);
	task->stage = SAL_TASK_RUNNING;
	owner->running++;
	return task;
}

static uint32_t count(const struct sal_owner *owner, uint32_t count_max)
{
	const struct sal_task *task;
	uint32_t n = 0;

	TAILQ_FOREACH(task, &owner->queue, queue)
		if (n++ == count_max)
			return count_max;
	return n;
}

uint32_t sal_owner_ahead(const struct sal_task *task)
{
	const struct sal_owner *owner;
	const struct sal_task *other;
	uint32_t own = 0, ahead;
	bool before = true;

	for (other = TAILQ_FIRST(&task->owner->queue); other != task;
	     other = TAILQ_NEXT(other, queue))
		own++;
	ahead = own;
	TAILQ_FOREACH(owner, &task->pool->turns, turn) {
		if (owner == task->owner)
			before = false;
		else
			ahead += count(owner, own + before);
	}
	return ahead;
}
