/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker - the role that drains the rings, and dispatches when no other thread does.
 *
 * The worker is a role, not a thread: see watch.h. A thread can lose the role in every call that
 * releases the lock. After such a call, ask svc_worker_is_me.
 *
 * Threads: whoever has the role, under server->lock, if nothing else is said.
 */
#ifndef SAL_SERVICE_WORKER_H
#define SAL_SERVICE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "service/lock.h"
#include "service/run/carrier.h"
#include "service/timing/gap.h"

struct sal_err;
struct sal_header;
struct svc_server;
struct svc_session;

struct svc_worker {
	pthread_t holder; /* the thread that has the role, if has_holder */
	bool has_holder;
	_Atomic bool stop;
	int epoll, bell, ring_fd, alarm; /* owned */
	_Atomic bool sleeps;
	uint64_t wake_ns; /* when the engine needs its next tick; 0: no tick is needed */
	uint64_t until_ns; /* the worker wakes then at the latest; 0: when a bell rings */
	bool is_called; /* another thread left something for the worker to do */
	bool has_overtaken; /* the session that the worker carried last went before others */
	bool makes_way; /* a long iteration has started: yield this core to the vendor's threads */
	uint64_t idle_from_ns; /* since when the worker is idle; 0: it is not */
	bool is_lull; /* the worker is idle, and no iteration runs or is foreseen */
	uint64_t lull_ns; /* learned: how long lulls last */
	struct svc_gap gap; /* of the device */
	bool has_alarm;
	struct svc_session_list attended; /* sessions whose rings are read */
	uint32_t attended_count;
	struct svc_session_list resting; /* sessions that the worker ignores for a while */
	uint64_t bells_ns; /* when the worker last checked the bells without sleeping */
	struct sal_header *record, *answer; /* owned; SAL_RECORD_MAX bytes each */
};

int svc_worker_open(struct svc_server *server, struct sal_err *err);
/* Make the worker's thread give up the role soon. */
void svc_worker_stop(struct svc_server *server);
void svc_worker_close(struct svc_server *server);
/* Be the worker, until the role is lost or the daemon stops. */
void svc_worker_run(struct svc_server *server) SVC_UNLOCKED;
/* Does this thread have the role? */
bool svc_worker_is_me(const struct svc_server *server);
/* Wake the worker if it sleeps: there is something to do. Any thread, under the lock or not. */
void svc_worker_wake(struct svc_server *server);
/*
 * For a thread that polls for the answer to a call: take the answers at the head of the session's
 * ring. False: another record is there, for the worker.
 */
bool svc_worker_take_answers(struct svc_session *s) SVC_LOCKED;
/*
 * For the worker, inside a call that waits for this session's client: do the session's work, and no
 * other session's. False: the worker is needed elsewhere, or this thread has lost the role.
 */
bool svc_worker_serve(struct svc_session *s) SVC_LOCKED;
/* Did another thread leave something for the worker to do? */
bool svc_worker_has_work(const struct svc_server *server) SVC_LOCKED;

#endif
