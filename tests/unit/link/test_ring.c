/* SPDX-License-Identifier: Apache-2.0 */
/* ring: every offset, both kinds of sleep under two threads, and peers that write nonsense. */
#include "link/ring.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/socket.h"
#include "support/rng.h"

#define BYTES UINT64_C(256)

/* Both sides of one ring. The memory has the exact size, so that the sanitizer sees an overrun. */
struct pair {
	struct sal_ring_shared *shared; /* owned */
	struct sal_ring producer, consumer;
	struct sal_header *record; /* owned; SAL_RECORD_MAX bytes */
};

static void pair_open(struct pair *p, uint64_t bytes, uint64_t at)
{
	p->shared = aligned_alloc(64, sal_ring_span(bytes));
	p->record = aligned_alloc(8, SAL_RECORD_MAX);
	assert_non_null(p->shared);
	assert_non_null(p->record);
	memset(p->shared, 0, sal_ring_span(bytes));
	/* As if this many bytes had gone through the ring before. */
	atomic_store(&p->shared->head, at);
	atomic_store(&p->shared->tail, at);
	sal_ring_init(&p->producer, p->shared, bytes);
	sal_ring_init(&p->consumer, p->shared, bytes);
}

static void pair_close(struct pair *p)
{
	free(p->shared);
	free(p->record);
}

/* A record whose bytes show whether it arrived complete. */
static bool put(struct pair *p, uint32_t size, uint8_t seed)
{
	struct sal_header *at = sal_ring_reserve(&p->producer, size);

	if (!at)
		return false;
	memset(at, seed, size);
	*at = (struct sal_header){ .size = size, .type = SAL_MSG_DELETE };
	(void)sal_ring_publish(&p->producer, false);
	return true;
}

static void take_and_check(struct pair *p, uint32_t size, uint8_t seed)
{
	const unsigned char *bytes = (const unsigned char *)p->record;
	bool wake;
	uint32_t i;

	assert_int_equal(sal_ring_take(&p->consumer, p->record, &wake), SAL_RING_RECORD);
	assert_int_equal(p->record->size, size);
	assert_int_equal(p->record->type, SAL_MSG_DELETE);
	for (i = sizeof(struct sal_header); i < size; i++)
		assert_int_equal(bytes[i], seed);
}

static void assert_empty(struct pair *p)
{
	bool wake;

	assert_int_equal(sal_ring_take(&p->consumer, p->record, &wake), SAL_RING_EMPTY);
	assert_true(sal_ring_is_empty(&p->consumer));
}

/* Honest peers */

static void indices_have_their_own_lines(void **state)
{
	(void)state;
	assert_int_equal(offsetof(struct sal_ring_shared, head), 0);
	assert_int_equal(offsetof(struct sal_ring_shared, producer_waits), 8);
	assert_int_equal(offsetof(struct sal_ring_shared, tail), 64);
	assert_int_equal(offsetof(struct sal_ring_shared, consumer_sleeps), 72);
	assert_int_equal(offsetof(struct sal_ring_shared, data), 128);
	assert_int_equal(sal_ring_span(BYTES), 128 + BYTES);
}

/*
 * From every offset, a record of every size that is sure to fit; and again after more than 2^64
 * bytes.
 */
static void records_wrap_at_every_offset(void **state)
{
	static const uint64_t bases[] = { 0, UINT64_C(0) - BYTES };
	struct pair p;
	uint64_t at;
	uint32_t size;
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++)
		for (at = 0; at < BYTES; at += 8)
			for (size = 8; size < BYTES / 2; size += 8) {
				pair_open(&p, BYTES, bases[i] + at);
				assert_true(put(&p, size, 0xa5));
				assert_true(put(&p, 16, 0x5a));
				take_and_check(&p, size, 0xa5);
				take_and_check(&p, 16, 0x5a);
				assert_empty(&p);
				pair_close(&p);
			}
}

static void a_pad_fills_the_end(void **state)
{
	struct sal_header pad;
	struct pair p;

	(void)state;
	pair_open(&p, BYTES, BYTES - 24);
	assert_true(put(&p, 32, 1));
	memcpy(&pad, p.shared->data + BYTES - 24, sizeof(pad));
	assert_int_equal(pad.type, SAL_MSG_PAD);
	assert_int_equal(pad.size, 24);
	assert_int_equal(atomic_load(&p.shared->head), BYTES + 32);
	take_and_check(&p, 32, 1);
	pair_close(&p);
}

static void a_full_ring_takes_no_more(void **state)
{
	struct pair p;
	unsigned i;

	(void)state;
	pair_open(&p, BYTES, 0);
	for (i = 0; i < BYTES / 32; i++)
		assert_true(put(&p, 32, (uint8_t)i));
	assert_false(put(&p, 8, 0));
	assert_true(sal_ring_wait_for_room(&p.producer, 8));
	take_and_check(&p, 32, 0);
	assert_false(sal_ring_wait_for_room(&p.producer, 32));
	assert_true(put(&p, 32, 99));
	assert_false(put(&p, 8, 0));
	for (i = 1; i < BYTES / 32; i++)
		take_and_check(&p, 32, (uint8_t)i);
	take_and_check(&p, 32, 99);
	assert_empty(&p);
	pair_close(&p);
}

/*
 * The producer's copy of the tail says that the ring is full. Loading the consumer's index shows
 * just enough room.
 */
static void room_that_was_made_is_found_to_the_byte(void **state)
{
	struct pair p;
	unsigned i;

	(void)state;
	pair_open(&p, BYTES, 0);
	for (i = 0; i < BYTES / 32; i++)
		assert_true(put(&p, 32, (uint8_t)i));
	for (i = 0; i < 3 * BYTES / 32; i++) {
		take_and_check(&p, 32, (uint8_t)i);
		assert_true(put(&p, 32, (uint8_t)(i + BYTES / 32)));
		assert_false(put(&p, 8, 0));
	}
	pair_close(&p);
}

/* A record larger than the ring is always refused, and the attempt changes nothing. */
static void what_is_too_large_is_refused(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, BYTES, 40);
	assert_null(sal_ring_reserve(&p.producer, BYTES + 8));
	assert_null(sal_ring_reserve(&p.producer, UINT32_MAX & ~7u));
	assert_true(put(&p, 8, 0));
	take_and_check(&p, 8, 0);
	assert_empty(&p);
	pair_close(&p);
}

static void nothing_shows_before_publish(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, BYTES, 0);
	assert_non_null(sal_ring_reserve(&p.producer, 64));
	assert_empty(&p);
	pair_close(&p);
}

static void the_type_of_the_next_record_is_seen(void **state)
{
	struct pair p;
	struct sal_header *at;

	(void)state;
	pair_open(&p, BYTES, 3 * BYTES);
	assert_int_equal(sal_ring_next_type(&p.consumer), 0);
	assert_true(put(&p, 64, 1));
	at = sal_ring_reserve(&p.producer, 32);
	assert_non_null(at);
	*at = (struct sal_header){ .size = 32, .type = SAL_MSG_ANSWER };
	assert_int_equal(sal_ring_next_type(&p.consumer), SAL_MSG_DELETE);
	(void)sal_ring_publish(&p.producer, false);
	assert_int_equal(sal_ring_next_type(&p.consumer), SAL_MSG_DELETE);
	take_and_check(&p, 64, 1);
	assert_int_equal(sal_ring_next_type(&p.consumer), SAL_MSG_ANSWER);
	/* An index that cannot be is not followed out of the ring. */
	atomic_store(&p.shared->tail, atomic_load(&p.shared->head) - 1);
	assert_int_equal(sal_ring_next_type(&p.consumer), 0);
	atomic_store(&p.shared->tail, 4 * BYTES - 8);
	atomic_store(&p.shared->head, 5 * BYTES);
	assert_int_equal(sal_ring_next_type(&p.consumer), 0);
	pair_close(&p);
}

static void random_sizes_keep_their_order(void **state)
{
	struct pair p;
	struct rng rng;
	uint32_t sizes[64], first = 0, last = 0;
	unsigned steps;

	(void)state;
	rng.state = 1;
	pair_open(&p, BYTES, 0);
	for (steps = 0; steps < 200000; steps++) {
		uint32_t size = 8 + 8 * (uint32_t)rng_below(&rng, BYTES / 16);

		if (rng_below(&rng, 2) && put(&p, size, (uint8_t)last)) {
			sizes[last++ % 64] = size;
		} else if (first != last) {
			take_and_check(&p, sizes[first % 64], (uint8_t)first);
			first++;
		} else {
			assert_empty(&p);
		}
	}
	pair_close(&p);
}

/* Sleeping */

static void the_doorbell_is_rung_once_and_if_urgent(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, BYTES, 0);
	assert_true(sal_ring_sleep(&p.consumer));
	assert_non_null(sal_ring_reserve(&p.producer, 8));
	assert_false(sal_ring_publish(&p.producer, false));
	assert_non_null(sal_ring_reserve(&p.producer, 8));
	assert_true(sal_ring_publish(&p.producer, true));
	assert_non_null(sal_ring_reserve(&p.producer, 8));
	assert_false(sal_ring_publish(&p.producer, true));
	assert_false(sal_ring_sleep(&p.consumer)); /* the ring is not empty */
	sal_ring_awake(&p.consumer);
	assert_non_null(sal_ring_reserve(&p.producer, 8));
	assert_false(sal_ring_publish(&p.producer, true));
	pair_close(&p);
}

static void who_waits_for_room_is_told_once(void **state)
{
	struct pair p;
	bool wake;

	(void)state;
	pair_open(&p, 64, 0);
	while (put(&p, 16, 0))
		;
	assert_true(sal_ring_wait_for_room(&p.producer, 16));
	assert_int_equal(sal_ring_take(&p.consumer, p.record, &wake), SAL_RING_RECORD);
	assert_true(wake);
	assert_int_equal(sal_ring_take(&p.consumer, p.record, &wake), SAL_RING_RECORD);
	assert_false(wake);
	pair_close(&p);
}

struct bell {
	int ring, wait; /* owned */
};

static void bell_open(struct bell *bell)
{
	assert_int_equal(sal_doorbell_create(&bell->ring, &bell->wait, NULL), SAL_OK);
}

static void bell_close(struct bell *bell)
{
	(void)close(bell->ring);
	(void)close(bell->wait);
}

/*
 * Millions of records between two threads that sleep as soon as they may. A lost wake-up hangs the
 * test.
 */
struct race {
	struct pair pair;
	struct bell bell, room_bell;
	uint64_t records;
	unsigned int producer_slept, consumer_slept; /* each is written by its own side */
};

static void sleep_on(const struct bell *bell)
{
	struct pollfd p = { .fd = bell->wait, .events = POLLIN };

	/* 20 s means for ever. */
	if (poll(&p, 1, 20000) != 1) {
		(void)fprintf(stderr, "nobody rang\n");
		abort();
	}
	sal_doorbell_quiet(bell->wait);
}

static uint32_t size_of(uint64_t number)
{
	return 16 + 8 * (uint32_t)(number * 2654435761u >> 5 & 7);
}

static void *produce(void *arg)
{
	struct race *race = arg;
	struct sal_ring *ring = &race->pair.producer;
	uint64_t i;

	for (i = 0; i < race->records; i++) {
		uint32_t size = size_of(i);
		struct sal_header *at;

		while (!(at = sal_ring_reserve(ring, size)))
			if (sal_ring_wait_for_room(ring, size)) {
				sleep_on(&race->room_bell);
				race->producer_slept++;
			}
		*at = (struct sal_header){ .size = size, .type = SAL_MSG_UNLOAD };
		memcpy(at + 1, &i, sizeof(i));
		if (sal_ring_publish(ring, true))
			sal_doorbell_ring(race->bell.ring);
	}
	return NULL;
}

static void consume(struct race *race)
{
	struct sal_ring *ring = &race->pair.consumer;
	uint64_t expected = 0, number;
	bool wake;

	while (expected < race->records) {
		enum sal_ring_take got = sal_ring_take(ring, race->pair.record, &wake);

		if (wake)
			sal_doorbell_ring(race->room_bell.ring);
		if (got == SAL_RING_EMPTY) {
			if (sal_ring_sleep(ring)) {
				sleep_on(&race->bell);
				race->consumer_slept++;
			}
			sal_ring_awake(ring);
			continue;
		}
		assert_int_equal(got, SAL_RING_RECORD);
		assert_int_equal(race->pair.record->size, size_of(expected));
		memcpy(&number, race->pair.record + 1, sizeof(number));
		assert_int_equal(number, expected);
		expected++;
	}
}

/* Each side must have slept at least this often: a side that never slept was never woken. */
static void run_race(uint64_t bytes, uint64_t records, unsigned int producer_least,
		     unsigned int consumer_least)
{
	struct race race = { .records = records };
	pthread_t thread;

	pair_open(&race.pair, bytes, 0);
	bell_open(&race.bell);
	bell_open(&race.room_bell);
	assert_int_equal(pthread_create(&thread, NULL, produce, &race), 0);
	consume(&race);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_empty(&race.pair);
	print_message("the producer slept %u times, the consumer %u times\n", race.producer_slept,
		      race.consumer_slept);
	assert_true(race.producer_slept >= producer_least && race.consumer_slept >= consumer_least);
	bell_close(&race.bell);
	bell_close(&race.room_bell);
	pair_close(&race.pair);
}

static void two_threads_lose_nothing_in_a_roomy_ring(void **state)
{
	(void)state;
	run_race(65536, 3000000, 0, 100);
}

static void two_threads_lose_nothing_in_a_tight_ring(void **state)
{
	(void)state;
	run_race(256, 300000, 100, 100);
}

/* Broken peers */

static enum sal_ring_take take(struct pair *p)
{
	bool wake;

	return sal_ring_take(&p->consumer, p->record, &wake);
}

/* Shows `there` bytes, which begin with this header at offset `at`. */
static enum sal_ring_take take_header(uint64_t at, uint64_t there, struct sal_header header)
{
	enum sal_ring_take got;
	struct pair p;

	pair_open(&p, BYTES, at);
	memcpy(p.shared->data + at % BYTES, &header, sizeof(header));
	atomic_store(&p.shared->head, at + there);
	got = take(&p);
	if (got == SAL_RING_BROKEN) /* the consumer has not moved */
		assert_int_equal(p.consumer.tail, at);
	pair_close(&p);
	return got;
}

static void a_head_that_cannot_be_is_broken(void **state)
{
	static const int64_t distances[] = {
		1, 7, BYTES + 1, BYTES + 8, -1, -8, -(int64_t)BYTES, INT64_MAX, INT64_MIN,
	};
	size_t i;
	uint64_t at;

	(void)state;
	for (i = 0; i < sizeof(distances) / sizeof(distances[0]); i++)
		for (at = 0; at < 2 * BYTES; at += 8)
			assert_int_equal(
				take_header(at, (uint64_t)distances[i],
					    (struct sal_header){ .size = 8, .type = SAL_MSG_COPY }),
				SAL_RING_BROKEN);
}

static void a_size_that_cannot_be_is_broken(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 7, 9, 12, 15, 24, 136, BYTES, UINT32_MAX, 1u << 31 };
	size_t i;
	uint64_t at;

	(void)state;
	/* Only 16 bytes are there: every size but 8 and 16 is invalid. */
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (at = 0; at < BYTES; at += 8)
			assert_int_equal(take_header(at, 16,
						     (struct sal_header){ .size = sizes[i],
									  .type = SAL_MSG_COPY }),
					 SAL_RING_BROKEN);
}

/* A record may not wrap around the end, even if all its bytes are there. */
static void a_record_that_wraps_is_broken(void **state)
{
	uint64_t at;

	(void)state;
	for (at = 8; at < BYTES; at += 8)
		assert_int_equal(
			take_header(at, BYTES,
				    (struct sal_header){ .size = (uint32_t)(BYTES - at + 8),
							 .type = SAL_MSG_COPY }),
			SAL_RING_BROKEN);
}

static void a_pad_that_ends_elsewhere_is_broken(void **state)
{
	uint64_t at;
	uint32_t size;

	(void)state;
	for (at = 0; at < BYTES; at += 8)
		for (size = 0; size <= BYTES; size += 4)
			if (size != BYTES - at)
				assert_int_equal(
					take_header(at, BYTES,
						    (struct sal_header){ .size = size,
									 .type = SAL_MSG_PAD }),
					SAL_RING_BROKEN);
}

/* The ring may be larger than the largest record; the buffer for the copy is not. */
static void a_record_beyond_the_limit_is_broken(void **state)
{
	struct sal_header header = { .size = SAL_RECORD_MAX + 8, .type = SAL_MSG_DELETE };
	struct pair p;

	(void)state;
	pair_open(&p, UINT64_C(4) * SAL_RECORD_MAX, 0);
	memcpy(p.shared->data, &header, sizeof(header));
	atomic_store(&p.shared->head, UINT64_C(2) * SAL_RECORD_MAX);
	assert_int_equal(take(&p), SAL_RING_BROKEN);
	header.size = SAL_RECORD_MAX;
	memcpy(p.shared->data, &header, sizeof(header));
	assert_int_equal(take(&p), SAL_RING_RECORD);
	pair_close(&p);
}

/* Whatever tail a consumer claims, the producer never overwrites unread bytes. */
static void a_tail_that_cannot_be_is_no_progress(void **state)
{
	static const int64_t lies[] = { 8, 1, BYTES, -8, -(int64_t)BYTES, INT64_MAX, INT64_MIN };
	struct pair p;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		pair_open(&p, BYTES, 1000 * BYTES);
		while (put(&p, 32, 7))
			;
		/* Beyond the head, or before the tail. */
		atomic_store(&p.shared->tail, lies[i] > 0 ? p.producer.head + (uint64_t)lies[i]
							  : p.producer.tail + (uint64_t)lies[i]);
		assert_false(put(&p, 8, 0));
		assert_true(sal_ring_wait_for_room(&p.producer, 8));
		assert_int_equal(p.producer.tail, 1000 * BYTES);
		pair_close(&p);
	}
}

/* Any tail within the written bytes is accepted, even one inside a record. */
static void a_tail_amid_a_record_stays_within_bounds(void **state)
{
	struct pair p;
	uint64_t lie;

	(void)state;
	for (lie = 0; lie <= BYTES; lie++) {
		pair_open(&p, BYTES, 0);
		while (put(&p, 32, 7))
			;
		atomic_store(&p.shared->tail, lie);
		while (put(&p, 24, 8))
			;
		assert_true(p.producer.head - p.producer.tail <= BYTES);
		pair_close(&p);
	}
}

static void the_peer_cannot_move_what_is_ours(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, BYTES, 0);
	assert_true(put(&p, 32, 3));
	atomic_store(&p.shared->tail, 12345); /* the consumer's own index */
	take_and_check(&p, 32, 3);
	atomic_store(&p.shared->head, 999); /* the producer's own index */
	assert_true(put(&p, 32, 4));
	assert_int_equal(atomic_load(&p.shared->head), 64);
	take_and_check(&p, 32, 4);
	pair_close(&p);
}

/* Random bytes in the shared memory, on both sides, many times. */
static void random_nonsense_stays_within_bounds(void **state)
{
	unsigned broken = 0, records = 0, i, k;
	struct rng rng;

	(void)state;
	rng.state = 2;
	for (i = 0; i < 20000; i++) {
		uint64_t at = 8 * rng_below(&rng, 1000);
		struct pair p;

		pair_open(&p, BYTES, at);
		for (k = 0; k < BYTES; k += 8) {
			struct sal_header header = {
				.size = (uint32_t)rng_skewed(&rng, BYTES + 8),
				.type = (uint16_t)rng_below(&rng, 4),
			};

			header.size &= rng_below(&rng, 8) ? ~7u : ~0u;
			memcpy(p.shared->data + k, &header, sizeof(header));
		}
		atomic_store(&p.shared->head, at + (rng_below(&rng, BYTES + 16) & ~UINT64_C(7)));
		for (k = 0; k < 64; k++) {
			enum sal_ring_take got = take(&p);

			broken += got == SAL_RING_BROKEN;
			records += got == SAL_RING_RECORD;
			if (got != SAL_RING_RECORD)
				break;
			assert_true(p.record->size <= BYTES);
		}
		pair_close(&p);
	}
	assert_true(broken > 1000 && records > 1000); /* both outcomes were tested */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(indices_have_their_own_lines),
		cmocka_unit_test(records_wrap_at_every_offset),
		cmocka_unit_test(a_pad_fills_the_end),
		cmocka_unit_test(a_full_ring_takes_no_more),
		cmocka_unit_test(room_that_was_made_is_found_to_the_byte),
		cmocka_unit_test(what_is_too_large_is_refused),
		cmocka_unit_test(nothing_shows_before_publish),
		cmocka_unit_test(the_type_of_the_next_record_is_seen),
		cmocka_unit_test(random_sizes_keep_their_order),
		cmocka_unit_test(the_doorbell_is_rung_once_and_if_urgent),
		cmocka_unit_test(who_waits_for_room_is_told_once),
		cmocka_unit_test(two_threads_lose_nothing_in_a_roomy_ring),
		cmocka_unit_test(two_threads_lose_nothing_in_a_tight_ring),
		cmocka_unit_test(a_head_that_cannot_be_is_broken),
		cmocka_unit_test(a_size_that_cannot_be_is_broken),
		cmocka_unit_test(a_record_that_wraps_is_broken),
		cmocka_unit_test(a_pad_that_ends_elsewhere_is_broken),
		cmocka_unit_test(a_record_beyond_the_limit_is_broken),
		cmocka_unit_test(a_tail_that_cannot_be_is_no_progress),
		cmocka_unit_test(a_tail_amid_a_record_stays_within_bounds),
		cmocka_unit_test(the_peer_cannot_move_what_is_ours),
		cmocka_unit_test(random_nonsense_stays_within_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
