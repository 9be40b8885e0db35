/* SPDX-License-Identifier: Apache-2.0 */
/*
 * told - what a device that is not the host says of its own memory.
 *
 * Such a device tells how much memory a stream uses, and the most it ever used. No call into a
 * vendor's plugin is allowed from its callbacks, so an iteration cannot be measured at its end. The
 * stream is asked when an iteration starts. If the most has grown since the start of the iteration
 * before, that iteration caused it:
 *
 *     took  =  the most now  -  in use when it started  -  what came since then
 *
 * What came are its outputs, and arrays that jobs uploaded or that were paged in, in any stream. So
 * `took` is never too large. It may be too small if much came: then a later iteration tells.
 *
 * Threads: as said at each function.
 */
#ifndef SAL_SERVICE_TOLD_H
#define SAL_SERVICE_TOLD_H

#include <stdatomic.h>
#include <stdint.h>

#include "service/lock.h"

struct svc_execution;
struct svc_server;

/* Part of a stream. Only the thread that starts an iteration uses the first part. */
struct svc_told {
	uint64_t program, number; /* of the iteration that started last: id and number */
	int64_t came_bytes; /* until then */
	/* The device's words then. Other threads may read them. */
	_Atomic uint64_t used_bytes, peak_bytes;
};

/* Part of an execution: what the iteration before it took. */
struct svc_told_run {
	uint64_t program, number, bytes; /* bytes 0: nothing is known */
};

/* Device memory comes, because of an array: upload, output, page-in. Less: an output takes it over. */
void svc_told_count(struct svc_server *server, int64_t bytes);
/* The vendor is about to make an array, before the call; it is made and counted, or it failed. */
void svc_told_await(struct svc_server *server, uint64_t bytes);
void svc_told_arrived(struct svc_server *server, uint64_t bytes);
/* An iteration starts in its stream. Any thread, without the lock. */
void svc_told_read(struct svc_execution *x);
/* Give what was read to the program that ran before. */
void svc_told_learn(const struct svc_execution *x) SVC_LOCKED;

#endif
