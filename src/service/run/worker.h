/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker - the role that drains the rings, and dispatches when no other thread did.
 *
 * The worker is a role, not a thread: see watch.h. The role can be lost in every call that releases
 * the lock. After such a call, ask svc_worker_is_me.
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
#include "service/run/gap.h"

struct sal_err;
struct sal_header;
struct svc_server;

struct svc_worker {
	pthread_t holder; /* the thread that has the role, if has_holder */
	bool has_holder;
	_Atomic bool stop;
	int epoll, bell, ring_fd, alarm; /* owned */
	_Atomic bool sleeps;
	uint64_t wake_ns; /* the engine wants its tick then; 0: none */
	uint64_t until_ns; /* it sleeps until then at the latest; 0: until a bell rings */
	bool is_called; /* another thread left something for the worker to do */
	bool makes_way; /* it started something long: the vendor's threads get this core first */
	uint64_t idle_from_ns; /* nothing to do since then; 0: there is something */
	bool is_lull; /* the worker is idle, and no iteration runs or is foreseen */
	uint64_t lull_ns; /* learned: how long lulls last */
	struct svc_gap gap; /* of the device */
	bool has_alarm;
	struct svc_session_list attended; /* sessions whose rings are read */
	uint32_t attended_count;
	struct svc_session_list resting; /* sessions that are left alone for a while */
	uint64_t bells_ns; /* when it last checked the bells without sleeping */
	struct sal_header *record; /* owned; SAL_RECORD_MAX bytes */
};

int svc_worker_open(struct svc_server *server, struct sal_err *err);
/* Whoever has the role gives it back soon. */
void svc_worker_stop(struct svc_server *server);
void svc_worker_close(struct svc_server *server);
/* Be the worker, until the role is lost or the daemon stops. */
void svc_worker_run(struct svc_server *server) SVC_UNLOCKED;
/* Does this thread have the role? */
bool svc_worker_is_me(const struct svc_server *server);
/* Wake the worker if it sleeps: there is something to do. Any thread, under the lock or not. */
void svc_worker_wake(struct svc_server *server);
/* Did another thread leave something for the worker to do? */
bool svc_worker_has_work(const struct svc_server *server) SVC_LOCKED;

#endif
