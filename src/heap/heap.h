/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap - the large blocks of memory of this process, in one reserved space of addresses.
 *
 * On a host device the vendor's arrays and scratch are memory of this process, and malloc would
 * retain what the vendor frees. So salusd defines malloc itself (interpose.c). Blocks of at least
 * SAL_BLOCK_MIN come from here; the C library serves smaller ones. The heap knows at each moment
 * whose blocks are there (meter.h), and how much memory they take.
 *
 * Each lane has a contiguous range of the space for the scratch of its iterations. All other blocks
 * are in the main range: arrays, and whatever else outlives an iteration (lasting.h).
 *
 *     | main range: arrays ->              | lane 0: scratch ->   | lane 1: scratch ->   | ...
 *
 * Between two iterations the range of a lane has no blocks. So there are no holes in it, and the next
 * iteration finds one piece. A range grows and shrinks by the pages that are in memory: addresses
 * are plenty. Between two iterations lanes may also exchange their ranges: a session that changes
 * lanes then finds its scratch warm.
 *
 * Freed pages stay warm for the next block, because the first access to a new page costs much more
 * than the decision. Warm pages are bounded: sal_heap_keep says how many bytes may be warm,
 * sal_heap_keep_lane how many of them in the range of a lane, and blocks and warm pages together
 * stay below sal_heap_limit as long as warm pages can go. The thread that frees or allocates gives
 * the surplus back to the system. It does so without the lock.
 *
 * Threads: any. One lock, held for microseconds. The state is global: there is one malloc.
 */
#ifndef SAL_HEAP_HEAP_H
#define SAL_HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/lasting.h"
#include "heap/meter.h"

/* Smaller blocks are the C library's. They are not counted. */
#define SAL_BLOCK_MIN ((size_t)64 << 10)

/* Lanes from 0 on. */
#define SAL_HEAP_LANES 64u

/* All in bytes. */
struct sal_heap_view {
	uint64_t metered; /* blocks that a session pays for */
	uint64_t own; /* other blocks: the daemon's */
	uint64_t warm; /* free pages that the system does not have back */
	uint64_t metered_peak; /* the most of metered + warm so far */
	uint64_t exposed; /* of all these: in blocks that jobs can read */
};

/* Of the range of a lane, in bytes. */
struct sal_heap_lane {
	uint64_t resident; /* in memory: blocks, and warm pages for the next iteration */
	uint64_t extent; /* from the start of the range to its last page in memory */
	uint64_t used; /* in blocks */
	uint64_t lasting; /* of these: in blocks that outlived their iteration */
};

/* A block that its session's process may read in place: see exposed.h. */
struct sal_heap_exposed {
	uint64_t number;
	uint64_t bytes;
};

/* Smaller results are copied. */
#define SAL_EXPOSED_BYTES_MIN ((size_t)1 << 20)

/*
 * Reserve the range. Until then, and if that fails, sal_heap_take returns NULL. Call this once,
 * before other threads start.
 */
bool sal_heap_start(void);
bool sal_heap_is_on(void);

/* How many bytes may be warm; the most that metered blocks and warm pages may be together. */
void sal_heap_keep(uint64_t bytes);
void sal_heap_limit(uint64_t bytes);
/* The same for one lane. has_more becomes true if the lane has more: see sal_heap_settle. */
void sal_heap_keep_lane(uint32_t lane, uint64_t bytes, bool *out_has_more);
/* Give the warm pages back that lanes have and may not keep. */
void sal_heap_settle(void);
/* Give warm pages back to the system until so many bytes are left. */
void sal_heap_trim(uint64_t left_bytes);

/*
 * A block that starts at a multiple of align, a power of two. NULL: the C library must serve this
 * request. is_zero says whether all bytes are 0.
 */
void *sal_heap_take(size_t bytes, size_t align, bool *out_is_zero);
/* For blocks that sal_heap_owns. */
void sal_heap_give(void *block);
size_t sal_heap_size(const void *block);
bool sal_heap_owns(const void *at);

/*
 * The pages of a block that is in use go back to the system, its contents are lost; and they come
 * again. Does the right thing for memory that is not the heap's, too.
 */
void sal_heap_empty(void *bytes, size_t size);
void sal_heap_fill(void *bytes, size_t size);

/* From now on this meter counts the block, and no run does. Ignores memory that is not the heap's. */
void sal_heap_pay(void *block, struct sal_payer payer);

/*
 * An iteration of this meter begins in the lane: its scratch comes from the lane's range, and these
 * are the outputs that it will make. A nested iteration begins before the first one has ended, in the
 * same lane.
 */
void sal_heap_begin(uint32_t meter, uint32_t lane, const struct sal_lasting_outputs *outputs);
void sal_heap_begin_nested(uint32_t meter, const struct sal_lasting_outputs *outputs);
void sal_heap_end(uint32_t meter);

/* How many blocks may be exposed, of one session and of all; at most SAL_EXPOSED_MAX. */
void sal_heap_expose_limit(uint64_t of_session, uint64_t of_all);
/*
 * The session wants to read the block. False: the block is not exposed, or not the session's. The
 * heap then knows that the session reads results of this size, and exposes later ones (wishes.h).
 */
bool sal_heap_expose(const void *block, uint32_t meter, struct sal_heap_exposed *out);
/* A new descriptor for the exposed block of this session; -1: there is none. */
int sal_heap_exposed_fd(uint64_t number, uint32_t meter, uint64_t *out_bytes);
/* Is the block still exposed? It is also if it is free, and waits for the next result. */
bool sal_heap_is_exposed(uint64_t number);
/* Counts blocks that were exposed and are not any more. */
uint64_t sal_heap_withdrawn(void);
/* The session has ended: its exposed blocks go, those in use when they are freed. */
void sal_heap_leave(uint32_t meter);

struct sal_heap_view sal_heap_view(void);
struct sal_heap_lane sal_heap_lane(uint32_t lane);
/* Verifies every invariant. */
bool sal_heap_check(void);

#endif
