/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch - the worker makes brief calls itself; the watchman replaces a worker whose call does not
 * return.
 *
 * The worker notes when a call begins, and sets a timer if none runs. The watchman waits for that
 * timer. If the same call has not returned, its thread loses the role: another thread becomes the
 * worker, and the first one goes on as the carrier of its session. A busy worker costs the watchman
 * one check in TOO_LONG_NS, a sleeping one nothing.
 */
#ifndef SAL_SERVICE_WATCH_H
#define SAL_SERVICE_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sal_err;
struct svc_server;

struct svc_watch {
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	int timer; /* owned */
	_Atomic bool is_set; /* the timer runs */
	_Atomic uint64_t call_ns; /* when the worker's call began; 0: it is in none */
};

int svc_watch_start(struct svc_server *server, struct sal_err *err);
void svc_watch_stop(struct svc_server *server);
/* Around a call that the worker makes itself; end takes the value that begin returned. */
uint64_t svc_watch_begin(struct svc_server *server);
void svc_watch_end(struct svc_server *server, uint64_t since_ns);
/* Check the carriers in a moment: they lack a thread. */
void svc_watch_again(struct svc_server *server);
/* The worker goes to sleep: no timer is needed. */
void svc_watch_rest(struct svc_server *server);

#endif
