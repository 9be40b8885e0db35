/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rings - records to the daemon, completions back.
 *
 * A thread that sends takes the submit lock, writes a record and releases the lock. One thread at a
 * time takes completions: usually the reader thread, which sleeps on the doorbell; or a thread that
 * is about to wait anyway and polls for a moment first, which saves two thread switches.
 *
 * Threads: any.
 */
#ifndef SAL_ADAPTOR_DAEMON_RINGS_H
#define SAL_ADAPTOR_DAEMON_RINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "adaptor/daemon/requests.h"
#include "base/err.h"

struct adp_conn;

/* Who waits. A function that a program calls waits for less than whoever waits for that program. */
enum adp_waiter {
	ADP_OTHERS,
	ADP_CALLED,
	ADP_WAITERS
};

/* The first of `count` new ids. */
uint64_t adp_next_id(struct adp_conn *conn, uint32_t count);
/*
 * A number for a record's request. fn is called with the answer, or with UNAVAILABLE. 0: fn will
 * not be called.
 */
uint64_t adp_request(struct adp_conn *conn, adp_answer_fn *fn, void *ctx);
/*
 * Withdraws a request whose record was not sent. False if it was answered meanwhile: the daemon
 * died.
 */
bool adp_request_drop(struct adp_conn *conn, uint64_t request);

/*
 * Room for a record in the submission ring; the ring is the caller's until adp_send. Waits for
 * room. NULL if the daemon is gone.
 */
void *adp_reserve(struct adp_conn *conn, uint16_t type, uint32_t size);
/* urgent: wake the daemon if it sleeps; else it reads the record when it next wakes. */
void adp_send(struct adp_conn *conn, bool urgent);

/* How many requests are not answered. */
int32_t adp_conn_owed(struct adp_conn *conn);
/* Waits until at most so many are. The thread that takes completions does not wait. */
void adp_conn_await_fewer(struct adp_conn *conn, int32_t most);

/* The number of the last request so far: its answer comes about then (pace.h). */
uint64_t adp_conn_asked(struct adp_conn *conn);
/*
 * A thread is going to wait for the answer of this number: the reader takes it soon. Call unwant
 * when it has come.
 */
void adp_conn_want(struct adp_conn *conn, uint64_t number);
void adp_conn_unwant(struct adp_conn *conn, uint64_t number);
/* The reader, if it naps, takes now what has come. Does not wait for it. */
void adp_conn_wake_reader(struct adp_conn *conn);

/*
 * The socket has probably hung up: waits a moment for the last records, which say why. False: the
 * connection is not dead.
 */
bool adp_conn_await_end(struct adp_conn *conn);

/* As what the calling thread waits. */
enum adp_waiter adp_conn_waiter(struct adp_conn *conn);
/*
 * Takes completions until *fulfilled, for as long as recent waits made polling worthwhile. Saves
 * two thread switches when the answer is near; gives up quickly when it is not.
 */
void adp_conn_poll_for(struct adp_conn *conn, enum adp_waiter waiter,
		       const _Atomic bool *fulfilled);
/*
 * Takes completions until *came, for at most ns. For a thread that expects a record other than an
 * answer.
 */
void adp_conn_poll_until(struct adp_conn *conn, const _Atomic bool *came, uint64_t ns);
/* Somebody waited so long for an answer, polling or asleep. */
void adp_conn_learn_wait(struct adp_conn *conn, enum adp_waiter waiter, uint64_t ns);

/* For conn.c: the reader thread. It ends, and the connection is dead, when the socket hangs up. */
int adp_reader_start(struct adp_conn *conn, struct sal_err *err);
void adp_reader_stop(struct adp_conn *conn);

#endif
