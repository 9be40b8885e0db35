/* SPDX-License-Identifier: Apache-2.0 */
/*
 * due - when an iteration is due to end, and so when polling for its end pays.
 *
 *     start of the iteration            its end, by the last ends
 *         |---------------------------------|---------|
 *         |            asleep            |        polling        |
 *                                       from                   until
 *
 * Some devices allow no call from the thread that reports an end: the worker must start the next
 * iteration. Waking the worker takes about 50 us, in which the device is idle. A worker that polls
 * takes a few. If the lengths of a program's iterations differ much, polling would take a core for
 * long, and the worker sleeps.
 *
 * Threads: none.
 */
#ifndef SAL_SERVICE_DUE_H
#define SAL_SERVICE_DUE_H

#include "service/timing/lengths.h"

struct svc_due {
	uint64_t from_ns, until_ns; /* equal: do not poll */
};

/* When to poll for the end of an iteration that started then. */
struct svc_due svc_due(const struct svc_lengths *lengths, uint64_t start_ns);

#endif
