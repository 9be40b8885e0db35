/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exposed - blocks that the process of their session may read in place.
 *
 * Each exposed block is a memfd of its own, mapped at the block's address. The memfd is sealed:
 * nobody can write to it, map it writable, or change its size, except through the mapping that we
 * have. So its descriptor can be given to a job. The job sees this block, and nothing else of this
 * process.
 *
 * An exposed block belongs to one session for ever: it is never used for another one, not even
 * after its end. A free block stays mapped, for the next result of the same size, because its pages
 * are in memory on both sides. A block that is withdrawn loses its memfd; the job may still have
 * the pages then, as it has other memory of its own.
 *
 *     unused -> used <-> free -> unused        used -> unused: its session has ended, or the block
 *                                              is paged out
 *
 * Owns: the descriptors. Threads: none for the table, the caller serialises calls; any for
 * sal_exposed_open and sal_exposed_close, which only do system calls.
 */
#ifndef SAL_HEAP_EXPOSED_H
#define SAL_HEAP_EXPOSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exposed blocks of all sessions. Each one has a descriptor and a mapping. */
#define SAL_EXPOSED_MAX 1024u
#define SAL_NOT_EXPOSED 0u

enum sal_exposed_state {
	SAL_EXPOSED_UNUSED,
	SAL_EXPOSED_USED,
	SAL_EXPOSED_FREE,
};

struct sal_exposed {
	uint64_t number; /* never used again */
	uint32_t meter; /* whose it is */
	uint32_t span, pages; /* where */
	int fd; /* owned */
	enum sal_exposed_state state;
	bool is_known; /* the job may have it */
	bool is_orphan; /* its session has ended, or the block is another's now */
};

struct sal_exposures {
	struct sal_exposed all[SAL_EXPOSED_MAX]; /* [0] is not used */
	uint32_t end; /* entries from here on were never used */
	uint64_t last_number;
	uint32_t count;
	uint32_t session_max, max; /* blocks of a session, and of all */
};

/* Has the session, or have all, so many blocks that there can be no more? */
bool sal_exposed_is_full(const struct sal_exposures *e, uint32_t meter);
/* An entry for the span, in use and without a descriptor. SAL_NOT_EXPOSED: there are too many. */
uint32_t sal_exposed_add(struct sal_exposures *e, uint32_t meter, uint32_t span, uint32_t pages);
void sal_exposed_remove(struct sal_exposures *e, uint32_t index);
/* A free block of the session with so many pages. SAL_NOT_EXPOSED: there is none. */
uint32_t sal_exposed_find_free(const struct sal_exposures *e, uint32_t meter, uint32_t pages);
/* Any free block; of this session, if meter is not 0. */
uint32_t sal_exposed_any_free(const struct sal_exposures *e, uint32_t meter);
/* By its number. */
uint32_t sal_exposed_find(const struct sal_exposures *e, uint64_t number);
/* Its blocks that are in use are given to nobody any more. */
void sal_exposed_abandon(struct sal_exposures *e, uint32_t meter);

/*
 * Put sealed shared memory at these addresses, full of zeros. Returns the descriptor. -1: it cannot
 * be had, and the addresses are as before.
 */
int sal_exposed_open(void *at, size_t bytes);
/* Put private memory there instead, full of zeros, and close the descriptor. False: it stays. */
bool sal_exposed_close(void *at, size_t bytes, int fd);

#endif
