/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_answer - the answer to `salus trace`: a copy of the ring, in its own shared memory.
 *
 * Askers within one second get the same copy.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "link/socket.h"
#include "service/admin/admin.h"
#include "service/admin/answer_line.h"
#include "service/admin/walk.h"
#include "service/client/session.h"
#include "service/server.h"
#include "service/trace.h"

#define FRESH_NS UINT64_C(1000000000)

/* Names of the open sessions. Names of later sessions are in the entries. */
struct names {
	struct sal_trace_name *at; /* owned */
	uint64_t count;
};

static void add_name(void *ctx, const struct svc_session *s)
{
	struct names *names = ctx;
	struct sal_trace_name *name;

	if (!s)
		return;
	name = &names->at[names->count++];
	name->session = s->id;
	sal_trace_copy_name(name->name, sizeof(name->name), s->name);
}

static int collect_names(struct svc_server *server, struct names *names, struct sal_err *err)
{
	struct svc_walk walk = { .server = server };

	do {
		uint64_t room = names->count + SVC_WALK_SESSIONS;
		struct sal_trace_name *at = reallocarray(names->at, room, sizeof(*at));

		if (!at) {
			svc_walk_end(&walk);
			return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
		}
		memset(at + names->count, 0, SVC_WALK_SESSIONS * sizeof(*at));
		names->at = at;
	} while (svc_walk_on(&walk, add_name, names));
	return SAL_OK;
}

static int fill(struct svc_server *server, const struct names *names, uint64_t entries,
		struct svc_snapshot *out, struct sal_err *err)
{
	struct sal_trace_head *head = sal_shared_map(out->fd, out->bytes);
	struct sal_trace_name *to;

	if (!head)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "cannot map the trace's copy");
	memset(head, 0, out->bytes); /* get the pages from the kernel before taking the lock */
	to = svc_trace_copy(&server->trace, server->engine, &server->lock, head, entries);
	if (names->count > 0)
		memcpy(to, names->at, names->count * sizeof(*to));
	head->name_count = names->count;
	out->head = *head;
	(void)munmap(head, out->bytes);
	return SAL_OK;
}

static int take_snapshot(struct svc_server *server, struct svc_snapshot *out, struct sal_err *err)
{
	struct names names = { 0 };
	uint64_t entries;
	int rc = collect_names(server, &names, err);

	*out = (struct svc_snapshot){ .fd = -1, .made_ns = svc_now_ns() };
	svc_lock(server);
	/* Leave room for entries that come meanwhile. */
	entries = svc_trace_count(&server->trace) + SVC_TRACE_ROUND;
	svc_unlock(server);
	out->bytes = svc_trace_bytes(entries, names.count);
	if (rc >= 0)
		rc = out->fd = sal_shared_create("salus-trace", out->bytes, err);
	if (rc >= 0)
		rc = fill(server, &names, entries, out, err);
	free(names.at);
	if (rc < 0 && out->fd >= 0)
		(void)close(out->fd);
	return rc;
}

/* Return the newest snapshot if it is fresh, else make a new one. */
static struct svc_snapshot *find_snapshot(struct svc_server *server, struct sal_err *err)
{
	struct svc_trace *t = &server->trace;
	struct svc_snapshot made;

	if (t->snapshot_count > 0) {
		struct svc_snapshot *newest = &t->snapshots[t->snapshot_count - 1];

		if (svc_now_ns() - newest->made_ns < FRESH_NS)
			return newest;
	}
	if (take_snapshot(server, &made, err) < 0)
		return NULL;
	return svc_trace_add(t, &made);
}

json_t *svc_answer_trace(struct svc_question *q)
{
	struct svc_snapshot *s;

	if (!q->has_fd_room) {
		(void)sal_err_set(&q->err, SAL_RESOURCE_EXHAUSTED,
				  "%u traces were sent and are not read yet: try again in a second",
				  SVC_ANSWER_FDS_MAX);
		return NULL;
	}
	s = find_snapshot(q->server, &q->err);
	if (!s)
		return NULL;
	q->fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
	if (q->fd < 0) {
		(void)sal_err_set(&q->err, SAL_RESOURCE_EXHAUSTED, "no descriptor is left");
		return NULL;
	}
	s->given_ns = svc_now_ns();
	return json_pack("{s:b, s:I, s:I}", "ok", 1, "records", (json_int_t)s->head.count,
			 "dropped", (json_int_t)s->head.dropped);
}
