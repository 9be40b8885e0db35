/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crew - the pool's helpers. One is started at once, others when all are busy, up to the number of posts.
 *
 * One that ends at its work is replaced at once, so that a warm one is there for the next program. One that
 * ended without ever having been asked is replaced only when it is needed: what cannot start is not started
 * over and over.
 */
#include "compile/pool_impl.h"

#include <stdlib.h>

static void post_answered(void *ctx, int code, const char *message, struct sal_image *image)
{
	struct sal_post *post = ctx;
	struct sal_compile_pool *pool = post->pool;
	struct sal_task *task = post->task;

	post->task = NULL;
	pool->stats.running--;
	if (pool->closing) {
		sal_image_unref(image);
		sal_task_free(task);
		return;
	}
	if (image)
		sal_task_compiled(task, image);
	else
		sal_task_fail(task, code, message);
	sal_crew_dispatch(pool);
}

static int fill(struct sal_post *post, struct sal_err *err);

static void post_ended(void *ctx, int code, const char *fate)
{
	struct sal_post *post = ctx;
	struct sal_compile_pool *pool = post->pool;
	struct sal_task *task = post->task;

	post->helper = NULL;
	post->task = NULL;
	if (task)
		pool->stats.running--;
	if (pool->closing) {
		if (task)
			sal_task_free(task);
		return;
	}
	pool->stats.helper_deaths++;
	if (post->was_asked)
		(void)fill(post, NULL); /* if it does not start, the next task will tell */
	if (task)
		sal_task_fail(task, code, fate);
	sal_crew_dispatch(pool);
}

static void post_closed(void *ctx)
{
	struct sal_post *post = ctx;

	sal_pool_unpin(post->pool);
}

static int fill(struct sal_post *post, struct sal_err *err)
{
	static const struct sal_helper_events events = {
		.answered = post_answered,
		.ended = post_ended,
		.closed = post_closed,
	};
	struct sal_compile_pool *pool = post->pool;
	struct sal_helper_config cfg = { .path = pool->helper_path,
					 .plugin = pool->plugin_path,
					 .events = &events,
					 .ctx = post };
	int rc = sal_helper_start(pool->loop, &cfg, &post->helper, err);

	post->was_asked = false;
	if (rc == SAL_OK)
		pool->pins++;
	return rc;
}

int sal_crew_open(struct sal_compile_pool *pool, uint32_t count, struct sal_err *err)
{
	pool->posts = calloc(count, sizeof(*pool->posts));
	if (!pool->posts)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for %u helpers", count);
	pool->post_count = count;
	for (uint32_t i = 0; i < count; i++)
		pool->posts[i].pool = pool;
	return fill(&pool->posts[0], err);
}

void sal_crew_stop(struct sal_compile_pool *pool)
{
	for (uint32_t i = 0; i < pool->post_count; i++)
		if (pool->posts[i].helper)
			sal_helper_stop(pool->posts[i].helper);
}

/* One that can be asked now, rather warm than new. NULL: all are busy, or (with err set) none starts. */
static struct sal_post *find_post(struct sal_compile_pool *pool, struct sal_err *err)
{
	struct sal_post *vacant = NULL;
	bool has_helper = false;

	for (uint32_t i = 0; i < pool->post_count; i++) {
		struct sal_post *post = &pool->posts[i];

		if (post->helper && sal_helper_is_idle(post->helper))
			return post;
		if (post->helper)
			has_helper = true;
		else if (!vacant)
			vacant = post;
	}
	if (!vacant)
		return NULL;
	/* A busy helper will come back to the task; without any, nobody would. */
	return fill(vacant, has_helper ? NULL : err) == SAL_OK ? vacant : NULL;
}

void sal_crew_dispatch(struct sal_compile_pool *pool)
{
	struct sal_task *task;

	while ((task = TAILQ_FIRST(&pool->queue))) {
		struct sal_err err = { 0 };
		struct sal_post *post = find_post(pool, &err);

		if (!post && err.code == SAL_OK)
			return;
		if (!post ||
		    sal_helper_ask(post->helper, ++pool->last_id, &task->source, &err) < 0) {
			sal_task_fail(task, err.code, err.text);
			continue;
		}
		TAILQ_REMOVE(&pool->queue, task, queue);
		task->stage = SAL_TASK_RUNNING;
		post->task = task;
		post->was_asked = true;
		pool->stats.running++;
	}
}

uint32_t sal_compile_helpers(const struct sal_compile_pool *pool, int *out_pids, uint32_t room)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < pool->post_count; i++) {
		if (!pool->posts[i].helper)
			continue;
		if (count < room)
			out_pids[count] = sal_helper_pid(pool->posts[i].helper);
		count++;
	}
	return count;
}
