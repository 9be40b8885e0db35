/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch that the vendor frees after the run's end: at the limit the next run waits for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <time.h>

#include "base/sys/clock.h"
#include "support/heap.h"

#define LIMIT (12 * MIB)
#define SCRATCH (8 * MIB)

static void begin(uint32_t meter, uint32_t lane)
{
	struct sal_lasting_outputs none = { 0 };

	sal_heap_begin(meter, lane, &none);
}

static void limit(void)
{
	bool has_more = false;

	sal_heap_limit(LIMIT);
	sal_heap_keep(LIMIT);
	sal_heap_keep_lane(0, SCRATCH, &has_more);
	sal_heap_keep_lane(1, SCRATCH, &has_more);
}

static void *free_soon(void *block)
{
	const struct timespec soon = { .tv_nsec = 2000000 };

	(void)nanosleep(&soon, NULL);
	sal_heap_give(block);
	return NULL;
}

/* What blocks took when a run had begun in this lane, and the scratch of lane 0 was late. */
static uint64_t take_beside_late(uint32_t meter, uint32_t lane)
{
	void *late, *block;
	uint64_t used;
	pthread_t thread;

	begin(meter, 0);
	late = heap_take_in_run(meter, SCRATCH);
	sal_heap_end(meter);
	assert_int_equal(pthread_create(&thread, NULL, free_soon, late), 0);
	begin(meter, lane);
	block = heap_take_in_run(meter, SCRATCH);
	used = sal_heap_view().metered;
	assert_int_equal(pthread_join(thread, NULL), 0);
	sal_heap_give(block);
	sal_heap_end(meter);
	return used;
}

/* On a busy machine the other thread may come too late: then nobody waits for a second. */
static void assert_waits(uint32_t meter, uint32_t lane)
{
	const struct timespec pause = { .tv_sec = 1, .tv_nsec = 100000000 };
	uint64_t used = take_beside_late(meter, lane);

	for (int i = 0; i < 5 && used > SCRATCH; i++) {
		(void)nanosleep(&pause, NULL);
		used = take_beside_late(meter, lane);
	}
	assert_int_equal(used, SCRATCH);
}

static void test_the_next_run_waits(void **state)
{
	uint32_t meter = sal_meter_open();

	(void)state;
	limit();
	assert_waits(meter, 0);
	assert_waits(meter, 1); /* lanes wait for each other, too */
	assert_true(sal_heap_check());
	sal_heap_leave(meter);
	sal_meter_close(meter);
}

static void test_nobody_waits_where_there_is_room(void **state)
{
	uint32_t meter = sal_meter_open();
	void *late, *block;

	(void)state;
	limit();
	sal_heap_limit(2 * SCRATCH);
	begin(meter, 0);
	late = heap_take_in_run(meter, SCRATCH);
	sal_heap_end(meter);
	begin(meter, 0);
	block = heap_take_in_run(meter, SCRATCH);
	assert_int_equal(sal_heap_view().metered, 2 * SCRATCH);
	sal_heap_give(late);
	sal_heap_give(block);
	sal_heap_end(meter);
	sal_heap_leave(meter);
	sal_meter_close(meter);
}

/* The vendor keeps the block: the second allocation does not wait again. */
static void test_a_wait_in_vain_ends(void **state)
{
	uint32_t meter = sal_meter_open(), i;
	void *kept, *blocks[20];
	uint64_t start;

	(void)state;
	limit();
	begin(meter, 0);
	kept = heap_take_in_run(meter, SCRATCH);
	sal_heap_end(meter);
	begin(meter, 0);
	start = sal_now_ns();
	for (i = 0; i < 20; i++)
		blocks[i] = heap_take_in_run(meter, SCRATCH);
	assert_true(sal_now_ns() - start < UINT64_C(300000000)); /* 20 waits would be 400 ms */
	for (i = 0; i < 20; i++)
		sal_heap_give(blocks[i]);
	sal_heap_give(kept);
	sal_heap_end(meter);
	sal_heap_leave(meter);
	sal_meter_close(meter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_the_next_run_waits, heap_clear),
		cmocka_unit_test_setup(test_nobody_waits_where_there_is_room, heap_clear),
		cmocka_unit_test_setup(test_a_wait_in_vain_ends, heap_clear),
	};

	return cmocka_run_group_tests(tests, heap_start, NULL);
}
