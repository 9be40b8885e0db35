/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn - the connection to the daemon, from the greeting to the end.
 *
 * When the daemon is gone (its socket hangs up, or it writes nonsense) the connection is dead:
 * every pending request is answered with UNAVAILABLE, and so is every later one. Nothing waits for
 * ever.
 *
 * A forked child has no reader thread: its copy of the connection is dead from the start.
 *
 * Owns: the socket, the doorbells, the rings, the arena, the reader thread. Threads: any.
 */
#ifndef SAL_ADAPTOR_DAEMON_CONN_H
#define SAL_ADAPTOR_DAEMON_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "adaptor/function.h"
#include "base/err.h"
#include "base/facts.h"
#include "link/holding.h"
#include "wire/messages.h"

struct adp_conn;

int adp_conn_open(const char *path, const struct sal_hello *hello, struct adp_conn **out_conn,
		  struct sal_err *err);
/*
 * Every pending and later request fails with UNAVAILABLE; the reader thread ends. The caller keeps
 * its reference.
 */
void adp_conn_close(struct adp_conn *conn);
struct adp_conn *adp_conn_ref(struct adp_conn *conn);
void adp_conn_unref(struct adp_conn *conn);

/* Packed device facts; valid while the connection is referenced. */
struct sal_text adp_conn_facts(struct adp_conn *conn);
/*
 * Memory of the session as the daemon publishes it at any time; NULL: an older daemon, which does
 * not.
 */
const struct sal_holding *adp_conn_holding(const struct adp_conn *conn);
/* Most bytes the session may hold on the device, as of the greeting. */
uint64_t adp_conn_memory(struct adp_conn *conn);
bool adp_conn_is_dead(struct adp_conn *conn);
/* The user wants nothing on stderr. */
bool adp_conn_is_quiet(const struct adp_conn *conn);
/* In a forked child: nothing can be answered any more. */
bool adp_conn_is_forked(const struct adp_conn *conn);

/* Takes the daemon's calls of Python functions; made when a program first has such functions. */
struct adp_call_server {
	/* Called by the thread that takes records: must not wait. */
	void (*take)(struct adp_call_server *server, const struct sal_msg_call *m);
	void (*destroy)(struct adp_call_server *server);
	/* Does the calling thread run such a function? */
	bool (*is_me)(struct adp_call_server *server);
};

/* The connection takes the server and destroys it at its end. False: it has another one. */
bool adp_conn_serve_calls(struct adp_conn *conn, struct adp_call_server *take_server);
/* NULL: none. */
struct adp_call_server *adp_conn_call_server(struct adp_conn *conn);
/* Does the calling thread run a function that a program of this connection calls? */
bool adp_conn_is_serving(struct adp_conn *conn);

/* Why the connection is dead. */
const char *adp_conn_reason(const struct adp_conn *conn);
/* The error of a dead connection. */
PJRT_Error *adp_unavailable(struct adp_conn *conn);
/* Why adp_request gave no number: the daemon is gone, or there is no memory. */
PJRT_Error *adp_no_request(struct adp_conn *conn);

#endif
