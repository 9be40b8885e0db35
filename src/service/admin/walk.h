/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk - visits all sessions, oldest first, and releases server->lock now and then.
 *
 * Each round holds the lock for a few sessions. Between rounds sessions come and go. The walk
 * visits a session that exists all the time exactly once.
 *
 * Threads: the main thread, without server->lock.
 */
#ifndef SAL_SERVICE_WALK_H
#define SAL_SERVICE_WALK_H

#include <stdbool.h>

struct svc_server;
struct svc_session;

#define SVC_WALK_SESSIONS 64u

struct svc_walk {
	struct svc_server *server; /* borrowed */
	struct svc_session *last; /* owned reference: visited last; NULL: none yet */
};

/*
 * Visit up to SVC_WALK_SESSIONS more sessions under the lock. True: there are others. The last
 * round also visits NULL, under the same lock. So a short walk can read all sessions and other
 * state at the same moment.
 */
bool svc_walk_on(struct svc_walk *walk, void (*visit)(void *ctx, const struct svc_session *s),
		 void *ctx);
/* Stop a walk before its last round. */
void svc_walk_end(struct svc_walk *walk);

#endif
