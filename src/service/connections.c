/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connections - the main thread: the socket, the greeting, the death of clients.
 *
 * A connection is a client (its first bytes are a hello) or somebody with a question (a line of JSON). A
 * client's socket stays open as its death notice; all it ever says on it again is that it wants more shared
 * memory.
 */
#include "service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "link/socket.h"

#define CLIENTS_MAX 4096
#define LINE_MAX_BYTES 65536
#define HELLO_MAX 4096
/* A connection that says nothing for that long is closed. */
#define HELLO_NS UINT64_C(2000000000)

/* One connection. */
struct svc_client {
	LIST_ENTRY(svc_client) link; /* in server->clients */
	struct svc_server *server; /* borrowed */
	uv_poll_t poll;
	int fd; /* owned */
	struct svc_session *session; /* owned reference; NULL before the hello, and for questions */
	uint64_t open_ns;
	size_t filled;
	char bytes[LINE_MAX_BYTES]; /* what has come of the hello or the line */
};

static void on_client_closed(uv_handle_t *handle)
{
	struct svc_client *c = handle->data;

	(void)close(c->fd);
	free(c);
}

/* The client hung up or was told to go. */
static void client_close(struct svc_client *c)
{
	struct svc_server *server = c->server;

	LIST_REMOVE(c, link);
	server->idle_since_ns = svc_now_ns();
	if (c->session) {
		svc_jobs_cancel(c->session);
		svc_lock(server);
		c->session->socket = -1;
		svc_session_kill(c->session, server->closing ? "salus: salusd has stopped"
							     : "salus: the session has ended");
		svc_unlock(server);
		svc_worker_wake(server); /* others may have been granted their turn */
		svc_session_unref(c->session);
	}
	(void)uv_poll_stop(&c->poll);
	uv_close((uv_handle_t *)&c->poll, on_client_closed);
}

static void close_fds(int *fds, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

/* A fresh socket takes this without waiting; one that does not is no client of ours. */
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
		.fact_bytes = refusal ? 0 : server->fact_size,
		.memory_bytes = server->options.memory_bytes,
	};
	int rc;

	if (refusal)
		(void)snprintf(welcome.reason, sizeof(welcome.reason), "%.*s", SAL_REASON_BYTES - 1,
			       refusal->text);
	rc = sal_socket_send(c->fd, &welcome, sizeof(welcome), fds, refusal ? 0 : 4, NULL);
	if (rc >= 0 && !refusal)
		rc = sal_socket_send(c->fd, server->facts, server->fact_size, NULL, 0, NULL);
	return rc;
}

static bool greet(struct svc_client *c)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);
	struct sal_hello hello;
	struct sal_err err = { 0 };
	int fds[4];
	bool ok;

	memcpy(&hello, c->bytes, sizeof(hello));
	(void)getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	if (!sal_hello_is_valid(&hello))
		return false;
	if (hello.major != SAL_WIRE_MAJOR) {
		(void)sal_err_set(&err, SAL_FAILED_PRECONDITION,
				  "protocol %u.%u is not ours (%d.%d): the plugin is of another "
				  "version",
				  hello.major, hello.minor, SAL_WIRE_MAJOR, SAL_WIRE_MINOR);
		(void)send_welcome(c, &err, NULL);
		return false;
	}
	if (svc_session_create(c->server, &hello, &peer, &c->session, fds, &err) < 0) {
		(void)send_welcome(c, &err, NULL);
		return false;
	}
	(void)svc_session_ref(c->session); /* one for the server's list, one for us */
	svc_lock(c->server);
	c->session->socket = c->fd;
	svc_unlock(c->server);
	ok = send_welcome(c, NULL, fds) >= 0;
	close_fds(fds, 4);
	sal_log_info("session", "opened id=%" PRIu64 " name=%s pid=%d uid=%u", c->session->id,
		     c->session->name, (int)peer.pid, (unsigned)peer.uid);
	return ok;
}

static bool answer_question(struct svc_client *c)
{
	char *end = memchr(c->bytes, '\n', c->filled);
	int *fd = &c->server->trace.answer_fd; /* some answers come with a descriptor */
	char *answer;

	if (!end)
		return c->filled < sizeof(c->bytes);
	*end = '\0';
	answer = svc_admin_answer(c->server, c->fd, c->bytes);
	if (answer)
		(void)sal_socket_send(c->fd, answer, strlen(answer), fd, *fd >= 0 ? 1 : 0, NULL);
	free(answer);
	close_fds(fd, 1);
	*fd = -1;
	return false; /* one question, one answer */
}

/* One that does not read what it asked for must not hold up the others. */
static bool takes_bytes(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0 && (p.revents & POLLOUT);
}

static bool grow(struct svc_client *c)
{
	struct sal_grown grown = { 0 };
	struct sal_grow ask;
	struct sal_err err = { 0 };
	int fd;
	bool ok;

	memcpy(&ask, c->bytes, sizeof(ask));
	c->filled = 0;
	fd = svc_session_grow(c->session, ask.bytes, &grown.segment, &grown.bytes, &err);
	if (fd < 0)
		grown.code = err.code;
	ok = takes_bytes(c->fd) &&
	     sal_socket_send(c->fd, &grown, sizeof(grown), &fd, fd >= 0 ? 1 : 0, NULL) >= 0;
	if (fd >= 0)
		(void)close(fd);
	return ok;
}

/* A newer client's hello is longer than ours; what we do not know of it is skipped. */
static size_t hello_size(const struct svc_client *c)
{
	struct sal_hello hello;

	if (c->filled < sizeof(hello))
		return sizeof(hello);
	memcpy(&hello, c->bytes, sizeof(hello));
	return hello.size > sizeof(hello) && hello.size <= HELLO_MAX ? hello.size : sizeof(hello);
}

/* What has come is enough for something; false: hang up. */
static bool look_at(struct svc_client *c)
{
	if (c->session)
		return c->filled < sizeof(struct sal_grow) || grow(c);
	if (c->bytes[0] == '{')
		return answer_question(c);
	if (c->filled < hello_size(c))
		return true;
	c->filled = 0;
	return greet(c);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct svc_client *c = poll->data;
	size_t want = c->session	   ? sizeof(struct sal_grow)
		      : c->filled == 0	   ? 1
		      : c->bytes[0] == '{' ? sizeof(c->bytes)
					   : hello_size(c);
	ssize_t n;

	if (status < 0 || (events & UV_DISCONNECT && !(events & UV_READABLE))) {
		client_close(c);
		return;
	}
	/* Without waiting; descriptors that a client sends along are closed by the kernel. */
	n = recv(c->fd, c->bytes + c->filled, want - c->filled, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_close(c);
		return;
	}
	c->filled += (size_t)n;
	if (!look_at(c))
		client_close(c);
}

static uint32_t count_clients(const struct svc_server *server)
{
	const struct svc_client *c;
	uint32_t n = 0;

	LIST_FOREACH(c, &server->clients, link)
		n++;
	return n;
}

static void on_connection(uv_poll_t *poll, int status, int events);

/* Runs only while there are connections that have not greeted, or could not be accepted. */
static void on_hello_timer(uv_timer_t *timer)
{
	struct svc_server *server = timer->data;
	struct svc_client *c, *next;
	bool silent = false;

	for (c = LIST_FIRST(&server->clients); c; c = next) {
		next = LIST_NEXT(c, link);
		if (c->session)
			continue;
		if (svc_now_ns() - c->open_ns > HELLO_NS)
			client_close(c);
		else
			silent = true;
	}
	if (!uv_is_active((uv_handle_t *)&server->listener))
		(void)uv_poll_start(&server->listener, UV_READABLE, on_connection);
	else if (!silent)
		(void)uv_timer_stop(timer);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	struct svc_server *server = poll->data;
	struct timeval patience = { .tv_sec = 1 };
	struct svc_client *c;
	int fd;

	(void)events;
	if (status < 0)
		return;
	fd = accept4(server->listen.fd, NULL, NULL, SOCK_CLOEXEC);
	if (!uv_is_active((uv_handle_t *)&server->hello_timer))
		(void)uv_timer_start(&server->hello_timer, on_hello_timer, 1000, 1000);
	if (fd < 0) { /* no descriptors left: look again when the timer comes */
		if (errno == EMFILE || errno == ENFILE)
			(void)uv_poll_stop(&server->listener);
		return;
	}
	c = count_clients(server) < CLIENTS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (!c || uv_poll_init(&server->loop, &c->poll, fd) < 0) {
		free(c);
		(void)close(fd);
		return;
	}
	(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	c->server = server;
	c->fd = fd;
	c->open_ns = svc_now_ns();
	c->poll.data = c;
	LIST_INSERT_HEAD(&server->clients, c, link);
	(void)uv_poll_start(&c->poll, UV_READABLE | UV_DISCONNECT, on_readable);
}

void svc_connections_open(struct svc_server *server)
{
	server->listener.data = server;
	(void)uv_poll_init(&server->loop, &server->listener, server->listen.fd);
	(void)uv_poll_start(&server->listener, UV_READABLE, on_connection);
	server->hello_timer.data = server;
	(void)uv_timer_init(&server->loop, &server->hello_timer);
}

void svc_connections_close(struct svc_server *server)
{
	struct svc_client *c;

	while ((c = LIST_FIRST(&server->clients)))
		client_close(c);
}
