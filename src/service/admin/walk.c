/* SPDX-License-Identifier: Apache-2.0 */
#include "service/admin/walk.h"

#include "service/client/session.h"
#include "service/server.h"

/* The session after the last visited one. Ids only grow, and the list is in order of ids. */
static struct svc_session *find_next(const struct svc_walk *walk)
{
	struct svc_session *s;

	if (!walk->last)
		return TAILQ_FIRST(&walk->server->sessions);
	if (walk->last->state != SVC_CLOSED)
		return TAILQ_NEXT(walk->last, link);
	TAILQ_FOREACH(s, &walk->server->sessions, link)
		if (s->id > walk->last->id)
			break;
	return s;
}

bool svc_walk_on(struct svc_walk *walk, void (*visit)(void *ctx, const struct svc_session *s),
		 void *ctx)
{
	struct svc_session *s, *last = NULL;
	size_t n = 0;

	svc_lock(walk->server);
	for (s = find_next(walk); s && n < SVC_WALK_SESSIONS; s = TAILQ_NEXT(s, link)) {
		visit(ctx, s);
		last = s;
		n++;
	}
	if (s)
		(void)svc_session_ref(last);
	else
		visit(ctx, NULL);
	svc_unlock(walk->server);
	svc_walk_end(walk);
	walk->last = s ? last : NULL;
	return s;
}

void svc_walk_end(struct svc_walk *walk)
{
	if (walk->last)
		svc_session_unref(walk->last);
	walk->last = NULL;
}
