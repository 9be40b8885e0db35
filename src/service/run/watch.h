/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch - the watchman: a thread that replaces a worker whose vendor call does not return.
 *
 * The worker notes when a call begins, and sets a timer if none runs. The watchman waits for this
 * timer. If a call takes longer than TOO_LONG_NS, its thread loses the worker's role. Another
 * thread becomes the worker, and the first thread continues as the carrier of its session. While
 * the worker is busy, the watchman makes one check per TOO_LONG_NS. While the worker sleeps, the
 * watchman does nothing.
 */
#ifndef SAL_SERVICE_WATCH_H
#define SAL_SERVICE_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "service/lock.h"

struct sal_err;
struct svc_server;

struct svc_watch {
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	int timer; /* owned */
	_Atomic bool is_set; /* the timer runs */
	_Atomic uint64_t call_ns; /* when the worker's call began; 0: it makes no call now */
};

int svc_watch_start(struct svc_server *server, struct sal_err *err);
void svc_watch_stop(struct svc_server *server);
/* A call that the worker makes, maybe inside another one. */
struct svc_watched {
	uint64_t since_ns, outer_ns; /* outer_ns is 0: inside no other call */
};

/* Before and after such a call. */
struct svc_watched svc_watch_begin(struct svc_server *server);
void svc_watch_end(struct svc_server *server, const struct svc_watched *call);
/* The calling thread has the role, and its call waits for a client: another thread takes over. */
void svc_watch_leave(struct svc_server *server) SVC_LOCKED;
/* Make the watchman start a missing carrier in a moment. */
void svc_watch_again(struct svc_server *server);
/* The worker goes to sleep: no timer is needed. */
void svc_watch_rest(struct svc_server *server);

#endif
