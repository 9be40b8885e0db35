/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbox - completions to one client, in its ring.
 *
 * Completions that do not fit into the ring wait in the backlog. A client that does not take them
 * fills its backlog, and is ended by the worker.
 *
 * Owns: the backlog. Threads: any, with or without server->lock: the outbox has a lock of its own.
 */
#ifndef SAL_SERVICE_OUTBOX_H
#define SAL_SERVICE_OUTBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/ring.h"

struct sal_place_in_arena;
struct svc_letter;

/* Of each ring. */
#define SVC_RING_BYTES (UINT64_C(4) << 20)

struct svc_outbox {
	pthread_mutex_t lock;
	struct sal_ring ring;
	int bell; /* borrowed: session */
	bool closed;
	uint32_t batches; /* begun and not ended: records are written and not shown */
	struct svc_letter *first, **last; /* owned; the backlog */
	size_t backlog_bytes;
};

void svc_outbox_init(struct svc_outbox *box, void *ring_memory, int bell);
void svc_outbox_close(struct svc_outbox *box);
/* The client sees everything posted between these two at once, at the end. Under server->lock. */
void svc_outbox_begin(struct svc_outbox *box);
void svc_outbox_end(struct svc_outbox *box);
void svc_outbox_done(struct svc_outbox *box, uint64_t request, int code, const void *tail,
		     size_t tail_size);
void svc_outbox_reply(struct svc_outbox *box, uint64_t request, int code, const char *text,
		      uint64_t value);
void svc_outbox_released(struct svc_outbox *box, const struct sal_place_in_arena *place);
/* A text for the job's user. */
void svc_outbox_news(struct svc_outbox *box, const char *text);
/* Post the last record: why the session ends. */
void svc_outbox_goodbye(struct svc_outbox *box, const char *text);
/* Move the backlog into the ring as far as it fits. */
void svc_outbox_flush(struct svc_outbox *box);
bool svc_outbox_is_overfull(struct svc_outbox *box);

#endif
