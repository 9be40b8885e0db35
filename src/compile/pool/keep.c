/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep - compiled programs go to the disk, one at a time, some time after those who asked have been answered.
 *
 * One at a time, because writing waits for the disk, and the threads that would wait look for other programs
 * there. Later, because a job that compiles many programs one after the other needs the processor now: writing
 * begins when no program has come for a moment, or when many wait. If the disk is too slow, programs are not
 * kept. All that wait are written before the pool is gone.
 */
#include "compile/pool/pool_impl.h"

#include <stdlib.h>

#include "compile/store/image.h"

/* Programs that wait to be written, and their bytes. */
#define SAVINGS_MAX 512
#define SAVING_BYTES_MAX (UINT64_C(128) << 20)
/* Writing begins when half of either waits, or when no program has come for this long. */
#define LULL_MS 250

struct sal_saving {
	STAILQ_ENTRY(sal_saving) link; /* pool->savings */
	uv_work_t work;
	struct sal_compile_pool *pool; /* borrowed: pinned */
	struct sal_image *image; /* owned: one reference */
	int rc;
};

static void save(uv_work_t *work)
{
	struct sal_saving *s = work->data;

	s->rc = sal_disk_write(&s->pool->disk, s->image);
}

static void saved(uv_work_t *work, int status);

static void start(struct sal_compile_pool *pool)
{
	struct sal_saving *s = STAILQ_FIRST(&pool->savings);

	if (!s || pool->is_saving)
		return;
	pool->is_saving = true;
	(void)uv_queue_work(pool->loop, &s->work, save, saved);
}

static void saved(uv_work_t *work, int status)
{
	struct sal_saving *s = work->data;
	struct sal_compile_pool *pool = s->pool;

	if (status < 0 || s->rc < 0)
		pool->stats.unsaved++;
	STAILQ_REMOVE_HEAD(&pool->savings, link);
	pool->saving_count--;
	pool->saving_bytes -= sal_image_bytes(s->image);
	pool->is_saving = false;
	start(pool);
	sal_image_unref(s->image);
	free(s);
	sal_pool_unpin(pool);
}

static void on_lull(uv_timer_t *timer)
{
	start(timer->data);
}

void sal_keep_all(struct sal_compile_pool *pool)
{
	start(pool);
}

void sal_keep(struct sal_compile_pool *pool, struct sal_image *image)
{
	uint64_t bytes = pool->saving_bytes + sal_image_bytes(image);
	bool has_room = pool->saving_count < SAVINGS_MAX && bytes <= SAVING_BYTES_MAX;
	struct sal_saving *s;

	if (!pool->stats.has_disk)
		return;
	s = has_room || pool->saving_count == 0 ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		pool->stats.unsaved++;
		return;
	}
	s->work.data = s;
	s->pool = pool;
	s->image = sal_image_ref(image);
	pool->pins++;
	STAILQ_INSERT_TAIL(&pool->savings, s, link);
	pool->saving_count++;
	pool->saving_bytes = bytes;
	if (pool->saving_count > SAVINGS_MAX / 2 || bytes > SAVING_BYTES_MAX / 2)
		start(pool);
	else
		(void)uv_timer_start(&pool->lull, on_lull, LULL_MS, 0);
}
