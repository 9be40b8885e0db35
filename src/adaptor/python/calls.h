/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls - programs that run in the daemon call Python functions of this process.
 *
 * jaxlib passes the functions of a program with each Execute: a list of pointers that is valid until
 * the execution has ended. A record of the daemon names an execution and an index into its list.
 * Only this list is ever looked at, so no record can make us call anything else.
 *
 * Functions run in threads of their own, not in the reader thread: a function may take long, and
 * may use JAX itself. An execute that such a thread sends is *nested*: the daemon runs it although
 * the iteration that called has not ended.
 *
 * Owns: the lists, the threads. Threads: any.
 */
#ifndef SAL_ADAPTOR_PYTHON_CALLS_H
#define SAL_ADAPTOR_PYTHON_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "adaptor/daemon/requests.h"

struct adp_callees;
struct adp_conn;

/* Who learns of the end of an execution. */
struct adp_listener {
	adp_answer_fn *fn;
	void *ctx;
};

/* The functions of one execution. Copies the list. NULL for lack of memory. */
struct adp_callees *adp_callees_add(struct adp_conn *conn, void *const *functions, uint32_t count,
				    const struct adp_listener *listener);
/*
 * The request for the execution; 0: there is none. When it is answered, the functions are called no
 * more, and then the listener learns of it.
 */
uint64_t adp_callees_request(struct adp_callees *callees);
/*
 * Call this before an execute. While a program that may call has not ended, only so many requests
 * are sent ahead: Python is slower than the thread that sends, and the daemon's queue is limited.
 * A function that a program called never waits.
 */
void adp_calls_await_room(struct adp_conn *conn);
/* The record is sent, or the request is dropped. Do not use the functions after that. */
void adp_callees_sent(struct adp_callees *callees, bool is_dropped);

#endif
