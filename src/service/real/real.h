/* SPDX-License-Identifier: Apache-2.0 */
/*
 * real - the memory that a session really has, in three kinds.
 *
 *     persistent           its live buffers
 *     framework-internal   what the vendor keeps beyond them between two iterations: packed
 *                          weights, workspaces of libraries
 *     ephemeral            what an iteration takes and gives back: the program's temporary bytes,
 *                          or what was seen if that is more
 *
 * The truth comes from the heap (heap/meter.h), on a host device. Elsewhere the framework-internal
 * memory is 0, and the ephemeral memory is what the program says, or what the device says of it if
 * that is more (told.h).
 *
 * What an iteration leaves may be scratch that the vendor is about to free. So at the end of an
 * iteration only blocks from before its begin count as framework-internal, and only those that were
 * there in each of the session's last iterations. The engine gets them with the persistent memory.
 *
 * Threads: as said at each function.
 */
#ifndef SAL_SERVICE_REAL_H
#define SAL_SERVICE_REAL_H

#include <stdbool.h>
#include <stdint.h>

#include "service/lock.h"

struct svc_execution;
struct svc_server;
struct svc_session;

/* Part of an execution: what its run took. */
struct svc_real_run {
	uint64_t made_bytes; /* large outputs that take over no donated argument */
	uint64_t peak_bytes; /* the most that it had at once, with its outputs */
	uint64_t older_bytes; /* blocks of the session at the end, without those of the run */
};

/* In how many iterations framework-internal memory must have been there. */
#define SVC_REAL_RUNS 4

/* Part of a session. */
struct svc_real {
	uint32_t meter; /* counts the vendor's memory for the session; 0: none */
	uint64_t large_bytes; /* of its buffers that are large enough for the heap */
	uint64_t framework_bytes;
	uint64_t seen_bytes[SVC_REAL_RUNS]; /* framework-internal, after the last iterations */
	uint32_t runs;
};

/* A session gets its meter, if the device is the host, and gives it back. */
void svc_real_init(struct svc_real *r, const struct svc_server *server);
void svc_real_fini(struct svc_real *r);

/* When the server opens: the heap gets the device's capacity. */
void svc_real_open(struct svc_server *server);
/*
 * Tell the heap how much memory may wait for the next iterations, in all and in each lane. True: a
 * lane became smaller than what waits there, so somebody must give it back (sal_heap_settle).
 */
bool svc_real_keep(struct svc_server *server) SVC_LOCKED;

/*
 * Fill in the scratch that the iteration needs: what the program says, and a margin if the program
 * is unknown.
 */
void svc_real_expect(struct svc_execution *x) SVC_LOCKED;
/* Around the run. Any thread, without the lock. */
void svc_real_begin(struct svc_execution *x);
void svc_real_end(struct svc_execution *x);
/* The iteration has ended: tell the engine what it took. */
void svc_real_learn(struct svc_execution *x) SVC_LOCKED;

/* A buffer of the session gets memory, or loses it. */
void svc_real_count(struct svc_session *s, uint64_t bytes, bool comes) SVC_LOCKED;

#endif
