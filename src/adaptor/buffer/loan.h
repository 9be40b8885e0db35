/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loan - the arguments that an execution was sent with as donated.
 *
 * A donated argument counts as deleted from the call on. If the execution does not start, the
 * daemon still has the argument: then the buffer is as before the call. A buffer that the host
 * deleted or destroyed meanwhile does not come back: the daemon is told to delete it.
 *
 * Reference counted: the request and the buffers hold a reference each. Threads: any.
 */
#ifndef SAL_ADAPTOR_BUFFER_LOAN_H
#define SAL_ADAPTOR_BUFFER_LOAN_H

#include <stdbool.h>
#include <stddef.h>

#include "adaptor/function.h"

struct adp_conn;
struct adp_loan;
struct adp_promise;

/* For at most so many buffers of one execution, whose promise this is. NULL for lack of memory. */
struct adp_loan *adp_loan_create(struct adp_conn *conn, struct adp_promise *promise, size_t room);
void adp_loan_unref(struct adp_loan *loan);
struct adp_promise *adp_loan_promise(const struct adp_loan *loan);
/* Of a buffer that adp_buffer_forget has marked. Call this before the execution is sent. */
void adp_loan_add(struct adp_loan *loan, PJRT_Buffer *buffer);
/* The execution has taken its arguments, or it is not known whether it has. */
void adp_loan_consume(struct adp_loan *loan);
/* The execution did not start. Call this before its promise is fulfilled. */
void adp_loan_return(struct adp_loan *loan);
/*
 * The host deletes a buffer that counts as deleted: the buffer leaves its loan, if it has one. True
 * if the buffer has come back meanwhile, so that it is the caller's to delete.
 */
bool adp_loan_leave(PJRT_Buffer *buffer);

#endif
