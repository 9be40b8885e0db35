/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request - a client waits for a program. Answers are delivered from the loop, never inside a call
 * of the client, so that the client's callback may submit, cancel or close.
 */
#include "compile/pool/pool_impl.h"

#include <stdlib.h>
#include <string.h>

struct sal_compile_request *sal_request_create(struct sal_compile_pool *pool,
					       const struct sal_compile_asker *asker)
{
	struct sal_compile_request *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->pool = pool;
	r->asker = *asker;
	r->since_ns = uv_hrtime();
	return r;
}

void sal_request_free(struct sal_compile_request *r)
{
	free(r->message);
	sal_image_unref(r->image);
	free(r);
}

void sal_request_answer(struct sal_task *task, int code, const char *message,
			struct sal_image *image)
{
	struct sal_compile_pool *pool = task->pool;
	struct sal_compile_request *r;

	while ((r = TAILQ_FIRST(&task->waiters))) {
		TAILQ_REMOVE(&task->waiters, r, link);
		r->task = NULL;
		r->code = code;
		r->message = message ? strdup(message) : NULL;
		r->image = image ? sal_image_ref(image) : NULL;
		TAILQ_INSERT_TAIL(&pool->ready, r, link);
		pool->ready_count++;
	}
	if (pool->ready_count > 0)
		(void)uv_idle_start(&pool->deliver, sal_request_deliver);
}

static void deliver_one(struct sal_compile_pool *pool, struct sal_compile_request *r)
{
	struct sal_image *image = r->image;

	TAILQ_REMOVE(&pool->ready, r, link);
	pool->ready_count--;
	r->image = NULL; /* the callback owns it now */
	r->asker.fn(r->asker.ctx, r->code, r->message ? r->message : "", image);
	sal_request_free(r);
}

/*
 * Delivers one round. A request that a callback submits waits for the next round, so that the loop
 * can serve others in between.
 */
void sal_request_deliver(uv_idle_t *idle)
{
	struct sal_compile_pool *pool = idle->data;
	uint32_t round = pool->ready_count;

	while (round-- > 0 && !TAILQ_EMPTY(&pool->ready))
		/* The analyzer does not see that TAILQ_REMOVE moves the head. */
		deliver_one(pool, TAILQ_FIRST(&pool->ready)); // NOLINT(clang-analyzer-unix.Malloc)
	if (pool->ready_count == 0 && !pool->closing)
		(void)uv_idle_stop(idle);
}

void sal_compile_cancel(struct sal_compile_request *request)
{
	struct sal_compile_pool *pool = request->pool;
	struct sal_task *task = request->task;

	if (task) {
		TAILQ_REMOVE(&task->waiters, request, link);
		sal_task_left(task);
	} else {
		TAILQ_REMOVE(&pool->ready, request, link);
		pool->ready_count--;
	}
	sal_request_free(request);
}

void sal_compile_waiting(const struct sal_compile_request *request,
			 struct sal_compile_wait *out_wait)
{
	const struct sal_task *task = request->task;

	*out_wait = (struct sal_compile_wait){ .waited_ns = uv_hrtime() - request->since_ns };
	if (!task)
		return; /* the answer will be delivered soon */
	if (task->stage == SAL_TASK_QUEUED) {
		out_wait->stage = SAL_COMPILE_QUEUED;
		out_wait->ahead = sal_owner_ahead(task);
	} else if (task->stage == SAL_TASK_RUNNING) {
		out_wait->stage = SAL_COMPILE_RUNNING;
		out_wait->ran_ns = uv_hrtime() - task->start_ns;
	}
}
