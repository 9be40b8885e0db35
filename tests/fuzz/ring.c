/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring in an enemy's memory. The input fills the memory, and its further bytes are steps: set an
 * index to any value, take a record, or write one. The ring touches nothing outside the memory, and
 * every record taken has a valid size.
 */
#include "fuzz/fuzz.h"
#include "link/ring.h"

#define BYTES 512u

struct sides {
	struct sal_ring_shared *shared; /* owned */
	struct sal_ring producer, consumer;
	struct sal_header *record; /* borrowed */
	bool broken;
};

static uint64_t next_number(const uint8_t **at, const uint8_t *end)
{
	uint64_t number = 0;

	for (int i = 0; i < 8 && *at < end; i++)
		number |= (uint64_t) * (*at)++ << (8 * i);
	return number;
}

static void take(struct sides *s)
{
	bool wake;

	/* A broken ring is not read again. */
	if (s->broken)
		return;
	switch (sal_ring_take(&s->consumer, s->record, &wake)) {
	case SAL_RING_RECORD:
		if (s->record->size < sizeof(struct sal_header) || s->record->size > BYTES ||
		    s->record->size % 8 != 0 || s->record->type == SAL_MSG_PAD)
			abort();
		fuzz_touch(s->record, s->record->size);
		break;
	case SAL_RING_BROKEN:
		s->broken = true;
		break;
	case SAL_RING_EMPTY:
		break;
	}
}

static void put(struct sides *s, uint32_t size)
{
	void *at = sal_ring_reserve(&s->producer, size);

	if (at) {
		memset(at, 0x11, size);
		(void)sal_ring_publish(&s->producer, size & 8);
	} else {
		(void)sal_ring_wait_for_room(&s->producer, size);
	}
	if (s->producer.head - s->producer.tail > BYTES)
		abort();
}

static void step(struct sides *s, uint8_t what, const uint8_t **at, const uint8_t *end)
{
	switch (what % 8) {
	case 0:
		atomic_store(&s->shared->head, next_number(at, end));
		break;
	case 1:
		atomic_store(&s->shared->tail, next_number(at, end));
		break;
	case 2:
		put(s, 8 + (uint32_t)(what / 8) * 8);
		break;
	case 3: /* close to the right value */
		atomic_store(&s->shared->head, s->consumer.tail + (what & ~7u));
		break;
	case 4:
		atomic_store(&s->shared->tail, s->producer.tail + (what & ~7u));
		break;
	case 5:
		(void)sal_ring_sleep(&s->consumer);
		sal_ring_awake(&s->consumer);
		break;
	default:
		take(s);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static _Alignas(8) unsigned char record[SAL_RECORD_MAX];
	const uint8_t *at = data, *end = data + size;
	struct sides s = { .record = (struct sal_header *)record };

	if (size < BYTES)
		return 0;
	s.shared = aligned_alloc(64, sal_ring_span(BYTES));
	if (!s.shared)
		abort();
	memset(s.shared, 0, sal_ring_span(BYTES));
	sal_ring_init(&s.producer, s.shared, BYTES);
	sal_ring_init(&s.consumer, s.shared, BYTES);
	memcpy(s.shared->data, at, BYTES);
	at += BYTES;
	while (at < end) {
		uint8_t what = *at++;

		step(&s, what, &at, end);
	}
	free(s.shared);
	return 0;
}
