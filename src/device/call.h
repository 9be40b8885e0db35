/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call - a running program calls a function of its host: a Python callback.
 *
 * A program names the function by an index. Whoever starts the iteration gives one function,
 * sal_call_fn, that serves all calls of this iteration. It runs in a thread of the vendor, or in
 * the thread that called execute, and the program waits for its return. Several calls of one
 * iteration may be under way at the same time. Calls end before the iteration's done function runs.
 */
#ifndef SAL_DEVICE_CALL_H
#define SAL_DEVICE_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* An operand or a result: dense, row-major, in the memory of this process. */
struct sal_call_array {
	int32_t type; /* number of XLA's element type; SAL_CALL_TOKEN has no bytes */
	uint32_t rank;
	const int64_t *dims; /* borrowed: the vendor's */
	void *data;
	uint64_t bytes;
};

/* The type of a token, which only orders calls. */
#define SAL_CALL_TOKEN 17

struct sal_call {
	uint64_t index; /* which function */
	const struct sal_call_array *operands, *results; /* the callee writes the results */
	uint32_t operand_count, result_count;
};

/* Returns >= 0 when all results are written. An error ends the iteration. */
typedef int sal_call_fn(void *ctx, const struct sal_call *call, struct sal_err *err);

#endif
