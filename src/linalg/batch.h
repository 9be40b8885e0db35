/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch - solves the problems of one call, in one thread or in several.
 *
 * The caller solves problems itself. Helpers, if there are any, take some of them off it. All take
 * chunks of problems from one counter. So the caller waits only for chunks that a helper works on,
 * and never for a helper to begin: a pool whose threads are all busy cannot block it. A helper may
 * begin after the call has returned: it finds no chunk, and touches nothing of the call.
 *
 * Each thread has scratch of its own, while it takes part. salus-compile counts the scratch of a
 * call once for each processor.
 *
 * Threads: any. A batch belongs to one caller.
 */
#ifndef SAL_LINALG_BATCH_H
#define SAL_LINALG_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct linalg_batch {
	int64_t count; /* problems */
	double cost; /* floating-point operations of one problem, roughly */
	uint64_t scratch_bytes; /* for each thread */
	/* Solves the problems from first up to, not including, end. */
	void (*solve)(const void *ctx, void *scratch, int64_t first, int64_t end);
	const void *ctx;
};

/* Threads that may take part besides the caller. */
struct linalg_helpers {
	uint32_t count;
	/* Lets another thread run the task, now or later. False: none will. */
	bool (*start)(void *ctx, void (*task)(void *data), void *data);
	void *ctx;
};

/* In how many threads it is worth solving the batch, the caller's included. helpers may be NULL. */
uint32_t sal_linalg_workers(const struct linalg_batch *b, const struct linalg_helpers *helpers);

/*
 * Solves all problems, in at most so many threads. Returns when all are solved. Fails only without
 * memory for the caller's own scratch, before anything is solved.
 */
int sal_linalg_solve(const struct linalg_batch *b, const struct linalg_helpers *helpers,
		     uint32_t workers, struct sal_err *err);

#endif
