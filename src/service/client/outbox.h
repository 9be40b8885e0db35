/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbox - completions to one client, in its ring.
 *
 * Completions that do not fit into the ring wait in the backlog. If a client does not read its
 * completions, the backlog becomes too large, and the worker ends the session.
 *
 * Owns: the backlog. Threads: any, with or without server->lock. The outbox has its own lock.
 */
#ifndef SAL_SERVICE_OUTBOX_H
#define SAL_SERVICE_OUTBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/ring.h"

struct sal_msg_call;
struct sal_place_in_arena;
struct svc_letter;

/* The size of each ring. */
#define SVC_RING_BYTES (UINT64_C(4) << 20)

struct svc_outbox {
	pthread_mutex_t lock;
	struct sal_ring ring;
	int bell; /* borrowed: session */
	bool closed;
	uint32_t batches; /* begun and not ended: meanwhile the client does not see new records */
	struct svc_letter *first, **last; /* owned; the backlog */
	size_t backlog_bytes;
};

void svc_outbox_init(struct svc_outbox *box, void *ring_memory, int bell);
void svc_outbox_close(struct svc_outbox *box);
/* The client sees all records posted between begin and end at once. Under server->lock. */
void svc_outbox_begin(struct svc_outbox *box);
void svc_outbox_end(struct svc_outbox *box);
void svc_outbox_done(struct svc_outbox *box, uint64_t request, int code, const void *tail,
		     size_t tail_size);
/* Post the end of an execution that did not start: the client has its donated arguments back. */
void svc_outbox_refused(struct svc_outbox *box, uint64_t request, int code, const char *text);
void svc_outbox_reply(struct svc_outbox *box, uint64_t request, int code, const char *text,
		      uint64_t value);
void svc_outbox_released(struct svc_outbox *box, const struct sal_place_in_arena *place);
/* Post the number of an exposed block that salusd does not use any more. */
void svc_outbox_withdrawn(struct svc_outbox *box, uint64_t block);
/* Post a whole record. */
void svc_outbox_call(struct svc_outbox *box, struct sal_msg_call *m);
/* Post a text for the job's user. */
void svc_outbox_news(struct svc_outbox *box, const char *text);
/* Post the last record: why the session ends. */
void svc_outbox_goodbye(struct svc_outbox *box, const char *text);
/* Move the backlog into the ring, as far as the ring has room. */
void svc_outbox_flush(struct svc_outbox *box);
bool svc_outbox_is_overfull(struct svc_outbox *box);

#endif
