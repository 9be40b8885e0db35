/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carrier - errands: the vendor calls of a session.
 *
 * One thread at a time does a session's errands: this thread carries the session. So only one
 * thread at a time uses a session's vendor objects (device buffers, loaded programs). A vendor call
 * that blocks, computes or never returns delays its own session only. Errands are done in order; only
 * the start of an iteration goes before an errand that can wait, because the device is idle until
 * then.
 *
 *     posted ----> carried by the worker (brief errands)  ----> no errands left
 *        |                    |  the next errand is long, or the call took too long
 *        |                    v
 *        +------> carried by a carrier, a thread of the pool
 *
 * The worker does brief errands itself, because waking a thread takes longer than a brief call. If
 * such a call does not return soon, another thread takes over the worker's role (watch.h), and the
 * first thread continues as a carrier. Long errands go to a carrier at once. A vendor's thread that
 * reports the end of an iteration may carry sessions of the same lane, if the driver allows calls
 * from there.
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
	/* Optional, under the lock. False: the carrying thread skips call and settle. */
	bool (*begin)(struct svc_errand *errand);
	/* Without the lock: vendor calls. */
	void (*call)(struct svc_errand *errand);
	/* Under the lock: use the result. May free the errand. */
	void (*settle)(struct svc_errand *errand);
	bool is_brief; /* expected to take much less than a millisecond */
	bool computes; /* the vendor may compute inside the call: not for a vendor's thread */
	bool lowers; /* may lower the priority of a vendor's threads: not for one of them */
	bool starts; /* starts an iteration: the device waits for it */
	bool can_wait; /* an errand that starts an iteration may go first */
	uint8_t overtaken; /* so many have gone first */
	bool is_under_way; /* its call has not returned */
	bool is_lent; /* meanwhile another thread may carry the session */
};

STAILQ_HEAD(svc_errand_list, svc_errand);
TAILQ_HEAD(svc_session_list, svc_session);

/* The pool of carriers. A thread that holds carriers->lock takes no other lock. */
struct svc_carriers {
	pthread_mutex_t lock;
	pthread_cond_t wake, ended;
	struct svc_session_list handed; /* under carriers->lock; sessions to carry */
	bool must_settle; /* under carriers->lock; lanes have memory that they may not keep */
	bool role_is_free; /* under carriers->lock; a thread has to become the worker */
	bool stop; /* under carriers->lock */
	uint32_t threads, idle; /* under carriers->lock */
	bool lacks_thread; /* under carriers->lock; the system refused a thread */
	_Atomic bool tidies; /* a thread returns free memory to the system */
};

void svc_carriers_init(struct svc_carriers *c);
void svc_carriers_fini(struct svc_carriers *c);
int svc_carriers_start(struct svc_server *server, struct sal_err *err);
/* Do the remaining errands and end all carriers. False: a thread has not ended after wait_ns. */
bool svc_carriers_stop(struct svc_server *server, uint64_t wait_ns) SVC_UNLOCKED;
/* Start the thread that the system refused before. */
void svc_carriers_retry(struct svc_server *server);
/* The worker's role is free: let a carrier become the worker. */
void svc_carriers_offer_role(struct svc_server *server);
/* Let a carrier destroy a session without references. Any thread, under the lock or not. */
void svc_carriers_bury(struct svc_server *server, struct svc_session *s);

/* Let a carrier give back memory that lanes may not keep. Any thread, under the lock or not. */
void svc_carriers_settle(struct svc_server *server);

/* Append the errand to the session's errands. */
void svc_errand_post(struct svc_session *s, struct svc_errand *errand) SVC_LOCKED;
/*
 * The errand's call waits for the client itself. If a carrier makes the call, another thread may
 * carry the session until the call returns. Then the errand settles behind the other errands. True:
 * errands wait for the worker.
 */
bool svc_errand_lend(struct svc_session *s, struct svc_errand *errand) SVC_LOCKED;
/*
 * For the worker: do the brief errands of sessions that nobody carries, and hand sessions with long
 * errands to carriers. True if there was a session. Releases the lock in between, so the worker may
 * lose its role.
 */
bool svc_carry_posted(struct svc_server *server) SVC_LOCKED;
/* The same for one session. */
void svc_carry_session(struct svc_session *s) SVC_LOCKED;
/*
 * For a vendor's thread that reports the end of an iteration: do brief errands of one session in
 * this lane. True if there was such a session.
 */
bool svc_carry_lane(struct svc_server *server, uint32_t lane) SVC_LOCKED;

#endif
