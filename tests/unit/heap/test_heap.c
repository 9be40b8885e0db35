/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "heap/heap.h"
#include "support/heap.h"

static void test_freed_memory_goes_back(void **state)
{
	void *block = heap_take(8 * MIB);

	(void)state;
	assert_int_equal(heap_resident(block, 8 * MIB), 8 * MIB);
	sal_heap_give(block);
	assert_int_equal(sal_heap_view().warm, 0);
	assert_int_equal(heap_resident(block, 8 * MIB), 0);
}

static void test_warm_memory_is_used_again(void **state)
{
	void *block, *again;
	bool is_zero;

	(void)state;
	sal_heap_keep(8 * MIB);
	block = heap_take(8 * MIB);
	sal_heap_give(block);
	assert_int_equal(sal_heap_view().warm, 8 * MIB);
	again = sal_heap_take(2 * MIB, 64, &is_zero);
	assert_ptr_equal(again, block);
	assert_false(is_zero);
	assert_int_equal(sal_heap_view().warm, 6 * MIB);
	sal_heap_give(again);
	sal_heap_trim(0);
	assert_int_equal(heap_resident(block, 8 * MIB), 0);
	assert_true(sal_heap_check());
}

static void test_new_memory_is_zero(void **state)
{
	bool is_zero;
	const char *block = sal_heap_take(MIB, 1, &is_zero);

	(void)state;
	assert_true(is_zero);
	for (size_t i = 0; i < MIB; i++)
		assert_int_equal(block[i], 0);
	sal_heap_give((void *)block);
}

/* Blocks of sessions and warm pages together stay below the limit as long as warm pages can go. */
static void test_limit(void **state)
{
	uint32_t meter = sal_meter_open();
	void *small, *large;

	(void)state;
	(void)sal_payer_set(sal_payer_for(meter, false));
	sal_heap_keep(64 * MIB);
	sal_heap_limit(10 * MIB);
	small = heap_take(6 * MIB);
	sal_heap_give(small);
	large = heap_take(7 * MIB);
	assert_int_equal(sal_heap_view().metered, 7 * MIB);
	assert_int_equal(sal_heap_view().warm, 3 * MIB); /* only so many had to go */
	sal_heap_give(large);
	sal_meter_close(meter);
}

static void test_run(void **state)
{
	uint32_t meter = sal_meter_open();
	void *before, *inside, *output;
	struct sal_meter_run run;

	(void)state;
	(void)sal_payer_set(sal_payer_for(meter, false));
	before = heap_take(4 * MIB);
	sal_meter_begin(meter);
	(void)sal_payer_set(sal_payer_for(meter, true));
	inside = heap_take(3 * MIB);
	output = heap_take(2 * MIB);
	sal_heap_give(inside);
	sal_heap_give(before); /* not of this run */
	run = sal_meter_run(meter);
	assert_int_equal(run.peak_bytes, 5 * MIB);
	assert_int_equal(run.left_bytes, 2 * MIB);
	assert_int_equal(sal_meter_bytes(meter), 2 * MIB);
	sal_meter_begin(meter);
	sal_heap_give(output); /* of the run before */
	run = sal_meter_run(meter);
	assert_int_equal(run.peak_bytes, 0);
	assert_int_equal(run.left_bytes, 0);
	assert_int_equal(sal_meter_bytes(meter), 0);
	sal_meter_close(meter);
}

static void test_emptied(void **state)
{
	uint32_t meter = sal_meter_open();
	void *block;

	(void)state;
	(void)sal_payer_set(sal_payer_for(meter, false));
	block = heap_take(4 * MIB);
	sal_heap_empty(block, 4 * MIB);
	assert_int_equal(heap_resident(block, 4 * MIB), 0);
	assert_int_equal(sal_meter_bytes(meter), 0);
	assert_true(sal_heap_check());
	sal_heap_fill(block, 4 * MIB);
	memset(block, 2, 4 * MIB);
	assert_int_equal(sal_meter_bytes(meter), 4 * MIB);
	sal_heap_empty(block, 4 * MIB);
	sal_heap_give(block);
	assert_int_equal(sal_heap_view().warm, 0);
	sal_meter_close(meter);
}

static void test_another_pays(void **state)
{
	uint32_t meter = sal_meter_open();
	void *block = heap_take(MIB);

	(void)state;
	sal_heap_pay(block, sal_payer_for(meter, false));
	assert_int_equal(sal_meter_bytes(meter), MIB);
	assert_int_equal(sal_heap_view().metered, MIB);
	sal_heap_pay(block, sal_payer_for(SAL_NO_METER, false));
	assert_int_equal(sal_meter_bytes(meter), 0);
	sal_heap_give(block);
	sal_meter_close(meter);
}

/* After how many others the meter comes again; 0: never. */
static uint32_t open_until(uint32_t meter)
{
	for (uint32_t n = 1; n <= 2 * SAL_METERS_MAX; n++) {
		uint32_t other = sal_meter_open();

		sal_meter_close(other);
		if (other == meter)
			return n;
	}
	return 0;
}

/* A meter with blocks is not used again, and another one when all others had their turn. */
static void test_meters(void **state)
{
	uint32_t meter = sal_meter_open();
	void *block;

	(void)state;
	(void)sal_payer_set(sal_payer_for(meter, false));
	block = heap_take(MIB);
	sal_meter_close(meter);
	assert_int_equal(open_until(meter), 0);
	sal_heap_give(block);
	assert_int_not_equal(open_until(meter), 0);
	assert_int_equal(open_until(meter), SAL_METERS_MAX - 1);
}

static void *allocate(void *unused)
{
	(void)unused;
	return heap_take(MIB);
}

/* A thread of a stream inherits the mark, and pays with the meter of the stream. */
static void test_threads_of_a_stream(void **state)
{
	uint32_t meter = sal_meter_open();
	sigset_t marked, before;
	pthread_t thread;
	void *block;

	(void)state;
	sal_payer_of_stream(5, meter);
	(void)sigemptyset(&marked);
	(void)sigaddset(&marked, SIGRTMIN);
	(void)sigaddset(&marked, SIGRTMIN + 2);
	(void)pthread_sigmask(SIG_BLOCK, &marked, &before);
	assert_int_equal(pthread_create(&thread, NULL, allocate, NULL), 0);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_join(thread, &block);
	assert_int_equal(sal_meter_bytes(meter), MIB);
	assert_int_equal(sal_meter_run(meter).left_bytes, MIB);
	sal_heap_give(block);
	sal_meter_close(meter);
}

static void *churn(void *arg)
{
	uint32_t meter = *(uint32_t *)arg;
	void *blocks[8] = { NULL };

	(void)sal_payer_set(sal_payer_for(meter, true));
	for (size_t i = 0; i < 4000; i++) {
		void **b = &blocks[i * 7 % 8];
		bool is_zero;

		if (*b)
			sal_heap_give(*b);
		*b = sal_heap_take(SAL_BLOCK_MIN * (1 + i % 30), 64, &is_zero);
		assert_non_null(*b);
		*(char *)*b = 1;
	}
	for (size_t i = 0; i < 8; i++)
		sal_heap_give(blocks[i]);
	return NULL;
}

static void test_many_threads(void **state)
{
	uint32_t meters[4];
	pthread_t threads[4];

	(void)state;
	sal_heap_keep(4 * MIB);
	sal_heap_limit(24 * MIB);
	for (size_t i = 0; i < 4; i++) {
		meters[i] = sal_meter_open();
		assert_int_equal(pthread_create(&threads[i], NULL, churn, &meters[i]), 0);
	}
	for (size_t i = 0; i < 4; i++) {
		(void)pthread_join(threads[i], NULL);
		assert_int_equal(sal_meter_bytes(meters[i]), 0);
		sal_meter_close(meters[i]);
	}
	assert_true(sal_heap_view().warm <= 4 * MIB);
	assert_true(sal_heap_check());
}

#define ROUNDS 1000000

static void *come_and_go(void *arg)
{
	uint32_t meter = *(uint32_t *)arg;

	for (int i = 0; i < ROUNDS; i++) {
		uint32_t run = sal_meter_add(sal_payer_for(meter, true), MIB);

		sal_meter_remove(meter, run, MIB);
	}
	return NULL;
}

/* The vendor may free blocks of a run while the next one begins. Neither run counts them wrongly. */
static void test_a_run_begins_while_blocks_go(void **state)
{
	uint32_t meter = sal_meter_open();
	uint64_t most = 0;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, come_and_go, &meter), 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct sal_meter_run run;

		sal_meter_begin(meter);
		run = sal_meter_run(meter);
		most = run.peak_bytes > most ? run.peak_bytes : most;
		most = run.left_bytes > most ? run.left_bytes : most;
	}
	(void)pthread_join(thread, NULL);
	assert_true(most <= 2 * MIB);
	sal_meter_close(meter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_freed_memory_goes_back, heap_clear,
						heap_clear),
		cmocka_unit_test_setup_teardown(test_warm_memory_is_used_again, heap_clear,
						heap_clear),
		cmocka_unit_test_setup_teardown(test_new_memory_is_zero, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_limit, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_run, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_emptied, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_another_pays, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_meters, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_threads_of_a_stream, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_many_threads, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_a_run_begins_while_blocks_go, heap_clear,
						heap_clear),
	};

	return cmocka_run_group_tests(tests, heap_start, NULL);
}
