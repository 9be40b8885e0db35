/* SPDX-License-Identifier: Apache-2.0 */
/*
 * news - tells a job that has waited for some seconds why it waits, and when the wait is over. The
 * plugin prints this text to the job's stderr, because a job that waits in silence looks broken.
 *
 * While any session has work, the main thread checks all sessions once a second.
 *
 * Threads: the main thread. Any thread that holds server->lock may call svc_news_watch.
 */
#ifndef SAL_SERVICE_NEWS_H
#define SAL_SERVICE_NEWS_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

struct svc_server;

/* Part of the server. */
struct svc_news {
	bool is_running; /* the timer runs, or starts soon */
	uv_async_t bell;
	uv_timer_t timer;
};

/* Part of a session: how long the session has waited. */
struct svc_patience {
	bool understands; /* the plugin understands news */
	uint64_t since_ns; /* when the wait began; 0: the session does not wait */
	uint64_t iterations; /* done when the wait began */
	uint64_t tasks; /* done by the compile pool when the wait began */
	uint64_t tasks_done; /* by the compile pool, until now */
	bool told;
};

void svc_news_open(struct svc_server *server);
/* Start checking: a session has work. Under server->lock; cheap. */
void svc_news_watch(struct svc_server *server);

#endif
