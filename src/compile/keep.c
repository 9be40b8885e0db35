/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep - compiled programs go to the disk, one at a time, after those who asked have been answered.
 *
 * One at a time, because writing waits for the disk, and the threads that would wait look for other programs
 * there. If the disk is too slow, programs are not kept.
 */
#include "compile/pool_impl.h"

#include <stdlib.h>

/* Programs that wait to be written; each costs its bytes. */
#define SAVINGS_MAX 64

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

static void start(struct sal_saving *s)
{
	(void)uv_queue_work(s->pool->loop, &s->work, save, saved);
}

static void saved(uv_work_t *work, int status)
{
	struct sal_saving *s = work->data;
	struct sal_compile_pool *pool = s->pool;

	if (status < 0 || s->rc < 0)
		pool->stats.unsaved++;
	STAILQ_REMOVE_HEAD(&pool->savings, link);
	pool->saving_count--;
	if (!STAILQ_EMPTY(&pool->savings))
		start(STAILQ_FIRST(&pool->savings));
	sal_image_unref(s->image);
	free(s);
	sal_pool_unpin(pool);
}

void sal_keep(struct sal_compile_pool *pool, struct sal_image *image)
{
	struct sal_saving *s;

	if (!pool->stats.has_disk)
		return;
	s = pool->saving_count < SAVINGS_MAX ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		pool->stats.unsaved++;
		return;
	}
	s->work.data = s;
	s->pool = pool;
	s->image = sal_image_ref(image);
	pool->pins++;
	STAILQ_INSERT_TAIL(&pool->savings, s, link);
	if (pool->saving_count++ == 0)
		start(s);
}
