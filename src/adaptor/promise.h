/* SPDX-License-Identifier: Apache-2.0 */
/*
 * promise - a result that arrives later.
 *
 * A promise is fulfilled once, with a code. Each callback runs exactly once, outside any lock.
 * Promises are reference counted: the request that will fulfil the promise, the buffers and the
 * events hold a reference each.
 *
 * Threads: any.
 */
#ifndef SAL_ADAPTOR_PROMISE_H
#define SAL_ADAPTOR_PROMISE_H

#include <stdbool.h>

#include "adaptor/function.h"

struct adp_conn;
struct adp_promise;

/* conn may be NULL: then a waiter does not poll. NULL for lack of memory. */
struct adp_promise *adp_promise_create(struct adp_conn *conn);
/* It is fulfilled when the requests so far are answered, not at any time. Before others have it. */
void adp_promise_in_turn(struct adp_promise *p);
/* It is fulfilled about when the other is. Before others have it. */
void adp_promise_with(struct adp_promise *p, const struct adp_promise *other);
struct adp_promise *adp_promise_ref(struct adp_promise *p);
void adp_promise_unref(struct adp_promise *p);
/* Later calls change nothing. message may be NULL. */
void adp_promise_fulfil(struct adp_promise *p, int code, const char *message);
bool adp_promise_is_fulfilled(struct adp_promise *p);
/*
 * The buffer becomes valid when the promise is fulfilled with code 0. With another code, its bytes
 * no longer count as in use. Call this before the promise can be fulfilled.
 */
void adp_promise_bind(struct adp_promise *p, PJRT_Buffer *buffer);
/* Call this before the buffer is freed. */
void adp_promise_unbind(struct adp_promise *p, PJRT_Buffer *buffer);
/* Polls the connection for a moment: for callers that are about to wait anyway. */
void adp_promise_poll(struct adp_promise *p);
/* Waits; returns the code. */
int adp_promise_wait(struct adp_promise *p);
/* A new error, or NULL for code 0. Only for a fulfilled promise. */
PJRT_Error *adp_promise_error(struct adp_promise *p);
/*
 * Calls `call` with the error or NULL when the promise is fulfilled; at once if it is already.
 * False for lack of memory.
 */
bool adp_promise_then(struct adp_promise *p, PJRT_Event_OnReadyCallback call, void *arg);

#endif
