/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer - one array of a session on the device.
 *
 *     pending ----> coming ----> resident <----> saved (paged out)
 *        |             |
 *        +-------------+------> failed
 *
 *     pending   an iteration that has not started will compute the buffer
 *     coming    the errand that fills the buffer is posted; later errands find the buffer filled
 *     resident  the contents are in device memory
 *     saved     the contents are in host memory
 *     failed    the buffer has a code and a text, and no memory
 *
 * Owns: device memory, saved contents. Threads: under server->lock. `device`, `stream` and `saved`
 * are changed only by the thread that carries the session.
 */
#ifndef SAL_SERVICE_BUFFER_H
#define SAL_SERVICE_BUFFER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "service/lock.h"

struct sal_buffer;
struct sal_saved;
struct svc_execution;
struct svc_session;

/* Waits until a buffer is not pending any more, or until an iteration ends. */
struct svc_waiter {
	STAILQ_ENTRY(svc_waiter) link; /* in buffer->waiters, server->ready or execution->waiters */
	void (*go)(struct svc_waiter *w); /* called when the wait is over; frees w */
};

STAILQ_HEAD(svc_waiter_list, svc_waiter);

struct svc_buffer {
	/* In session->all, then in session->trash, then in freeing->batch. */
	TAILQ_ENTRY(svc_buffer) link;
	uint32_t refs; /* of the session's map, executions, errands and waiters */
	struct svc_session *session; /* borrowed */
	struct sal_buffer *device; /* owned; NULL: pending, paged out or failed */
	uint32_t stream; /* where `device` is */
	uint32_t chip; /* of the stream; does not change: the session's device */
	struct svc_execution *producer; /* borrowed; while this execution computes the buffer */
	/* Owned; paged-out contents. If `device` is also set, the device buffer is empty. */
	struct sal_saved *saved;
	int code; /* not 0: the buffer failed */
	char *text; /* owned; why it failed */
	uint64_t bytes;
	bool counted; /* in session->live_bytes and charged_bytes, unless it is on the host */
	bool is_on_host; /* see host.h; does not change after the buffer has contents */
	uint64_t host_bytes; /* taken from the limit of host bytes */
	bool is_beyond; /* the buffer failed because of the limit of buffers */
	bool is_coming;
	_Atomic uint32_t pins; /* started executions that may call Python use it: see paging.c */
	struct svc_waiter_list waiters;
};

TAILQ_HEAD(svc_buffer_list, svc_buffer);

/* Each buffer is charged at least this, because its handles take memory, too. */
#define SVC_BUFFER_BYTES_MIN 2048u

static inline uint64_t svc_bytes_charge(uint64_t bytes)
{
	return bytes > SVC_BUFFER_BYTES_MIN ? bytes : SVC_BUFFER_BYTES_MIN;
}
static inline uint64_t svc_buffer_charge(const struct svc_buffer *b)
{
	return svc_bytes_charge(b->bytes);
}
/* What it has of the device's memory, or had when it was paged out. */
static inline uint64_t svc_buffer_held(const struct svc_buffer *b)
{
	return b->counted && !b->is_on_host ? svc_buffer_charge(b) : 0;
}
static inline bool svc_buffer_is_resident(const struct svc_buffer *b)
{
	return b->device && !b->saved;
}
static inline bool svc_buffer_is_pending(const struct svc_buffer *b)
{
	return !b->device && !b->saved && b->code == 0 && !b->is_coming;
}

/* Beyond the limit of buffers, the new buffer has already failed. NULL for lack of memory. */
struct svc_buffer *svc_buffer_create(struct svc_session *s, uint64_t bytes) SVC_LOCKED;
struct svc_buffer *svc_buffer_ref(struct svc_buffer *b);
/* The last reference posts an errand that frees the device memory. Accepts NULL. */
void svc_buffer_unref(struct svc_buffer *b) SVC_LOCKED;
/* Free a buffer without device memory. */
void svc_buffer_destroy(struct svc_buffer *b) SVC_LOCKED;
/* The buffer gets device memory in this stream, or fails. Its waiters continue. */
void svc_buffer_set(struct svc_buffer *b, struct sal_buffer *take_device,
		    uint32_t stream) SVC_LOCKED;
void svc_buffer_fail(struct svc_buffer *b, int code, const char *text) SVC_LOCKED;
/* The errand that fills the buffer is posted. Its waiters continue and post later errands. */
void svc_buffer_come(struct svc_buffer *b) SVC_LOCKED;
/* The waiter continues when the buffer is not pending any more, which may be now. */
void svc_buffer_wait(struct svc_buffer *b, struct svc_waiter *w) SVC_LOCKED;
/* The outputs of an iteration take over the buffer's memory: the buffer counts no more. */
void svc_buffer_donate(struct svc_buffer *b) SVC_LOCKED;

#endif
