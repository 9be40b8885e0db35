/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crew - the pool's helpers. The first helper starts at once. More start when all are busy, up to
 * the number of posts.
 *
 * The crew keeps one helper warm: a helper that ends is replaced at once if no other is idle. A
 * helper that ended before its first task is replaced only when one is needed, so that a helper
 * that cannot start is not started again and again. A second idle helper ends after a while.
 *
 * The crew kills a helper if its task exceeds the time limit, or if nobody waits for its task any
 * more. An answer that the helper sent before its end still counts.
 */
#include "compile/pool/pool_impl.h"

#include <stdlib.h>

#include "base/units.h"

/* Time */

static bool is_idle(const struct sal_post *post)
{
	return post->helper && sal_helper_is_idle(post->helper);
}

static uint32_t count_idle(const struct sal_compile_pool *pool)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < pool->post_count; i++)
		n += is_idle(&pool->posts[i]);
	return n;
}

/* When this post needs attention; UINT64_MAX: never. */
static uint64_t due_ns(const struct sal_post *post, uint32_t idle)
{
	if (is_idle(post) && idle > 1)
		return post->idle_ns + post->pool->spare_ns;
	if (post->task && post->task->stage == SAL_TASK_RUNNING && !post->kill_err.code)
		return post->task->start_ns + post->pool->task_limit_ns;
	return UINT64_MAX;
}

static void on_watch(uv_timer_t *timer);

/* The timer fires when the first post is due. */
static void set_watch(struct sal_compile_pool *pool)
{
	uint64_t first_ns = UINT64_MAX, now_ns = uv_hrtime();
	uint32_t idle = count_idle(pool);

	for (uint32_t i = 0; i < pool->post_count; i++) {
		uint64_t at_ns = due_ns(&pool->posts[i], idle);

		first_ns = at_ns < first_ns ? at_ns : first_ns;
	}
	if (pool->closing)
		return;
	if (first_ns == UINT64_MAX)
		(void)uv_timer_stop(&pool->watch);
	else
		(void)uv_timer_start(&pool->watch, on_watch,
				     first_ns > now_ns ? (first_ns - now_ns) / 1000000 + 1 : 0, 0);
}

static void end_late(struct sal_post *post)
{
	char limit[SAL_UNITS_TEXT];

	(void)sal_err_set(&post->kill_err, SAL_DEADLINE_EXCEEDED,
			  "the program took longer than %s to compile, which is the limit "
			  "(salusd --compile-time); no other program is affected",
			  sal_duration_format(post->pool->task_limit_ns, limit, sizeof(limit)));
	sal_helper_stop(post->helper);
}

static void on_watch(uv_timer_t *timer)
{
	struct sal_compile_pool *pool = timer->data;
	uint64_t now_ns = uv_hrtime();

	for (uint32_t i = 0; i < pool->post_count; i++) {
		struct sal_post *post = &pool->posts[i];

		if (due_ns(post, count_idle(pool)) > now_ns)
			continue;
		if (post->task)
			end_late(post);
		else
			sal_helper_stop(post->helper);
	}
	set_watch(pool);
}

void sal_crew_abandon(struct sal_task *task)
{
	struct sal_compile_pool *pool = task->pool;

	for (uint32_t i = 0; i < pool->post_count; i++)
		if (pool->posts[i].task == task)
			sal_helper_stop(pool->posts[i].helper);
	task->stage = SAL_TASK_ENDING;
	set_watch(pool);
}

/* Events */

static void post_answered(void *ctx, int code, const char *message, struct sal_image *image)
{
	struct sal_post *post = ctx;
	struct sal_compile_pool *pool = post->pool;
	struct sal_task *task = post->task;

	post->task = NULL;
	post->idle_ns = uv_hrtime();
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

/* The helper is gone. Its task fails, is tried again, or has no waiters. */
static void settle(struct sal_task *task, uint32_t asked, const struct sal_err *reason)
{
	struct sal_compile_stats *stats = &task->pool->stats;

	stats->running--;
	if (task->stage == SAL_TASK_ENDING) {
		stats->abandoned++;
		sal_task_free(task);
	} else if (reason->code == SAL_RESOURCE_EXHAUSTED && asked > 1 && !task->was_moved) {
		/* Earlier tasks may have used up most of the helper's memory. */
		sal_task_requeue(task);
	} else {
		stats->over_limit += reason->code == SAL_RESOURCE_EXHAUSTED ||
				     reason->code == SAL_DEADLINE_EXCEEDED;
		sal_task_fail(task, reason->code, reason->text);
	}
}

static void post_ended(void *ctx, const struct sal_err *end)
{
	struct sal_post *post = ctx;
	struct sal_compile_pool *pool = post->pool;
	struct sal_task *task = post->task;
	struct sal_err reason = post->kill_err.code ? post->kill_err : *end;
	uint32_t asked = post->asked;

	post->helper = NULL;
	post->task = NULL;
	if (pool->closing) {
		if (task)
			sal_task_free(task);
		return;
	}
	pool->stats.helper_deaths++;
	if (asked > 0 && count_idle(pool) == 0)
		(void)fill(post, NULL); /* if it does not start, the next task reports the error */
	if (task)
		settle(task, asked, &reason);
	sal_crew_dispatch(pool);
}

static void post_closed(void *ctx)
{
	struct sal_post *post = ctx;

	sal_pool_unpin(post->pool);
}

/* Posts */

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
					 .plugin_options = pool->plugin_options,
					 .limits = pool->limits,
					 .events = &events,
					 .ctx = post };
	int rc = sal_helper_start(pool->loop, &cfg, &post->helper, err);

	post->asked = 0;
	post->idle_ns = uv_hrtime();
	post->kill_err = (struct sal_err){ 0 };
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

/* Posts that can take a task now. Some of their helpers have yet to start. */
static uint32_t count_free(const struct sal_compile_pool *pool)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < pool->post_count; i++)
		n += !pool->posts[i].helper || is_idle(&pool->posts[i]);
	return n;
}

/*
 * A post that can take a task now, preferably with a warm helper. NULL: all are busy, or (with err
 * set) no helper starts.
 */
static struct sal_post *find_post(struct sal_compile_pool *pool, struct sal_err *err)
{
	struct sal_post *vacant = NULL;
	bool has_helper = false;

	for (uint32_t i = 0; i < pool->post_count; i++) {
		struct sal_post *post = &pool->posts[i];

		if (is_idle(post))
			return post;
		if (post->helper)
			has_helper = true;
		else if (!vacant)
			vacant = post;
	}
	if (!vacant)
		return NULL;
	/* A busy helper takes the task later. Without any helper, the task must fail now. */
	return fill(vacant, has_helper ? NULL : err) == SAL_OK ? vacant : NULL;
}

static void start(struct sal_post *post, struct sal_task *task)
{
	task->start_ns = uv_hrtime();
	post->task = task;
	post->asked++;
	post->pool->stats.running++;
}

void sal_crew_dispatch(struct sal_compile_pool *pool)
{
	struct sal_owner *owner;

	while ((owner = sal_owner_next(pool, count_free(pool)))) {
		struct sal_task *task = TAILQ_FIRST(&owner->queue);
		struct sal_err err = { 0 };
		struct sal_post *post = find_post(pool, &err);

		if (!post && err.code == SAL_OK)
			break;
		if (!post || sal_helper_ask(post->helper, ++pool->last_id, &task->source, &err) < 0)
			sal_task_fail(task, err.code, err.text);
		else
			start(post, sal_owner_take(pool, owner));
	}
	set_watch(pool);
}

/* Views */

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

uint32_t sal_compile_runs(const struct sal_compile_pool *pool, struct sal_compile_run *out_runs,
			  uint32_t room)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < pool->post_count; i++) {
		const struct sal_task *task = pool->posts[i].task;

		if (!task)
			continue;
		if (count < room)
			out_runs[count] =
				(struct sal_compile_run){ .owner = task->owner->id,
							  .ran_ns = uv_hrtime() - task->start_ns };
		count++;
	}
	return count;
}
