/* SPDX-License-Identifier: Apache-2.0 */
#include "discrete/discrete.h"

#include <string.h>

void *disc_new(size_t count, size_t size)
{
	void *memory = calloc(count ? count : 1, size ? size : 1);

	if (!memory)
		disc_die("no memory");
	return memory;
}

void *disc_copy(const void *from, size_t size)
{
	void *copy = disc_new(size, 1);

	if (size > 0)
		memcpy(copy, from, size);
	return copy;
}

static void *serve(void *arg)
{
	struct disc_queue *q = arg;
	struct disc_work *work;

	pthread_mutex_lock(&disc_lock);
	while (true) {
		while (!(work = STAILQ_FIRST(&q->works)) && !q->ends)
			pthread_cond_wait(&q->wake, &disc_lock);
		if (!work)
			break;
		STAILQ_REMOVE_HEAD(&q->works, link);
		pthread_mutex_unlock(&disc_lock);
		work->run(work->ctx);
		free(work);
		pthread_mutex_lock(&disc_lock);
	}
	pthread_mutex_unlock(&disc_lock);
	return NULL;
}

void disc_queue_start(struct disc_queue *q)
{
	STAILQ_INIT(&q->works);
	q->ends = false;
	pthread_cond_init(&q->wake, NULL);
	if (pthread_create(&q->thread, NULL, serve, q) != 0)
		disc_die("no thread");
}

void disc_queue_stop(struct disc_queue *q)
{
	pthread_mutex_lock(&disc_lock);
	q->ends = true;
	pthread_cond_signal(&q->wake);
	pthread_mutex_unlock(&disc_lock);
	pthread_join(q->thread, NULL);
	pthread_cond_destroy(&q->wake);
}

void disc_queue_add(struct disc_queue *q, disc_work_fn *run, void *ctx)
{
	struct disc_work *work = disc_new(1, sizeof(*work));

	work->run = run;
	work->ctx = ctx;
	pthread_mutex_lock(&disc_lock);
	STAILQ_INSERT_TAIL(&q->works, work, link);
	pthread_cond_signal(&q->wake);
	pthread_mutex_unlock(&disc_lock);
}
