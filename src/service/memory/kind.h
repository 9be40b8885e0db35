/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kind - the streams of sessions with the same number of devices.
 *
 *     free ──> opening ──> open ──> closing ──> free
 *                 └────────────────────┘
 *
 * A session with several devices needs streams that have as many chips. Each number of devices is a
 * kind, with streams for all lanes and tiers. Kind 0 has one device and is always open. The first
 * session of another kind opens it: a thread of libuv opens the kind's first stream and packs the
 * facts for the clients. The last session closes all streams of the kind.
 *
 * Owns: packed facts. Threads: a kind opens on the main thread; its fields are under server->lock.
 */
#ifndef SAL_SERVICE_KIND_H
#define SAL_SERVICE_KIND_H

#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "service/lock.h"

struct sal_hello;
struct svc_server;

/* So many different numbers of devices at a time. */
#define SVC_KINDS_MAX 8

enum svc_kind_state {
	SVC_KIND_FREE,
	SVC_KIND_OPENING,
	SVC_KIND_OPEN,
	SVC_KIND_CLOSING
};

/* Called on the main thread when the kind is open, or cannot be opened: then err has a code. */
typedef void svc_kind_opened_fn(struct svc_server *server, uint32_t kind,
				const struct sal_err *err);

struct svc_kind {
	struct svc_server *server; /* borrowed */
	enum svc_kind_state state;
	uint32_t devices; /* of each stream */
	uint32_t users; /* sessions, who opens the kind, and who has found it */
	void *facts; /* owned; packed for clients; do not change while the kind is open */
	size_t fact_size;
	uv_work_t work;
	svc_kind_opened_fn *opened;
	struct sal_err err; /* why the kind cannot be opened */
};

void svc_kinds_init(struct svc_server *server);
void svc_kinds_fini(struct svc_server *server);

/* How many devices the client wants, at least 1. */
uint32_t svc_kind_wish(const struct svc_server *server, const struct sal_hello *hello);
/*
 * Find the kind with so many devices. 0: it is open, and stays open until the caller calls
 * svc_kind_leave_soon: other threads may end its sessions meanwhile. 1: it opens, and `opened` will
 * be called, during which it stays open. Less than 0: there is none. Main thread.
 */
int svc_kind_find(struct svc_server *server, uint32_t devices, svc_kind_opened_fn *opened,
		  uint32_t *out_kind, struct sal_err *err) SVC_UNLOCKED;
/* A session joins an open kind. Fails if there is none with so many devices. */
int svc_kind_enter(struct svc_server *server, uint32_t devices, uint32_t *out_kind,
		   struct sal_err *err) SVC_UNLOCKED;
/* A session leaves. The last one closes the streams, which waits for the vendor. */
void svc_kind_leave(struct svc_server *server, uint32_t kind) SVC_UNLOCKED;
/* The same on the main thread, which does not wait. */
void svc_kind_leave_soon(struct svc_server *server, uint32_t kind) SVC_UNLOCKED;

#endif
