/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greeting - a client joins, and asks for more shared memory.
 *
 * The replies fit into the socket of a client that reads. salusd disconnects a client that does not
 * read.
 */
#include "service/client/connections.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log/log.h"
#include "base/sys/fd.h"
#include "link/socket.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
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
	if (rc < 0 || join(c, &hello, &peer, fds, &err) < 0)
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

bool svc_client_grow(struct svc_client *c)
{
	struct sal_grown grown = { 0 };
	struct sal_grow ask;
	struct sal_err err = { 0 };
	int fd;
	bool ok;

	memcpy(&ask, c->bytes, sizeof(ask));
	fd = svc_session_grow(c->session, ask.bytes, &grown.segment, &grown.bytes, &err);
	if (fd < 0)
		grown.code = err.code;
	ok = sal_socket_send(c->fd, &grown, sizeof(grown), &fd, fd >= 0 ? 1 : 0, NULL) >= 0;
	close_fds(&fd, 1);
	return ok;
}
