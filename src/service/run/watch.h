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
/* Before and after a call that the worker makes; since_ns is the value that begin returned. */
uint64_t svc_watch_begin(struct svc_server *server);
void svc_watch_end(struct svc_server *server, uint64_t since_ns);
/* Make the watchman start a missing carrier in a moment. */
void svc_watch_again(struct svc_server *server);
/* The worker goes to sleep: no timer is needed. */
void svc_watch_rest(struct svc_server *server);

#endif
