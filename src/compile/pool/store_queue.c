/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_queue - writes compiled programs to the disk, one at a time, some time after the waiters
 * got their answer.
 *
 * One at a time, because writing blocks on the disk, and the same threads read other programs from
 * the disk. Later, because a job that compiles many programs in a row needs the processor now:
 * writing begins when no new program has arrived for a moment, or when many programs are queued. If
 * the disk is too slow, further programs are not stored. The pool writes all queued programs before
 * it goes away.
 */
#include "compile/pool/pool_impl.h"

#include <stdlib.h>

#include "compile/store/image.h"

/* Limits of the queue: programs, and their bytes. */
#define STORE_QUEUE_MAX 512
#define STORE_BYTES_MAX (UINT64_C(128) << 20)
/*
 * Writing begins when half of either limit is queued, or when no new program has arrived for this
 * long.
 */
#define LULL_MS 250

struct sal_store_entry {
	STAILQ_ENTRY(sal_store_entry) link; /* pool->store_queue */
	uv_work_t work;
	struct sal_compile_pool *pool; /* borrowed: pinned by this entry */
	struct sal_image *image; /* owned: one reference */
	int rc;
};

static void store(uv_work_t *work)
{
	struct sal_store_entry *s = work->data;

	s->rc = sal_disk_write(&s->pool->disk, s->image);
}

static void stored(uv_work_t *work, int status);

static void start(struct sal_compile_pool *pool)
{
	struct sal_store_entry *s = STAILQ_FIRST(&pool->store_queue);

	if (!s || pool->is_storing)
		return;
	pool->is_storing = true;
	(void)uv_queue_work(pool->loop, &s->work, store, stored);
}

static void stored(uv_work_t *work, int status)
{
	struct sal_store_entry *s = work->data;
	struct sal_compile_pool *pool = s->pool;

	if (status < 0 || s->rc < 0)
		pool->stats.not_stored++;
	STAILQ_REMOVE_HEAD(&pool->store_queue, link);
	pool->store_count--;
	pool->store_bytes -= sal_image_bytes(s->image);
	pool->is_storing = false;
	start(pool);
	sal_image_unref(s->image);
	free(s);
	sal_pool_unpin(pool);
}

static void on_lull(uv_timer_t *timer)
{
	start(timer->data);
}

void sal_store_queue_flush(struct sal_compile_pool *pool)
{
	start(pool);
}

void sal_store_queue_add(struct sal_compile_pool *pool, struct sal_image *image)
{
	uint64_t bytes = pool->store_bytes + sal_image_bytes(image);
	bool has_room = pool->store_count < STORE_QUEUE_MAX && bytes <= STORE_BYTES_MAX;
	struct sal_store_entry *s;

	if (!pool->stats.has_disk)
		return;
	s = has_room || pool->store_count == 0 ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		pool->stats.not_stored++;
		return;
	}
	s->work.data = s;
	s->pool = pool;
	s->image = sal_image_ref(image);
	pool->pins++;
	STAILQ_INSERT_TAIL(&pool->store_queue, s, link);
	pool->store_count++;
	pool->store_bytes = bytes;
	if (pool->store_count > STORE_QUEUE_MAX / 2 || bytes > STORE_BYTES_MAX / 2)
		start(pool);
	else
		(void)uv_timer_start(&pool->lull, on_lull, LULL_MS, 0);
}
