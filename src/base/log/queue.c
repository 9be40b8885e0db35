/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log/queue.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/sys/fd.h"

int sal_log_queue_init(struct sal_log_queue *q, struct sal_err *err)
{
	q->put = q->taken = 0;
	q->lost = 0;
	q->asleep = false;
	q->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->bell < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "eventfd: %s", strerror(errno));
	(void)pthread_mutex_init(&q->lock, NULL);
	return SAL_OK;
}

void sal_log_queue_fini(struct sal_log_queue *q)
{
	if (q->bell < 0)
		return;
	sal_close(&q->bell);
	(void)pthread_mutex_destroy(&q->lock);
}

void sal_log_queue_ring(struct sal_log_queue *q)
{
	uint64_t one = 1;

	if (write(q->bell, &one, sizeof(one)) < 0)
		return; /* the bell is already ringing */
}

static void copy_in(struct sal_log_queue *q, const char *line, size_t size)
{
	size_t at = q->put % SAL_LOG_QUEUE_BYTES;
	size_t straight = size < SAL_LOG_QUEUE_BYTES - at ? size : SAL_LOG_QUEUE_BYTES - at;

	memcpy(q->ring + at, line, straight);
	memcpy(q->ring, line + straight, size - straight);
	q->put += size;
}

static void copy_out(struct sal_log_queue *q, char *to, size_t size)
{
	size_t at = q->taken % SAL_LOG_QUEUE_BYTES;
	size_t straight = size < SAL_LOG_QUEUE_BYTES - at ? size : SAL_LOG_QUEUE_BYTES - at;

	memcpy(to, q->ring + at, straight);
	memcpy(to + straight, q->ring, size - straight);
}

bool sal_log_queue_put(struct sal_log_queue *q, const char *line, size_t size, size_t room_max)
{
	bool fits, ring;

	(void)pthread_mutex_lock(&q->lock);
	fits = q->put - q->taken + size <= room_max;
	if (fits)
		copy_in(q, line, size);
	else
		q->lost++;
	ring = q->asleep;
	q->asleep = false;
	(void)pthread_mutex_unlock(&q->lock);
	if (ring)
		sal_log_queue_ring(q);
	return fits;
}

size_t sal_log_queue_take(struct sal_log_queue *q, char *to, size_t size, uint64_t *out_lost)
{
	size_t n;

	(void)pthread_mutex_lock(&q->lock);
	n = q->put - q->taken;
	if (n > size)
		n = size;
	copy_out(q, to, n);
	if (n < q->put - q->taken)
		while (n > 0 && to[n - 1] != '\n')
			n--;
	q->taken += n;
	*out_lost = q->lost;
	q->lost = 0;
	(void)pthread_mutex_unlock(&q->lock);
	return n;
}

void sal_log_queue_lose(struct sal_log_queue *q, uint64_t lines)
{
	(void)pthread_mutex_lock(&q->lock);
	q->lost += lines;
	(void)pthread_mutex_unlock(&q->lock);
}

bool sal_log_queue_sleep(struct sal_log_queue *q)
{
	bool empty;

	(void)pthread_mutex_lock(&q->lock);
	empty = q->put == q->taken;
	q->asleep = empty;
	(void)pthread_mutex_unlock(&q->lock);
	return empty;
}
