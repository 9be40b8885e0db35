/* SPDX-License-Identifier: Apache-2.0 */
/*
 * news - tells a job that has waited for some seconds why it waits, and when it goes on. The plugin
 * prints that to the job's stderr, because a job that waits in silence looks broken.
 *
 * While any session has work, the main thread checks all sessions once a second.
 *
 * Threads: the main thread; any thread that holds server->lock may say that there is work.
 */
#ifndef SAL_SERVICE_NEWS_H
#define SAL_SERVICE_NEWS_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

struct svc_server;

/* Part of the server. */
struct svc_news {
	bool is_running; /* the timer runs, or is about to */
	uv_async_t bell;
	uv_timer_t timer;
};

/* Part of a session: how long it has been left waiting. */
struct svc_patience {
	bool understands; /* its plugin understands news */
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
