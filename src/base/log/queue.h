/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue - lines on their way to the log's thread: a ring of bytes of fixed size.
 *
 * Adding a line locks the queue during a copy, and rings a bell if the thread sleeps. A line that
 * does not fit is counted and dropped.
 *
 * Threads: any may put; the log's thread takes.
 */
#ifndef SAL_BASE_LOG_QUEUE_H
#define SAL_BASE_LOG_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SAL_LOG_QUEUE_BYTES ((size_t)256 << 10)
#define SAL_LOG_LINE_BYTES ((size_t)1024) /* the longest line, with its newline */

struct sal_log_queue {
	pthread_mutex_t lock;
	size_t put, taken; /* total bytes, under lock */
	uint64_t lost; /* lines lost since the last take, under lock */
	bool asleep; /* the thread waits for the bell, under lock */
	int bell; /* owned: an eventfd */
	char ring[SAL_LOG_QUEUE_BYTES]; /* under lock */
};

int sal_log_queue_init(struct sal_log_queue *q, struct sal_err *err);
void sal_log_queue_fini(struct sal_log_queue *q);

/*
 * Adds one line with its newline, at most SAL_LOG_LINE_BYTES. room_max: bytes of the queue that
 * such lines may fill.
 */
bool sal_log_queue_put(struct sal_log_queue *q, const char *line, size_t size, size_t room_max);
/*
 * Takes as many whole lines as fit into `size` bytes; one line must fit. *out_lost: lines lost
 * before these.
 */
size_t sal_log_queue_take(struct sal_log_queue *q, char *to, size_t size, uint64_t *out_lost);
/* Counts lines that were taken but could not be written. */
void sal_log_queue_lose(struct sal_log_queue *q, uint64_t lines);
/* True: the queue is empty, and the next line rings the bell. False: there are lines to take. */
bool sal_log_queue_sleep(struct sal_log_queue *q);
/* Signal-safe. */
void sal_log_queue_ring(struct sal_log_queue *q);

#endif
