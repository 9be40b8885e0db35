/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connections - everybody who connects to the socket.
 *
 *     connections.c  who comes and goes: accepting, deadlines, the lists
 *     greeting.c     a client: its hello, more shared memory for it
 *     questions.c    an asker: the answer, and sending it
 *
 * A connection is in one state:
 *
 *     silent ──hello──> joined
 *        └────line────> asking ──answer──> taking
 *
 * and can be closed in any of them. salusd waits for no connection: sockets do not block. A client
 * that does not take a reply at once is disconnected. An answer that the asker does not take stays
 * queued until there are too many bytes, or until it is too old.
 *
 * Each state has a list, oldest first, and a limit (limits.h): silent and asking connections are
 * strangers, taking ones are questions. Over a limit the oldest connection is closed, of the same
 * user if there is one. So a connection that speaks at once gets in.
 *
 * Threads: the main thread.
 */
#ifndef SAL_SERVICE_CONNECTIONS_H
#define SAL_SERVICE_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <uv.h>

#include "base/log/log.h"
#include "service/ledger.h"

struct svc_answer_line;
struct svc_server;
struct svc_session;

/* Bytes of answers that wait to be sent. Beyond this, the oldest answer is dropped. */
#define SVC_UNSENT_BYTES_MAX ((size_t)64 << 20)

enum svc_client_state {
	SVC_SILENT, /* neither a hello nor a whole line has come */
	SVC_ASKING, /* its line is answered at the end of this round of the loop */
	SVC_TAKING, /* it has not taken its answer */
	SVC_JOINED, /* a client, with a session */
	SVC_CLIENT_STATES
};

struct svc_client {
	LIST_ENTRY(svc_client) link; /* in server->clients */
	TAILQ_ENTRY(svc_client) state_link; /* in connections.lists */
	enum svc_client_state state;
	uint64_t since_ns; /* in that state */
	struct svc_server *server; /* borrowed */
	uv_poll_t poll;
	int fd; /* owned */
	struct svc_session *session; /* owned reference; NULL unless joined */
	char *bytes; /* owned: what has come of the hello or the line */
	size_t filled, room;
	struct svc_answer_line *answer; /* owned reference; NULL: none, or all of it is sent */
	size_t sent; /* bytes of it */
	bool has_fd; /* a descriptor goes along, or lies in the socket */
	struct svc_account account; /* of its user */
};

struct svc_client_list {
	TAILQ_HEAD(, svc_client) all; /* oldest first */
	uint32_t count;
};

struct svc_connections {
	struct svc_client_list lists[SVC_CLIENT_STATES];
	size_t unsent_bytes; /* of answers */
	uint32_t unread_fds; /* connections with has_fd */
	uv_check_t round_end; /* active while somebody is asking */
	/* Owned: given up to accept one more when there are no descriptors; -1: given up. */
	int reserve_fd;
	bool is_open;
	struct sal_log_budget refusals;
};

/* The socket is there: accept connections. */
void svc_connections_open(struct svc_server *server);
/* Close them all. */
void svc_connections_close(struct svc_server *server);

void svc_client_move(struct svc_client *c, enum svc_client_state state);
/*
 * Take one of that resource for c; the oldest connections in that state are closed for it. False:
 * no room.
 */
bool svc_client_take_place(struct svc_client *c, enum svc_resource what,
			   enum svc_client_state state);
/* c is freed later. */
void svc_client_close(struct svc_client *c);

/* greeting.c; false: hang up. */
bool svc_client_greet(struct svc_client *c);
bool svc_client_grow(struct svc_client *c);

/* questions.c: a whole line is there. */
void svc_client_ask(struct svc_client *c);
void svc_on_round_end(uv_check_t *check);
/* The asker can take more, or hung up. */
void svc_client_on_taking(struct svc_client *c);
/* Once a second: close connections that did not take their answer in time. */
void svc_questions_expire(struct svc_server *server, uint64_t now_ns);

#endif
