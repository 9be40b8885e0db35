/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk - visits all sessions, oldest first, and releases server->lock now and then.
 *
 * Each round holds the lock for a few sessions; between rounds sessions come and go. A session that
 * exists all along is visited once.
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
 * Visits up to SVC_WALK_SESSIONS more under the lock; true: there may be others. At the end visits
 * NULL, under the same lock, so that few sessions and what goes with them are seen in one moment.
 */
bool svc_walk_on(struct svc_walk *walk, void (*visit)(void *ctx, const struct svc_session *s),
		 void *ctx);
/* End a walk before its end. */
void svc_walk_end(struct svc_walk *walk);

#endif
