/* SPDX-License-Identifier: Apache-2.0 */
/*
 * questions - an asker sends one question, gets one answer, and the connection ends.
 *
 * salusd answers all lines of one round of the loop together, at the end of the round. All askers
 * of `ps` in this round share one answer, which is made after all of them have asked.
 */
#include "service/client/connections.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "link/socket.h"
#include "service/admin/admin.h"
#include "service/admin/answer_line.h"
#include "service/server.h"

/* salusd disconnects an asker who does not take the answer in this time. */
#define TAKE_NS UINT64_C(10000000000)
/* After this time a new descriptor may replace an unread one. */
#define FRESH_NS UINT64_C(1000000000)
/* The kernel keeps unread bytes as long as the asker lives: allow few of them. */
#define SEND_BYTES 32768

/* The other side has read everything, or is gone. */
static bool is_all_read(const struct svc_client *c)
{
	int unread = 0;

	return ioctl(c->fd, SIOCOUTQ, &unread) == 0 && unread == 0;
}

static void on_takeable(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	svc_client_on_taking(poll->data);
}

/* The answer is sent. A descriptor in the socket counts until the asker has read it. */
static void finish(struct svc_client *c)
{
	svc_answer_line_unref(c->answer);
	c->answer = NULL;
	if (!c->has_fd || is_all_read(c)) {
		svc_client_close(c);
		return;
	}
	(void)shutdown(c->fd, SHUT_WR); /* the asker may wait for the end of the answer */
	(void)uv_poll_start(&c->poll, UV_DISCONNECT, on_takeable);
}

void svc_client_on_taking(struct svc_client *c)
{
	struct svc_answer_line *a = c->answer;
	int n = 1;

	if (!a && is_all_read(c)) {
		svc_client_close(c);
		return;
	}
	if (!a) {
		(void)uv_poll_stop(&c->poll); /* half closed; the timer checks again */
		return;
	}
	while (n > 0 && c->sent < a->size) {
		n = sal_socket_try_send(c->fd, a->text + c->sent, a->size - c->sent, &a->fd,
					c->sent == 0 && a->fd >= 0 ? 1 : 0);
		if (n < 0) {
			svc_client_close(c);
			return;
		}
		c->sent += (size_t)n;
		c->server->connections.unsent_bytes -= (size_t)n;
	}
	if (c->sent == a->size)
		finish(c);
}

/* The connection whose descriptor has been unread for longest. */
static struct svc_client *oldest_with_fd(struct svc_connections *all)
{
	struct svc_client *c;

	TAILQ_FOREACH(c, &all->lists[SVC_TAKING].all, state_link)
		if (c->has_fd)
			break;
	return c;
}

/* May one more descriptor be sent? It may replace one that has been unread for a while. */
static bool has_fd_room(struct svc_connections *all)
{
	return all->unread_fds < SVC_ANSWER_FDS_MAX ||
	       svc_now_ns() - oldest_with_fd(all)->since_ns > FRESH_NS;
}

/* Beyond a limit, close the oldest connections, but never the last one. */
static void drop_oldest(struct svc_connections *all, const struct svc_client *last)
{
	struct svc_client_list *taking = &all->lists[SVC_TAKING];
	struct svc_client *c;

	while (all->unsent_bytes > SVC_UNSENT_BYTES_MAX && (c = TAILQ_FIRST(&taking->all)) != last)
		svc_client_close(c);
	while (all->unread_fds > SVC_ANSWER_FDS_MAX && (c = oldest_with_fd(all)) != last)
		svc_client_close(c);
}

void svc_questions_expire(struct svc_server *server, uint64_t now_ns)
{
	struct svc_client *c, *next;

	for (c = TAILQ_FIRST(&server->connections.lists[SVC_TAKING].all); c; c = next) {
		next = TAILQ_NEXT(c, state_link);
		if (now_ns - c->since_ns > TAKE_NS || (!c->answer && is_all_read(c)))
			svc_client_close(c);
	}
}

void svc_client_ask(struct svc_client *c)
{
	struct svc_connections *all = &c->server->connections;

	(void)uv_poll_stop(&c->poll); /* read nothing more from the asker */
	svc_client_move(c, SVC_ASKING);
	(void)uv_check_start(&all->round_end, svc_on_round_end);
}

static void on_loaded(void *ctx);

/* shared: see struct svc_asker. */
static void answer(struct svc_client *c, struct svc_answer_line **shared)
{
	struct svc_connections *all = &c->server->connections;
	struct ucred peer = { .uid = (uid_t)-1 }; /* nobody, until the kernel tells */
	socklen_t size = sizeof(peer);
	struct svc_asker asker = { .shared = shared, .has_loaded = c->state == SVC_LOADING };
	int room = SEND_BYTES;

	(void)getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	(void)setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	asker.pid = peer.pid;
	asker.uid = peer.uid;
	asker.has_fd_room = has_fd_room(all);
	c->answer = svc_admin_answer(c->server, &asker, c->bytes);
	if (asker.waits) { /* the line is answered when the file that it names is loaded */
		svc_client_move(c, SVC_LOADING);
		svc_load_await(c->server, on_loaded, c);
		return;
	}
	free(c->bytes);
	c->bytes = NULL;
	if (!c->answer || !svc_client_take_place(c, SVC_QUESTIONS, SVC_TAKING)) {
		svc_client_close(c);
		return;
	}
	svc_client_move(c, SVC_TAKING);
	all->unsent_bytes += c->answer->size;
	c->has_fd = c->answer->fd >= 0;
	all->unread_fds += c->has_fd;
	drop_oldest(all, c);
	(void)uv_poll_start(&c->poll, UV_WRITABLE, on_takeable);
	svc_client_on_taking(c);
}

static void on_loaded(void *ctx)
{
	answer(ctx, NULL);
}

void svc_on_round_end(uv_check_t *check)
{
	struct svc_server *server = check->data;
	struct svc_client_list *asking = &server->connections.lists[SVC_ASKING];
	struct svc_answer_line *shared = NULL;
	struct svc_client *c;

	while ((c = TAILQ_FIRST(&asking->all)))
		answer(c, &shared);
	svc_answer_line_unref(shared);
	(void)uv_check_stop(check);
}
