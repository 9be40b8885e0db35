/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connections - all connections to the socket.
 *
 *     connections.c  all connections: accepting, deadlines, the lists
 *     greeting.c     clients: the hello, more shared memory
 *     questions.c    askers: making and sending the answer
 *
 * A connection is in one state:
 *
 *     silent ──hello──> joined
 *        └────hello───> opening ──> joined
 *        └────line────> asking ──answer──> taking
 *                         └──file──> loading ──┘
 *
 * and can be closed in any state. salusd waits for no connection: sockets do not block. salusd
 * disconnects a client that does not take a reply at once. An answer that the asker does not take
 * stays queued until the queued answers have too many bytes, or until the answer is too old.
 *
 * Each state has a list, oldest first, and a limit (limits.h). Silent, asking and loading
 * connections count as strangers, taking connections as questions. Beyond a limit salusd closes the oldest
 * connection, of the same user if there is one. So a connection that speaks at once gets in.
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
	SVC_ASKING, /* salusd answers its line at the end of this round of the loop */
	SVC_LOADING, /* a thread loads the file that its line names (load.h); at most one */
	SVC_TAKING, /* the asker has not taken the whole answer */
	SVC_OPENING, /* a thread opens the devices for which its hello asks (memory/kind.h) */
	SVC_JOINED, /* a client, with a session */
	SVC_CLIENT_STATES
};

struct svc_client {
	LIST_ENTRY(svc_client) link; /* in server->clients */
	TAILQ_ENTRY(svc_client) state_link; /* in connections.lists */
	enum svc_client_state state;
	uint64_t since_ns; /* when it entered this state */
	struct svc_server *server; /* borrowed */
	uv_poll_t poll;
	int fd; /* owned */
	struct svc_session *session; /* owned reference; NULL unless joined */
	uint32_t kind; /* for which it waits, while opening */
	char *bytes; /* owned: the part of the hello or the line that has come */
	size_t filled, room;
	struct svc_answer_line *answer; /* owned reference; NULL: none, or completely sent */
	size_t sent; /* bytes of the answer */
	bool has_fd; /* the answer has a descriptor that the asker has not read */
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
	uv_check_t round_end; /* active while there are asking connections */
	/* Owned: closed to accept one more connection when no descriptor is free; -1: closed. */
	int reserve_fd;
	bool is_open;
	struct sal_log_budget refusals;
};

/* Accept connections: the socket exists. */
void svc_connections_open(struct svc_server *server);
/* Close all connections. */
void svc_connections_close(struct svc_server *server);

/* From now on the timer of the connections runs, until it has nothing to do. */
void svc_connections_tick(struct svc_server *server);
void svc_client_move(struct svc_client *c, enum svc_client_state state);
/*
 * Take one unit of the resource for c. Beyond a limit this closes the oldest connections in this
 * state. False: there is no room.
 */
bool svc_client_take_place(struct svc_client *c, enum svc_resource what,
			   enum svc_client_state state);
/* Read what the client sends, or nothing until then. */
void svc_client_listen(struct svc_client *c);
void svc_client_pause(struct svc_client *c);
/* Close the connection. libuv frees c later. */
void svc_client_close(struct svc_client *c);

/* In greeting.c. False: hang up. */
bool svc_client_greet(struct svc_client *c);
bool svc_client_grow(struct svc_client *c);
/* Once a second: tell clients which blocks are withdrawn. True: some client has blocks. */
bool svc_expose_sweep(struct svc_server *server);

/* In questions.c: a whole line has come. */
void svc_client_ask(struct svc_client *c);
void svc_on_round_end(uv_check_t *check);
/* The asker can take more of the answer, or hung up. */
void svc_client_on_taking(struct svc_client *c);
/* Once a second: close connections that did not take their answer in time. */
void svc_questions_expire(struct svc_server *server, uint64_t now_ns);

#endif
