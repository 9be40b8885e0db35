/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring, at the critical moment: one side is about to sleep while the other has something for it.
 * Both act at once, again and again, and one side must see the other's store. After each round the
 * side that was too late gets a slightly longer head start, so that both orders occur all the time.
 * The test counts both orders, and fails if one of them is rare.
 */
#include "link/ring.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES 64
#define RECORD 32
#define ROUNDS 3000000 /* a missing fence shows in some of them */
#define SEEN_LEAST 1000 /* rounds in each order, for each kind of round */
#define ENOUGH_S 6 /* on a busy machine: fewer rounds are enough if both orders were seen */
#define DEADLINE_S 120
#define DELAY_MAX 2000

struct meeting;

struct play {
	void (*prepare)(struct meeting *m); /* NULL: the ring is empty */
	uint64_t (*glance)(
		struct meeting *m); /* loads the index that the sleeper checks into its cache */
	bool (*sleep)(struct meeting *m); /* true: this side sleeps */
	bool (*wake)(struct meeting *m); /* true: this side wakes the other */
};

/* One meeting: the action of each side, and its result. */
struct meeting {
	struct sal_ring_shared *shared; /* owned */
	struct sal_ring producer, consumer;
	struct sal_header *record; /* owned; SAL_RECORD_MAX bytes */
	const struct play *play; /* borrowed */
	_Alignas(64) _Atomic uint64_t go; /* number of the round */
	_Atomic int delay; /* of the other thread's action in this round */
	_Alignas(64) _Atomic uint64_t ready; /* the other thread has prepared the round */
	_Alignas(64) _Atomic uint64_t done;
	bool woken; /* written before done */
};

static void spin(int turns)
{
	for (; turns > 0; turns--)
		__asm__ volatile("" ::: "memory");
}

/* Waits for a number, and yields the processor if that takes long. */
static void await(_Atomic uint64_t *number, uint64_t wanted)
{
	unsigned int turns = 0;

	while (atomic_load_explicit(number, memory_order_acquire) != wanted)
		if (++turns % 512 == 0)
			(void)sched_yield();
}

/* The two meetings */

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

static uint64_t glance_at_head(struct meeting *m)
{
	return atomic_load_explicit(&m->shared->head, memory_order_relaxed);
}

static uint64_t glance_at_tail(struct meeting *m)
{
	return atomic_load_explicit(&m->shared->tail, memory_order_relaxed);
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

/* The results of all rounds of one kind. */
struct tally {
	unsigned int slept_and_woken, saw_it, lost;
};

/*
 * The time until a store is seen depends on whose caches hold the ring. So each side prepares every
 * other round.
 */
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

static bool has_both_orders(const struct tally *tally)
{
	return tally->slept_and_woken >= SEEN_LEAST && tally->saw_it >= SEEN_LEAST;
}

static bool is_enough(const struct tally tallies[2], time_t since)
{
	time_t passed = time(NULL) - since;

	return passed > DEADLINE_S ||
	       (passed > ENOUGH_S && has_both_orders(&tallies[0]) && has_both_orders(&tallies[1]));
}

/* Runs one round, in which this thread is the sleeper. Returns whether this thread slept. */
static bool meet_once(struct meeting *m, uint64_t round, int lead)
{
	if (!is_others_turn(round))
		prepare(m);
	atomic_store_explicit(&m->delay, lead > 0 ? lead : 0, memory_order_relaxed);
	atomic_store_explicit(&m->go, round, memory_order_release);
	if (is_others_turn(round)) {
		await(&m->ready, round);
		(void)m->play->glance(m);
	}
	spin(lead < 0 ? -lead : 0);
	return m->play->sleep(m);
}

/* The delays follow the moment at which both act, separately for each kind of round. */
static void meet(struct meeting *m, struct tally tallies[2])
{
	time_t start = time(NULL);
	uint64_t round;
	int leads[2] = { 0 }; /* > 0: the other side waits this long; < 0: this side */

	for (round = 1; round <= ROUNDS && (round % 1024 || !is_enough(tallies, start)); round++) {
		struct tally *tally = &tallies[is_others_turn(round)];
		int *lead = &leads[is_others_turn(round)];
		bool asleep = meet_once(m, round, *lead);

		await(&m->done, round);
		if (!asleep) {
			tally->saw_it++;
			*lead += *lead < DELAY_MAX;
		} else {
			tally->slept_and_woken += m->woken;
			tally->lost += !m->woken;
			*lead -= *lead > -DELAY_MAX;
		}
	}
	atomic_store_explicit(&m->delay, INT32_MIN, memory_order_relaxed);
	atomic_store_explicit(&m->go, round, memory_order_release);
}

/*
 * Gives each side its own processor: on a single one, the sides never act at once. Returns false if
 * there are not two.
 */
static bool choose_processors(pthread_t thread)
{
	cpu_set_t all, one;
	pthread_t threads[2] = { pthread_self(), thread };
	int cpu, found = 0;

	if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < 2)
		return false;
	for (cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (pthread_setaffinity_np(threads[found++], sizeof(one), &one) != 0)
			return false;
	}
	return true;
}

static void play_out(const struct play *play)
{
	struct meeting *m = aligned_alloc(64, sizeof(*m));
	struct tally tallies[2] = { { 0 } };
	cpu_set_t before;
	pthread_t thread;
	int i;

	assert_non_null(m);
	memset(m, 0, sizeof(*m));
	m->shared = aligned_alloc(64, sal_ring_span(BYTES));
	m->record = aligned_alloc(64, SAL_RECORD_MAX);
	m->play = play;
	assert_true(m->shared && m->record);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(pthread_create(&thread, NULL, other_side, m), 0);
	assert_true(choose_processors(thread));
	meet(m, tallies);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	free(m->shared);
	free(m->record);
	free(m);
	for (i = 0; i < 2; i++)
		print_message("slept and woken %u, saw it %u, lost %u\n",
			      tallies[i].slept_and_woken, tallies[i].saw_it, tallies[i].lost);
	for (i = 0; i < 2; i++) {
		assert_int_equal(tallies[i].lost, 0);
		assert_true(has_both_orders(&tallies[i])); /* else the sides did not race */
	}
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
		skip(); /* the sides cannot act at once */
	play_out(&(struct play){ .glance = glance_at_head, .sleep = fall_asleep, .wake = publish });
}

static void a_producer_that_waits_for_room_is_woken(void **state)
{
	(void)state;
	if (!has_two_processors())
		skip();
	play_out(&(struct play){ .prepare = fill,
				 .glance = glance_at_tail,
				 .sleep = wait_for_room,
				 .wake = make_room });
}

/* A header that changes */

#define PAGE 4096 /* bytes */
#define RING (UINT64_C(2) * PAGE)
#define LONG_RECORD 64

/*
 * The first two pages of a ring. The second page cannot be read until the header at the end of the
 * first page has changed.
 */
static struct trap {
	char *memory; /* owned mapping */
	struct sal_header *header; /* the last bytes of the first page */
	int sprung;
} trap;

/* Runs in the middle of the copy. The header was read before, and the copy reads it again. */
static void on_fault(int number)
{
	(void)number;
	trap.sprung++;
	*trap.header = (struct sal_header){ .size = UINT32_MAX, .type = UINT16_MAX };
	if (trap.sprung > 1 || mprotect(trap.memory + PAGE, PAGE, PROT_READ | PROT_WRITE) < 0)
		_exit(1);
}

static struct sal_ring trap_set(void)
{
	struct sal_ring consumer;
	uint64_t at;

	trap.memory = mmap(NULL, (size_t)3 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(trap.memory, MAP_FAILED);
	trap.header = (struct sal_header *)(trap.memory + PAGE) - 1;
	*trap.header = (struct sal_header){ .size = LONG_RECORD, .type = SAL_MSG_COPY };
	sal_ring_init(&consumer, trap.memory, RING);
	at = (uint64_t)((unsigned char *)trap.header - consumer.shared->data);
	consumer.tail = at;
	atomic_store(&consumer.shared->head, at + LONG_RECORD);
	return consumer;
}

/*
 * The consumer returns the header that it validated, though the peer changes it between two reads.
 */
static void a_header_that_changes_is_read_once(void **state)
{
	struct sigaction action = { .sa_handler = on_fault }, before;
	struct sal_header *record = aligned_alloc(64, SAL_RECORD_MAX);
	struct sal_ring consumer = trap_set();
	bool wake;

	(void)state;
	assert_non_null(record);
	assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
	assert_int_equal(mprotect(trap.memory + PAGE, PAGE, PROT_NONE), 0);
	assert_int_equal(sal_ring_take(&consumer, record, &wake), SAL_RING_RECORD);
	assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
	assert_int_equal(trap.sprung, 1);
	assert_int_equal(trap.header->type, UINT16_MAX);
	assert_int_equal(record->size, LONG_RECORD);
	assert_int_equal(record->type, SAL_MSG_COPY);
	assert_int_equal(munmap(trap.memory, (size_t)3 * PAGE), 0);
	free(record);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_consumer_that_falls_asleep_is_woken),
		cmocka_unit_test(a_producer_that_waits_for_room_is_woken),
		cmocka_unit_test(a_header_that_changes_is_read_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
