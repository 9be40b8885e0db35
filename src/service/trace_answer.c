/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_answer - the answer to `salus trace`: a copy of the ring in shared memory of its own.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "link/socket.h"
#include "service/admin.h"

/* Room in the copy for what comes between asking for its memory and filling it. */
#define SLACK 4096u

static uint64_t count_sessions(const struct svc_server *server)
{
	const struct svc_session *s;
	uint64_t n = 0;

	TAILQ_FOREACH(s, &server->sessions, link)
		n++;
	return n;
}

static void copy_names(const struct svc_server *server, struct sal_trace_head *head,
		       struct sal_trace_name *to, uint64_t most)
{
	const struct svc_session *s;

	TAILQ_FOREACH(s, &server->sessions, link) {
		if (head->name_count == most)
			return;
		to[head->name_count].session = s->id;
		sal_trace_copy_name(to[head->name_count].name, sizeof(to->name), s->name);
		head->name_count++;
	}
}

/* Sealed memory with all there is; consistent, for it is copied under the lock. */
static int export(struct svc_server *server, struct sal_trace_head *out_head, struct sal_err *err)
{
	uint64_t entries, names, bytes;
	void *memory;
	int fd;

	svc_lock(server);
	entries = svc_trace_count(&server->trace) + SLACK;
	names = count_sessions(server) + 1;
	svc_unlock(server);
	bytes = svc_trace_bytes(entries, names);
	fd = sal_shared_create("salus-trace", bytes, err);
	if (fd < 0)
		return fd;
	memory = sal_shared_map(fd, bytes);
	if (!memory) {
		(void)close(fd);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "cannot map the trace's copy");
	}
	memset(memory, 0, bytes); /* so that no page is missing while we hold the lock */
	svc_lock(server);
	copy_names(server, memory, svc_trace_copy(&server->trace, server->engine, memory, entries),
		   names);
	svc_unlock(server);
	*out_head = *(struct sal_trace_head *)memory;
	(void)munmap(memory, bytes);
	return fd;
}

json_t *svc_answer_trace(struct svc_question *q)
{
	struct svc_server *server = q->server;
	struct sal_trace_head head = { 0 };
	int fd = export(server, &head, &q->err);

	if (fd < 0)
		return NULL;
	if (server->trace.answer_fd >= 0)
		(void)close(server->trace.answer_fd);
	server->trace.answer_fd = fd;
	return json_pack("{s:b, s:I, s:I}", "ok", 1, "records", (json_int_t)head.count, "dropped",
			 (json_int_t)head.dropped);
}
