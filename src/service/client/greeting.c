/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greeting - a client joins, and asks for more shared memory or for an exposed block.
 *
 * The replies fit into the socket of a client that reads. salusd disconnects a client that does not
 * read.
 */
#include "service/client/connections.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log/log.h"
#include "base/sys/fd.h"
#include "heap/exposed.h"
#include "heap/heap.h"
#include "link/socket.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/ledger.h"
#include "service/memory/kind.h"
#include "service/server.h"

static void close_fds(int *fds, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		sal_close(&fds[i]);
}

/* The facts that its session gets. The kind stays open while the session is there. */
static struct sal_text facts_of(const struct svc_client *c)
{
	const struct svc_kind *kind = &c->server->kinds[c->session->kind];

	if (c->session->kind == 0)
		return (struct sal_text){ c->server->facts, c->server->fact_size };
	return (struct sal_text){ kind->facts, kind->fact_size };
}

static int send_welcome(struct svc_client *c, const struct sal_err *refusal, int *fds)
{
	struct svc_server *server = c->server;
	struct sal_welcome welcome = {
		.magic = SAL_WIRE_MAGIC,
		.major = SAL_WIRE_MAJOR,
		.minor = SAL_WIRE_MINOR,
		.size = sizeof(welcome),
		.code = refusal ? refusal->code : 0,
		.session = c->session ? c->session->id : 0,
		.ring_bytes = SVC_RING_BYTES,
		.segment_bytes = SVC_SEGMENT_BYTES,
		.fact_bytes = refusal ? 0 : facts_of(c).size,
		.memory_bytes = server->options.memory_bytes,
	};
	int rc;

	if (refusal)
		(void)snprintf(welcome.reason, sizeof(welcome.reason), "%.*s", SAL_REASON_BYTES - 1,
			       refusal->text);
	rc = sal_socket_send(c->fd, &welcome, sizeof(welcome), fds, refusal ? 0 : 4, NULL);
	if (rc >= 0 && !refusal)
		rc = sal_socket_send(c->fd, facts_of(c).at, facts_of(c).size, NULL, 0, NULL);
	return rc;
}

static bool refuse(struct svc_client *c, const struct ucred *peer, const struct sal_err *err)
{
	(void)send_welcome(c, err, NULL);
	sal_log_limited(&c->server->connections.refusals, SAL_LOG_WARN, "session",
			"refused pid=%d uid=%u: %s", (int)peer->pid, (unsigned)peer->uid,
			err->text);
	return false;
}

static int join(struct svc_client *c, const struct sal_hello *hello, const struct ucred *peer,
		int fds[4], struct sal_err *err)
{
	if (hello->major != SAL_WIRE_MAJOR)
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "protocol %u.%u is not ours (%d.%d): the plugin is of another "
				   "version",
				   hello->major, hello->minor, SAL_WIRE_MAJOR, SAL_WIRE_MINOR);
	return svc_session_create(c->server, hello, peer, &c->session, fds, err);
}

/* An older client's hello is shorter than ours, in whole words of 8 bytes. */
static struct sal_hello read_hello(const struct svc_client *c)
{
	struct sal_hello hello = { 0 };
	size_t size;

	memcpy(&hello, c->bytes, SAL_HELLO_BYTES_MIN);
	size = hello.size < sizeof(hello) ? hello.size & ~(size_t)7 : sizeof(hello);
	if (size > SAL_HELLO_BYTES_MIN)
		memcpy(&hello, c->bytes, size);
	return hello;
}

/* A thread has opened the streams for which connections wait, or could not. */
static void on_opened(struct svc_server *server, uint32_t kind, const struct sal_err *err)
{
	struct svc_client *c, *next;

	for (c = TAILQ_FIRST(&server->connections.lists[SVC_OPENING].all); c; c = next) {
		struct ucred peer = { 0 };
		socklen_t size = sizeof(peer);

		next = TAILQ_NEXT(c, state_link);
		if (c->kind != kind)
			continue;
		(void)getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
		if (err->code ? !refuse(c, &peer, err) : !svc_client_greet(c))
			svc_client_close(c);
		else
			svc_client_listen(c);
	}
}

bool svc_client_greet(struct svc_client *c)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);
	struct sal_hello hello = read_hello(c);
	struct sal_err err = { 0 };
	int fds[4] = { -1, -1, -1, -1 };
	bool ok;
	int rc;

	(void)getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	if (!sal_hello_is_valid(&hello))
		return false;
	rc = svc_kind_find(c->server, svc_kind_wish(c->server, &hello), on_opened, &c->kind, &err);
	if (rc > 0) { /* on_opened greets */
		svc_client_pause(c);
		svc_client_move(c, SVC_OPENING);
		return true;
	}
	if (rc == 0) {
		rc = join(c, &hello, &peer, fds, &err);
		svc_kind_leave_soon(c->server, c->kind); /* the session has entered it */
	}
	if (rc < 0)
		return refuse(c, &peer, &err);
	(void)svc_session_ref(c->session); /* for the connection; the server's list has its own */
	svc_client_move(c, SVC_JOINED);
	svc_lock(c->server);
	c->session->socket = c->fd;
	svc_unlock(c->server);
	ok = send_welcome(c, NULL, fds) >= 0;
	close_fds(fds, 4);
	sal_log_info("session", "opened id=%" PRIu64 " name=%s pid=%d uid=%u", c->session->id,
		     c->session->name, (int)peer.pid, (unsigned)peer.uid);
	return ok;
}

static bool has_number(const struct svc_exposed *e, uint64_t number)
{
	for (uint32_t i = 0; i < e->count; i++)
		if (e->numbers[i] == number)
			return true;
	return false;
}

/* Count one more block of the client. */
static int add_number(struct svc_session *s, uint64_t number, struct sal_err *err)
{
	struct svc_exposed *e = &s->exposed;
	int rc;

	if (has_number(e, number))
		return SAL_OK;
	if (!e->numbers)
		e->numbers = calloc(SAL_EXPOSED_MAX, sizeof(*e->numbers));
	if (!e->numbers || e->count == SAL_EXPOSED_MAX)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "too many exposed blocks");
	rc = svc_limit_take(s, SVC_EXPOSED, 1, err);
	if (rc >= 0)
		e->numbers[e->count++] = number;
	return rc;
}

/* Tell the client which of its blocks are withdrawn. */
static void sweep_session(struct svc_session *s)
{
	struct svc_exposed *e = &s->exposed;
	uint32_t i = 0;

	while (i < e->count) {
		if (sal_heap_is_exposed(e->numbers[i])) {
			i++;
			continue;
		}
		svc_outbox_withdrawn(&s->outbox, e->numbers[i]);
		svc_limit_give(s, SVC_EXPOSED, 1);
		e->numbers[i] = e->numbers[--e->count];
	}
}

/* A new descriptor of the session's block, or a negative code. */
static int open_block(struct svc_session *s, uint64_t number, uint64_t *out_bytes,
		      struct sal_err *err)
{
	int fd = sal_heap_exposed_fd(number, s->real.meter, out_bytes);
	int rc;

	if (fd < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "the session has no such block");
	rc = add_number(s, number, err);
	if (rc < 0) {
		sweep_session(s);
		rc = add_number(s, number, err);
	}
	if (rc < 0)
		sal_close(&fd);
	return rc < 0 ? rc : fd;
}

bool svc_client_grow(struct svc_client *c)
{
	struct sal_grown grown = { 0 };
	struct sal_grow ask;
	struct sal_err err = { 0 };
	int fd;
	bool ok;

	memcpy(&ask, c->bytes, sizeof(ask));
	if (ask.bytes & SAL_GROW_BLOCK) {
		fd = open_block(c->session, ask.bytes & ~SAL_GROW_BLOCK, &grown.bytes, &err);
		svc_connections_tick(c->server);
	} else {
		fd = svc_session_grow(c->session, ask.bytes, &grown.segment, &grown.bytes, &err);
	}
	if (fd < 0)
		grown.code = err.code;
	ok = sal_socket_send(c->fd, &grown, sizeof(grown), &fd, fd >= 0 ? 1 : 0, NULL) >= 0;
	close_fds(&fd, 1);
	return ok;
}

bool svc_expose_sweep(struct svc_server *server)
{
	struct svc_client *c;
	bool any = false;

	LIST_FOREACH(c, &server->clients, link) {
		if (!c->session || c->session->exposed.count == 0)
			continue;
		sweep_session(c->session);
		any |= c->session->exposed.count > 0;
	}
	return any;
}
