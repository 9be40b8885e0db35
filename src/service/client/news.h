/* SPDX-License-Identifier: Apache-2.0 */
/*
 * news - a job that has waited for some seconds is told why, and when it goes on. Its plugin writes that to the
 * job's stderr: who waits in silence looks broken.
 *
 * Sessions are looked at once a second while any of them has work, and not at all otherwise.
 *
 * Threads: looking is the main thread's; anybody with server->lock may say that there is work.
 */
#ifndef SAL_SERVICE_NEWS_H
#define SAL_SERVICE_NEWS_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

struct svc_server;

/* Part of the server. */
struct svc_news {
	bool looking; /* the timer runs, or is about to */
	uv_async_t bell;
	uv_timer_t timer;
};

/* Part of a session: how long it has been left waiting. */
struct svc_patience {
	bool understands; /* its plugin knows what news are */
	uint64_t since_ns; /* 0: it does not wait */
	uint64_t iterations; /* it had done then */
	uint64_t tasks; /* of it that the compile pool had done then */
	uint64_t tasks_done; /* by the compile pool, so far */
	bool told;
};

void svc_news_open(struct svc_server *server);
/* Somebody has work. Under server->lock; cheap. */
void svc_news_watch(struct svc_server *server);

#endif
