/* SPDX-License-Identifier: Apache-2.0 */
#include "link/ring.h"

#include <string.h>

size_t sal_ring_span(uint64_t bytes)
{
	return sizeof(struct sal_ring_shared) + (size_t)bytes;
}

void sal_ring_init(struct sal_ring *ring, void *memory, uint64_t bytes)
{
	ring->shared = memory;
	ring->bytes = bytes;
	ring->head = atomic_load_explicit(&ring->shared->head, memory_order_relaxed);
	ring->tail = atomic_load_explicit(&ring->shared->tail, memory_order_relaxed);
}

/* The peer's index; an impossible one is read as "no progress". */
static uint64_t load_tail(struct sal_ring *ring)
{
	/* acquire: what the consumer has read is read, before we write over it */
	uint64_t tail = atomic_load_explicit(&ring->shared->tail, memory_order_acquire);

	if (tail - ring->tail <= ring->head - ring->tail)
		ring->tail = tail;
	return ring->tail;
}

static void *reserve_at(struct sal_ring *ring, uint64_t at)
{
	return ring->shared->data + (at & (ring->bytes - 1));
}

static uint64_t to_end(const struct sal_ring *ring, uint64_t at)
{
	return ring->bytes - (at & (ring->bytes - 1));
}

void *sal_ring_reserve(struct sal_ring *ring, uint32_t size)
{
	uint64_t end = to_end(ring, ring->head);
	uint64_t need = size <= end ? size : end + size;

	if (need > ring->bytes - (ring->head - ring->tail) &&
	    need > ring->bytes - (ring->head - load_tail(ring)))
		return NULL;
	if (size > end) {
		struct sal_header pad = { .size = (uint32_t)end, .type = SAL_MSG_PAD };

		memcpy(reserve_at(ring, ring->head), &pad, sizeof(pad));
		ring->head += end;
	}
	ring->head += size;
	return reserve_at(ring, ring->head - size);
}

bool sal_ring_publish(struct sal_ring *ring, bool urgent)
{
	/* release: the record is written before it can be seen */
	atomic_store_explicit(&ring->shared->head, ring->head, memory_order_release);
	/* The consumer sets its flag and then reads head; we set head and then read the flag. The
	 * fences on both sides make sure that one of us sees the other. */
	if (!urgent)
		return false;
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&ring->shared->consumer_sleeps, memory_order_relaxed) != 0 &&
	       atomic_exchange_explicit(&ring->shared->consumer_sleeps, 0, memory_order_relaxed) !=
		       0;
}

bool sal_ring_wait_for_room(struct sal_ring *ring, uint32_t size)
{
	uint64_t end = to_end(ring, ring->head);
	uint64_t need = size <= end ? size : end + size;

	atomic_store_explicit(&ring->shared->producer_waits, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* see sal_ring_publish */
	return need > ring->bytes - (ring->head - load_tail(ring));
}

bool sal_ring_is_empty(const struct sal_ring *ring)
{
	return atomic_load_explicit(&ring->shared->head, memory_order_acquire) == ring->tail;
}

uint16_t sal_ring_next_type(const struct sal_ring *ring)
{
	uint64_t tail = atomic_load_explicit(&ring->shared->tail, memory_order_relaxed);
	/* acquire: the record is read after the index that shows it */
	uint64_t head = atomic_load_explicit(&ring->shared->head, memory_order_acquire);
	struct sal_header header;

	if (head - tail < sizeof(header) || to_end(ring, tail) < sizeof(header))
		return 0;
	memcpy(&header, ring->shared->data + (tail & (ring->bytes - 1)), sizeof(header));
	return header.type;
}

/* Gives room back; true if the producer waits for it. */
static bool advance(struct sal_ring *ring, uint64_t bytes)
{
	ring->tail += bytes;
	/* release: we are done reading before the producer may write there */
	atomic_store_explicit(&ring->shared->tail, ring->tail, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst); /* see sal_ring_publish */
	return atomic_load_explicit(&ring->shared->producer_waits, memory_order_relaxed) != 0 &&
	       atomic_exchange_explicit(&ring->shared->producer_waits, 0, memory_order_relaxed) !=
		       0;
}

enum sal_ring_take sal_ring_take(struct sal_ring *ring, struct sal_header *record, bool *out_wake)
{
	*out_wake = false;
	for (;;) {
		/* acquire: the record is read after the index that shows it */
		uint64_t head = atomic_load_explicit(&ring->shared->head, memory_order_acquire);
		uint64_t there = head - ring->tail;
		uint64_t end = to_end(ring, ring->tail);
		struct sal_header header;

		if (there == 0)
			return SAL_RING_EMPTY;
		if (there > ring->bytes || there < sizeof(header) || end < sizeof(header))
			return SAL_RING_BROKEN;
		memcpy(&header, reserve_at(ring, ring->tail), sizeof(header));
		if (header.size < sizeof(header) || header.size % 8 != 0 || header.size > there ||
		    header.size > end)
			return SAL_RING_BROKEN;
		if (header.type == SAL_MSG_PAD) {
			if (header.size != end)
				return SAL_RING_BROKEN;
			*out_wake |= advance(ring, header.size);
			continue;
		}
		if (header.size > SAL_RECORD_MAX)
			return SAL_RING_BROKEN;
		memcpy(record, reserve_at(ring, ring->tail), header.size);
		*record = header; /* as validated, whatever the peer did meanwhile */
		*out_wake |= advance(ring, header.size);
		return SAL_RING_RECORD;
	}
}

bool sal_ring_sleep(struct sal_ring *ring)
{
	atomic_store_explicit(&ring->shared->consumer_sleeps, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* see sal_ring_publish */
	return sal_ring_is_empty(ring);
}

void sal_ring_awake(struct sal_ring *ring)
{
	atomic_store_explicit(&ring->shared->consumer_sleeps, 0, memory_order_relaxed);
}
