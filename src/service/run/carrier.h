/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carrier - errands: the vendor calls of a session.
 *
 * One thread at a time does a session's errands, in order: that thread carries the session. So one
 * thread uses the vendor's objects of a session (device buffers, loaded programs). A vendor call
 * that blocks, computes or never returns delays its own session and nobody else.
 *
 *     posted ----> carried by the worker (brief errands)  ----> no errands left
 *        |                    |  the next errand is long, or the call took too long
 *        |                    v
 *        +------> carried by a carrier, a thread of the pool
 *
 * The worker does brief errands itself, because waking a thread takes longer than a small call. If
 * such a call does not return soon, another thread takes over the worker's role (watch.h) and the
 * first one goes on as a carrier. Long errands go to a carrier at once. A vendor's thread that
 * reports an end may carry sessions of its own lane, if the driver allows calls from there.
 */
#ifndef SAL_SERVICE_CARRIER_H
#define SAL_SERVICE_CARRIER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "service/lock.h"

struct svc_server;
struct svc_session;

struct svc_errand {
	STAILQ_ENTRY(svc_errand) link; /* in session->errands */
	/* Optional, under the lock. False: the errand is settled; call and settle are left out. */
	bool (*begin)(struct svc_errand *errand);
	/* Without the lock: vendor calls. */
	void (*call)(struct svc_errand *errand);
	/* Under the lock: use the result. May free the errand. */
	void (*settle)(struct svc_errand *errand);
	bool is_brief; /* expected to take much less than a millisecond */
	bool computes; /* the vendor may compute inside the call: not for a thread of the vendor */
};

STAILQ_HEAD(svc_errand_list, svc_errand);
TAILQ_HEAD(svc_session_list, svc_session);

/* The pool. Its own lock is taken last. */
struct svc_carriers {
	pthread_mutex_t lock;
	pthread_cond_t wake, ended;
	struct svc_session_list handed; /* under carriers->lock; sessions to carry */
	bool role_is_free; /* under carriers->lock; a thread has to become the worker */
	bool stop; /* under carriers->lock */
	uint32_t threads, idle; /* under carriers->lock */
	bool lacks_thread; /* under carriers->lock; the system refused a thread */
	_Atomic bool tidies; /* a thread returns free memory to the system */
};

void svc_carriers_init(struct svc_carriers *c);
void svc_carriers_fini(struct svc_carriers *c);
int svc_carriers_start(struct svc_server *server, struct sal_err *err);
/* Do the errands that are left. False: a thread has not returned from its call after that long. */
bool svc_carriers_stop(struct svc_server *server, uint64_t wait_ns) SVC_UNLOCKED;
/* Start the thread that the system refused before. */
void svc_carriers_retry(struct svc_server *server);
/* The role is free: a carrier becomes the worker. */
void svc_carriers_offer_role(struct svc_server *server);
/* Nobody refers to the session any more: destroy it. Any thread, under the lock or not. */
void svc_carriers_bury(struct svc_server *server, struct svc_session *s);

/* Append the errand to the session's errands. */
void svc_errand_post(struct svc_session *s, struct svc_errand *errand) SVC_LOCKED;
/*
 * For the worker: do the brief errands of sessions that nobody carries, and hand the other sessions
 * to carriers. True if anything was done. Releases the lock meanwhile; the role may be lost.
 */
bool svc_carry_posted(struct svc_server *server) SVC_LOCKED;
/*
 * For a vendor's thread that reports an end: do brief errands of a session in that lane. True if
 * there was one.
 */
bool svc_carry_lane(struct svc_server *server, uint32_t lane) SVC_LOCKED;

#endif
