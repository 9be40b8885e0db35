/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring - records from one producer to one consumer through shared memory.
 *
 *     shared:  head (written by the producer)  tail (written by the consumer)  flags  data[bytes]
 *
 * head and tail count bytes ever written and read; their difference is what is in the ring. A
 * record is contiguous: where it would wrap, a pad record fills the end. Indices only; no pointer,
 * no lock, so a peer that dies holds nothing. What the peer wrote is copied first and
 * checked then.
 *
 * Sleeping: a consumer that finds nothing sets `consumer_sleeps`, checks again, and only then
 * sleeps; a producer that adds a record rings the doorbell only if the flag was set. A
 * producer that finds no room does the same with `producer_waits`.
 *
 * Threads: one producer and one consumer at a time; each side serialises its own callers.
 */
#ifndef SAL_LINK_RING_H
#define SAL_LINK_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/messages.h"

/* The part in shared memory; each index has its own cache line. */
struct sal_ring_shared {
	_Alignas(64) _Atomic uint64_t head;
	_Atomic uint32_t producer_waits;
	_Alignas(64) _Atomic uint64_t tail;
	_Atomic uint32_t consumer_sleeps;
	_Alignas(64) unsigned char data[];
};

/* One side's view. */
struct sal_ring {
	struct sal_ring_shared *shared; /* borrowed: the mapping */
	uint64_t bytes; /* of data; a power of two */
	uint64_t head, tail; /* our own copies: the peer cannot change them */
};

enum sal_ring_take {
	SAL_RING_EMPTY,
	SAL_RING_RECORD,
	SAL_RING_BROKEN
};

/* Bytes of shared memory for a ring with `bytes` of data. */
size_t sal_ring_span(uint64_t bytes);

/* View of a ring in memory that is all zero or in use. */
void sal_ring_init(struct sal_ring *ring, void *memory, uint64_t bytes);

/*
 * Producer: room for a record of `size` bytes (a multiple of 8), or NULL if there is none now. Fill
 * it in and publish it. Nothing is visible before.
 */
void *sal_ring_reserve(struct sal_ring *ring, uint32_t size);
/* Returns true if the consumer sleeps and must be woken. If not urgent, never. */
bool sal_ring_publish(struct sal_ring *ring, bool urgent);
/*
 * Call before waiting for room. True: there is too little for `size`, and the consumer will ring.
 */
bool sal_ring_wait_for_room(struct sal_ring *ring, uint32_t size);

/*
 * Consumer: copy the next record into `record`, which holds SAL_RECORD_MAX bytes and is aligned to
 * 8. BROKEN: the peer wrote nonsense; stop using the ring. *out_wake: the producer waits
 * for room.
 */
enum sal_ring_take sal_ring_take(struct sal_ring *ring, struct sal_header *record, bool *out_wake);
bool sal_ring_is_empty(const struct sal_ring *ring);
/*
 * The type of the next record; 0: there is none. A hint: sal_ring_take checks the record. For any
 * thread, also while another one takes records.
 */
uint16_t sal_ring_next_type(const struct sal_ring *ring);
/* Call before sleeping. True: the ring is empty, and the producer will ring. */
bool sal_ring_sleep(struct sal_ring *ring);
void sal_ring_awake(struct sal_ring *ring);

#endif
