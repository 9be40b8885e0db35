/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring, at the moment that counts: one side is about to sleep, the other has something for it. Both act at once, again
 * and again, and one of them must see the other. That they really met is counted: after each round the side that came too
 * late gets a head start that is a little longer, so that both orders occur all the time, or the test fails.
 */
#include "link/ring.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define BYTES 64
#define RECORD 32
#define ROUNDS 3000000 /* a fence that is missing shows in some of them */
#define SEEN_LEAST (ROUNDS / 100) /* rounds of each order */
#define DEADLINE_S 60
#define DELAY_MAX 2000

struct meeting;

struct play {
	void (*prepare)(struct meeting *m); /* NULL: the ring is empty */
	bool (*sleep)(struct meeting *m); /* true: it sleeps */
	bool (*wake)(struct meeting *m); /* true: it wakes */
};

/* One meeting: what each side does, and what it says afterwards. */
struct meeting {
	struct sal_ring_shared *shared; /* owned */
	struct sal_ring producer, consumer;
	struct sal_header *record; /* owned; SAL_RECORD_MAX bytes */
	const struct play *play; /* borrowed */
	_Alignas(64) _Atomic uint64_t go; /* number of the round */
	_Atomic int delay; /* of the other thread in this round */
	_Alignas(64) _Atomic uint64_t ready; /* the other thread has prepared the round */
	_Alignas(64) _Atomic uint64_t done;
	bool woken; /* written before done */
};

static void spin(int turns)
{
	for (; turns > 0; turns--)
		__asm__ volatile("" ::: "memory");
}

/* Waits for a number, and leaves the processor to others if it takes long. */
static void await(_Atomic uint64_t *number, uint64_t wanted)
{
	unsigned int turns = 0;

	while (atomic_load_explicit(number, memory_order_acquire) != wanted)
		if (++turns % 4096 == 0)
			(void)sched_yield();
}

/* --- the two meetings ---------------------------------------------------------------------------------------------- */

static void reset(struct meeting *m)
{
	memset(m->shared, 0, sal_ring_span(BYTES));
	sal_ring_init(&m->producer, m->shared, BYTES);
	sal_ring_init(&m->consumer, m->shared, BYTES);
}

static void put(struct meeting *m)
{
	struct sal_header *at = sal_ring_reserve(&m->producer, RECORD);

	if (!at)
		abort();
	*at = (struct sal_header){ .size = RECORD, .type = SAL_MSG_UNLOAD };
}

static bool publish(struct meeting *m)
{
	put(m);
	return sal_ring_publish(&m->producer, true);
}

static bool fall_asleep(struct meeting *m)
{
	return sal_ring_sleep(&m->consumer);
}

static void fill(struct meeting *m)
{
	put(m);
	put(m);
	(void)sal_ring_publish(&m->producer, false);
}

static bool make_room(struct meeting *m)
{
	bool wake;

	if (sal_ring_take(&m->consumer, m->record, &wake) != SAL_RING_RECORD)
		abort();
	return wake;
}

static bool wait_for_room(struct meeting *m)
{
	return sal_ring_wait_for_room(&m->producer, RECORD);
}

/* What happened in all rounds. */
struct tally {
	unsigned int slept_and_woken, saw_it, lost;
};

/* Whose caches the ring lies in decides how long a store takes to be seen: each side prepares every other round. */
static bool is_others_turn(uint64_t round)
{
	return round % 2 == 0;
}

static void prepare(struct meeting *m)
{
	reset(m);
	if (m->play->prepare)
		m->play->prepare(m);
}

static void *other_side(void *arg)
{
	struct meeting *m = arg;
	uint64_t round;

	for (round = 1;; round++) {
		int delay;

		await(&m->go, round);
		delay = atomic_load_explicit(&m->delay, memory_order_relaxed);
		if (delay == INT32_MIN)
			return NULL;
		if (is_others_turn(round)) {
			prepare(m);
			atomic_store_explicit(&m->ready, round, memory_order_release);
		}
		spin(delay);
		m->woken = m->play->wake(m);
		atomic_store_explicit(&m->done, round, memory_order_release);
	}
}

/* The sleeper is this thread. The delays chase the moment at which both act. */
static struct tally meet(struct meeting *m)
{
	time_t end = time(NULL) + DEADLINE_S;
	struct tally tally = { 0 };
	uint64_t round;
	int leads[2] = { 0 }; /* for each kind of round: the other side waits so long, or we do */

	for (round = 1; round <= ROUNDS && (round % 4096 || time(NULL) < end); round++) {
		int *lead = &leads[is_others_turn(round)];
		bool asleep;

		if (!is_others_turn(round))
			prepare(m);
		atomic_store_explicit(&m->delay, *lead > 0 ? *lead : 0, memory_order_relaxed);
		atomic_store_explicit(&m->go, round, memory_order_release);
		if (is_others_turn(round))
			await(&m->ready, round);
		spin(*lead < 0 ? -*lead : 0);
		asleep = m->play->sleep(m);
		await(&m->done, round);
		if (!asleep) {
			tally.saw_it++;
			*lead += *lead < DELAY_MAX;
		} else {
			tally.slept_and_woken += m->woken;
			tally.lost += !m->woken;
			*lead -= *lead > -DELAY_MAX;
		}
	}
	atomic_store_explicit(&m->delay, INT32_MIN, memory_order_relaxed);
	atomic_store_explicit(&m->go, round, memory_order_release);
	return tally;
}

static void play_out(const struct play *play)
{
	struct meeting *m = aligned_alloc(64, sizeof(*m));
	struct tally tally;
	pthread_t thread;

	assert_non_null(m);
	memset(m, 0, sizeof(*m));
	m->shared = aligned_alloc(64, sal_ring_span(BYTES));
	m->record = aligned_alloc(64, SAL_RECORD_MAX);
	m->play = play;
	assert_true(m->shared && m->record);
	assert_int_equal(pthread_create(&thread, NULL, other_side, m), 0);
	tally = meet(m);
	assert_int_equal(pthread_join(thread, NULL), 0);
	print_message("slept and woken %u, saw it %u, lost %u\n", tally.slept_and_woken,
		      tally.saw_it, tally.lost);
	free(m->shared);
	free(m->record);
	free(m);
	assert_int_equal(tally.lost, 0);
	/* Else nobody raced, and the test says nothing. */
	assert_true(tally.slept_and_woken >= SEEN_LEAST && tally.saw_it >= SEEN_LEAST);
}

static bool has_two_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 1;
}

static void a_consumer_that_falls_asleep_is_woken(void **state)
{
	(void)state;
	if (!has_two_processors())
		skip(); /* nothing happens at once */
	play_out(&(struct play){ .sleep = fall_asleep, .wake = publish });
}

static void a_producer_that_waits_for_room_is_woken(void **state)
{
	(void)state;
	if (!has_two_processors())
		skip();
	play_out(&(struct play){ .prepare = fill, .sleep = wait_for_room, .wake = make_room });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_consumer_that_falls_asleep_is_woken),
		cmocka_unit_test(a_producer_that_waits_for_room_is_woken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
