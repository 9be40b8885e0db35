/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carrier - errands: what has to be asked of the vendor for a session.
 *
 * A session's errands are done in order, by one thread at a time: that thread carries the session. So the vendor's
 * objects of a session (device buffers, loaded programs) are touched by one thread, and a vendor call that
 * blocks, computes or never returns holds up its own session and nobody else.
 *
 *     posted ----> carried by the worker (brief errands)  ----> no errands left
 *        |                    |  the next errand is long, or the call took too long
 *        |                    v
 *        +------> carried by a carrier, a thread of the pool
 *
 * Who carries: the worker takes brief errands itself, because waking a thread takes longer than a small call. If such
 * a call does not return soon, another thread takes over the worker's role (watch.c) and the first one goes on
 * as a carrier. Long errands go to a carrier at once. A vendor's thread that reports an end may carry sessions of
 * its own lane, if the driver allows calls from there.
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
	/* Optional, under the lock. False: it is settled already, the rest is left out. */
	bool (*begin)(struct svc_errand *errand);
	/* Without the lock: vendor calls. */
	void (*call)(struct svc_errand *errand);
	/* Under the lock: what came of it. May free the errand. */
	void (*settle)(struct svc_errand *errand);
	bool is_brief; /* expected to take much less than a millisecond */
	bool computes; /* the vendor may compute inside the call: not for a thread of the vendor */
};

STAILQ_HEAD(svc_errand_list, svc_errand);
TAILQ_HEAD(svc_session_list, svc_session);

/* The pool. Its own lock is taken last and guards what is marked. */
struct svc_carriers {
	pthread_mutex_t lock;
	pthread_cond_t wake, ended;
	struct svc_session_list handed; /* under carriers->lock; sessions to carry */
	bool role_is_free; /* under carriers->lock; somebody has to become the worker */
	bool stop; /* under carriers->lock */
	uint32_t threads, idle; /* under carriers->lock */
	bool lacks_thread; /* under carriers->lock; the system had none to give */
	_Atomic bool tidies; /* free memory goes back to the system now */
};

void svc_carriers_init(struct svc_carriers *c);
void svc_carriers_fini(struct svc_carriers *c);
int svc_carriers_start(struct svc_server *server, struct sal_err *err);
/* Does what is left to do. False if a thread is still in a call after that long. */
bool svc_carriers_stop(struct svc_server *server, uint64_t wait_ns) SVC_UNLOCKED;
/* A thread that could not be had is asked for again. */
void svc_carriers_retry(struct svc_server *server);
/* Somebody has to become the worker. */
void svc_carriers_offer_role(struct svc_server *server);
/* Nobody refers to the session any more: destroy it. Any thread, under the lock or not. */
void svc_carriers_bury(struct svc_server *server, struct svc_session *s);

/* Append the errand to the session's errands. */
void svc_errand_post(struct svc_session *s, struct svc_errand *errand) SVC_LOCKED;
/*
 * For the worker: carry the sessions that nobody carries as far as their errands are brief, and hand the others to
 * carriers. True if anything was done. The lock is released meanwhile, and the role may be lost.
 */
bool svc_carry_posted(struct svc_server *server) SVC_LOCKED;
/* For a vendor's thread that reports an end: brief errands of sessions in that lane. */
bool svc_carry_lane(struct svc_server *server, uint32_t lane) SVC_LOCKED;

#endif
