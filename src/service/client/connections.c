/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection is a client if its first bytes are a hello, and an asker if they are a line of JSON.
 * A client's socket stays open, so that salusd sees when the client dies. Later a client sends only
 * one kind of message on the socket: a request for shared memory.
 */
#include "service/client/connections.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys/fd.h"
#include "service/admin/answer_line.h"
#include "service/client/session.h"
#include "service/ledger.h"
#include "service/run/closing.h"
#include "service/run/tasks.h"
#include "service/run/worker.h"
#include "service/server.h"
#include "service/trace.h"

#define LINE_BYTES_MAX 65536u
#define HELLO_BYTES_MAX 4096u
/* Bytes allocated first: enough for a hello and for most lines. */
#define FIRST_BYTES 256u
/* salusd closes a connection that sends neither a hello nor a whole line for this long. */
#define HELLO_NS UINT64_C(2000000000)
/* Connections accepted in one round, so that other connections are served, too. */
#define ACCEPTS_MAX 32

_Static_assert(FIRST_BYTES >= sizeof(struct sal_hello), "a hello fits");

static void on_connection(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);

static void listen_again(struct svc_server *server)
{
	if (!server->closing && !uv_is_active((uv_handle_t *)&server->listener))
		(void)uv_poll_start(&server->listener, UV_READABLE, on_connection);
}

static void on_client_closed(uv_handle_t *handle)
{
	struct svc_client *c = handle->data;
	struct svc_connections *all = &c->server->connections;

	(void)close(c->fd);
	if (all->reserve_fd < 0 && all->is_open)
		all->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	listen_again(c->server);
	free(c);
}

static void end_session(struct svc_client *c)
{
	struct svc_server *server = c->server;

	svc_tasks_cancel(c->session);
	svc_lock(server);
	c->session->socket = -1;
	svc_session_kill(c->session, server->closing ? "salus: salusd has stopped"
						     : "salus: the session has ended");
	svc_unlock(server);
	svc_worker_wake(server); /* the engine may have granted iterations of other sessions */
	svc_session_unref(c->session);
	c->session = NULL;
}

static void give_places(struct svc_client *c)
{
	svc_account_give(&c->account, SVC_STRANGERS, c->account.used[SVC_STRANGERS]);
	svc_account_give(&c->account, SVC_QUESTIONS, c->account.used[SVC_QUESTIONS]);
}

/* The oldest other connection of the same user, else of all users. */
static struct svc_client *find_oldest(const struct svc_client *c, enum svc_client_state state)
{
	struct svc_client *other, *oldest = NULL;

	TAILQ_FOREACH(other, &c->server->connections.lists[state].all, state_link) {
		if (other != c && other->account.user == c->account.user)
			return other;
		if (other != c && !oldest)
			oldest = other;
	}
	return oldest;
}

bool svc_client_take_place(struct svc_client *c, enum svc_resource what,
			   enum svc_client_state state)
{
	give_places(c);
	while (svc_account_take(&c->account, what, 1, NULL) < 0) {
		struct svc_client *oldest = find_oldest(c, state);

		if (!oldest)
			return false;
		svc_client_close(oldest);
	}
	return true;
}

/* The other side hung up, or salusd hangs up. */
void svc_client_close(struct svc_client *c)
{
	struct svc_server *server = c->server;
	struct svc_connections *all = &server->connections;

	LIST_REMOVE(c, link);
	if (c->state == SVC_LOADING)
		svc_load_forget(server);
	TAILQ_REMOVE(&all->lists[c->state].all, c, state_link);
	all->lists[c->state].count--;
	server->idle_since_ns = svc_now_ns();
	if (c->session)
		end_session(c);
	if (c->answer)
		all->unsent_bytes -= c->answer->size - c->sent;
	all->unread_fds -= c->has_fd;
	svc_answer_line_unref(c->answer);
	give_places(c);
	svc_account_close(&c->account);
	free(c->bytes);
	(void)uv_poll_stop(&c->poll);
	uv_close((uv_handle_t *)&c->poll, on_client_closed);
}

static bool may_move(enum svc_client_state from, enum svc_client_state to)
{
	if (to == SVC_TAKING)
		return from == SVC_ASKING || from == SVC_LOADING;
	if (to == SVC_JOINED && from == SVC_OPENING)
		return true;
	return from == (to == SVC_LOADING ? SVC_ASKING : SVC_SILENT);
}

void svc_client_move(struct svc_client *c, enum svc_client_state state)
{
	struct svc_client_list *lists = c->server->connections.lists;

	SAL_ASSERT(may_move(c->state, state));
	TAILQ_REMOVE(&lists[c->state].all, c, state_link);
	lists[c->state].count--;
	c->state = state;
	if (state == SVC_JOINED)
		give_places(c); /* a session has its own account */
	c->since_ns = svc_now_ns();
	TAILQ_INSERT_TAIL(&lists[state].all, c, state_link);
	lists[state].count++;
}

static bool is_question(const struct svc_client *c)
{
	return c->filled > 0 && c->bytes[0] == '{';
}

/*
 * An older client's hello may be shorter than struct sal_hello, a newer client's longer. salusd
 * skips the rest of a longer one.
 */
static size_t hello_size(const struct svc_client *c)
{
	struct sal_hello hello;

	if (c->filled < SAL_HELLO_BYTES_MIN)
		return SAL_HELLO_BYTES_MIN;
	memcpy(&hello, c->bytes, SAL_HELLO_BYTES_MIN);
	return hello.size > SAL_HELLO_BYTES_MIN && hello.size <= HELLO_BYTES_MAX
		       ? hello.size
		       : SAL_HELLO_BYTES_MIN;
}

/* How many bytes to read before the next check. */
static size_t wanted(const struct svc_client *c)
{
	if (c->state == SVC_JOINED)
		return sizeof(struct sal_grow);
	if (!is_question(c))
		return hello_size(c);
	return c->filled < c->room ? c->room : 2 * c->room;
}

static bool make_room(struct svc_client *c, size_t room)
{
	char *bytes;

	if (room <= c->room)
		return true;
	bytes = realloc(c->bytes, room);
	if (!bytes)
		return false;
	c->bytes = bytes;
	c->room = room;
	return true;
}

/* Answer the line if it is complete. False: hang up. */
static bool find_line(struct svc_client *c)
{
	char *end = memchr(c->bytes, '\n', c->filled);

	if (!end)
		return c->filled < LINE_BYTES_MAX;
	*end = '\0';
	svc_client_ask(c);
	return true;
}

/* Handle the bytes if they are a whole line, hello or request. False: hang up. */
static bool handle_bytes(struct svc_client *c)
{
	if (is_question(c) && c->state == SVC_SILENT)
		return find_line(c);
	if (c->filled < wanted(c))
		return true;
	c->filled = 0;
	return c->state == SVC_JOINED ? svc_client_grow(c) : svc_client_greet(c);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct svc_client *c = poll->data;
	size_t want = wanted(c);
	ssize_t n = -1;

	if (status < 0 || (events & UV_DISCONNECT && !(events & UV_READABLE)) ||
	    !make_room(c, want)) {
		svc_client_close(c);
		return;
	}
	/* Read once, without waiting. The kernel closes descriptors that come with the bytes. */
	n = recv(c->fd, c->bytes + c->filled, want - c->filled, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		svc_client_close(c);
		return;
	}
	c->filled += (size_t)n;
	if (!handle_bytes(c))
		svc_client_close(c);
}

void svc_client_listen(struct svc_client *c)
{
	(void)uv_poll_start(&c->poll, UV_READABLE | UV_DISCONNECT, on_readable);
}

void svc_client_pause(struct svc_client *c)
{
	(void)uv_poll_stop(&c->poll);
}

void svc_connections_tick(struct svc_server *server)
{
	if (!uv_is_active((uv_handle_t *)&server->hello_timer))
		(void)uv_timer_start(&server->hello_timer, on_timer, 1000, 1000);
}

static void add(struct svc_server *server, int fd)
{
	struct svc_client_list *silent = &server->connections.lists[SVC_SILENT];
	struct svc_client *c = calloc(1, sizeof(*c));
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	if (!c || !make_room(c, FIRST_BYTES) || uv_poll_init(&server->loop, &c->poll, fd) < 0) {
		if (c)
			free(c->bytes);
		free(c);
		(void)close(fd);
		return;
	}
	c->server = server;
	c->fd = fd;
	c->since_ns = svc_now_ns();
	c->poll.data = c;
	LIST_INSERT_HEAD(&server->clients, c, link);
	TAILQ_INSERT_TAIL(&silent->all, c, state_link);
	silent->count++;
	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	if (svc_account_open(&c->account, &server->ledger, peer.uid, NULL) < 0 ||
	    !svc_client_take_place(c, SVC_STRANGERS, SVC_SILENT))
		svc_client_close(c);
	else
		svc_client_listen(c);
}

/*
 * No descriptor is free: use the reserve, else close the oldest silent connection, else wait for
 * the timer.
 */
static bool find_descriptor(struct svc_server *server)
{
	struct svc_connections *all = &server->connections;
	struct svc_client *oldest = TAILQ_FIRST(&all->lists[SVC_SILENT].all);

	if (all->reserve_fd >= 0) {
		sal_close(&all->reserve_fd);
		return true;
	}
	(void)uv_poll_stop(&server->listener);
	if (oldest)
		svc_client_close(oldest); /* on_client_closed listens again */
	return false;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	struct svc_server *server = poll->data;
	int fd, i;

	(void)events;
	if (status < 0)
		return;
	svc_connections_tick(server);
	for (i = 0; i < ACCEPTS_MAX; i++) {
		fd = accept4(server->listen.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			add(server, fd);
		else if ((errno != EMFILE && errno != ENFILE) || !find_descriptor(server))
			return;
	}
}

/* Once a second, while a connection has a deadline or could not be accepted. */
static void on_timer(uv_timer_t *timer)
{
	struct svc_server *server = timer->data;
	struct svc_client_list *lists = server->connections.lists;
	uint64_t now_ns = svc_now_ns();
	struct svc_client *c;
	bool has_exposed;

	while ((c = TAILQ_FIRST(&lists[SVC_SILENT].all)) && now_ns - c->since_ns > HELLO_NS)
		svc_client_close(c);
	has_exposed = svc_expose_sweep(server);
	svc_questions_expire(server, now_ns);
	svc_trace_forget(&server->trace, now_ns);
	if (!uv_is_active((uv_handle_t *)&server->listener))
		listen_again(server);
	else if (lists[SVC_SILENT].count == 0 && lists[SVC_LOADING].count == 0 &&
		 lists[SVC_TAKING].count == 0 && server->trace.snapshot_count == 0 && !has_exposed)
		(void)uv_timer_stop(timer);
}

void svc_connections_open(struct svc_server *server)
{
	struct svc_connections *all = &server->connections;
	int i;

	for (i = 0; i < SVC_CLIENT_STATES; i++)
		TAILQ_INIT(&all->lists[i].all);
	all->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	all->is_open = true;
	all->round_end.data = server;
	(void)uv_check_init(&server->loop, &all->round_end);
	server->listener.data = server;
	(void)uv_poll_init(&server->loop, &server->listener, server->listen.fd);
	(void)uv_poll_start(&server->listener, UV_READABLE, on_connection);
	server->hello_timer.data = server;
	(void)uv_timer_init(&server->loop, &server->hello_timer);
}

void svc_connections_close(struct svc_server *server)
{
	struct svc_connections *all = &server->connections;
	struct svc_client *c;

	while ((c = LIST_FIRST(&server->clients)))
		svc_client_close(c);
	if (all->is_open && all->reserve_fd >= 0)
		(void)close(all->reserve_fd);
	all->reserve_fd = -1;
	all->is_open = false;
}
