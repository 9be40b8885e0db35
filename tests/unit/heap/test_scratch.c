/* SPDX-License-Identifier: Apache-2.0 */
/* The ranges of the lanes: where scratch is, and that none of it stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/heap.h"
#include "support/rng.h"

#define PAGE ((size_t)4096)
#define BLOCKS UINT64_C(40)
#define ROUNDS 300

static void keep(uint32_t lane, uint64_t bytes)
{
	bool has_more = false;

	sal_heap_keep_lane(lane, bytes, &has_more);
}

/* An iteration without outputs, or with one. */
static void begin(uint32_t meter, uint32_t lane, size_t output_bytes)
{
	struct sal_lasting_outputs outputs = { 0 };

	if (output_bytes)
		sal_lasting_add(&outputs, (uint32_t)(output_bytes / PAGE));
	sal_heap_begin(meter, lane, &outputs);
}

static void leave(uint32_t meter)
{
	sal_heap_leave(meter);
	sal_meter_close(meter);
}

static void test_scratch_is_in_the_lane(void **state)
{
	uint32_t meter = sal_meter_open();
	char *scratch, *output, *more;

	(void)state;
	begin(meter, 3, 2 * MIB);
	output = heap_take_in_run(meter, 2 * MIB);
	scratch = heap_take_in_run(meter, 2 * MIB);
	more = heap_take_in_run(meter, MIB);
	assert_int_equal(sal_heap_lane(3).used, 3 * MIB);
	assert_int_equal(sal_heap_lane(3).extent, 3 * MIB);
	assert_ptr_equal(more, scratch + 2 * MIB);
	assert_int_equal(sal_heap_lane(2).resident, 0);
	sal_heap_give(scratch);
	sal_heap_give(more);
	sal_heap_end(meter);
	assert_int_equal(sal_heap_lane(3).used, 0);
	assert_int_equal(sal_heap_view().metered, 2 * MIB);
	sal_heap_give(output);
	leave(meter);
}

/* What a lane may keep waits in its range, and no more; the lane shrinks and gives pages back. */
static void test_a_lane_keeps_its_size(void **state)
{
	uint32_t meter = sal_meter_open();
	bool has_more = false;
	char *scratch;

	(void)state;
	sal_heap_keep(100 * MIB);
	keep(0, 8 * MIB);
	begin(meter, 0, 0);
	scratch = memset(heap_take_in_run(meter, 8 * MIB), 1, 8 * MIB);
	sal_heap_give(scratch);
	sal_heap_end(meter);
	assert_int_equal(sal_heap_lane(0).resident, 8 * MIB);
	assert_int_equal(heap_resident(scratch, 8 * MIB), 8 * MIB);
	sal_heap_keep_lane(0, 2 * MIB, &has_more);
	assert_true(has_more);
	sal_heap_settle();
	assert_true(sal_heap_lane(0).resident <= 5 * MIB + MIB / 8);
	assert_true(heap_resident(scratch, 8 * MIB) <= 5 * MIB + MIB / 8);
	keep(0, 4 * MIB);
	begin(meter, 0, 0);
	scratch = heap_take_in_run(meter, 16 * MIB); /* more than the lane may keep */
	sal_heap_give(scratch);
	sal_heap_end(meter);
	assert_int_equal(sal_heap_lane(0).resident, 0);
	leave(meter);
}

/* An iteration of two blocks; out_warm: so many of their bytes were in memory at once. */
static void run_two_blocks(uint32_t meter, size_t first_bytes, size_t second_bytes,
			   bool is_reversed, size_t *out_warm)
{
	char *first, *second;

	begin(meter, 0, 0);
	first = heap_take_in_run(meter, first_bytes);
	second = heap_take_in_run(meter, second_bytes);
	*out_warm = heap_resident(first, first_bytes) + heap_resident(second, second_bytes);
	memset(first, 1, first_bytes);
	memset(second, 1, second_bytes);
	sal_heap_give(is_reversed ? second : first);
	sal_heap_give(is_reversed ? first : second);
	sal_heap_end(meter);
}

/* Warm pages of earlier iterations do not keep a lane from having those of the present ones. */
static void test_a_lane_stays_warm(void **state)
{
	uint32_t meter = sal_meter_open();
	size_t warm;

	(void)state;
	sal_heap_keep(100 * MIB);
	for (int i = 0; i < 4; i++) {
		bool is_reversed = i & 1;

		keep(0, 6 * MIB);
		run_two_blocks(meter, 2 * MIB, 4 * MIB, is_reversed, &warm);
		keep(0, 16 * MIB);
		run_two_blocks(meter, i < 2 ? 13 * MIB : 3 * MIB, i < 2 ? 3 * MIB : 13 * MIB,
			       is_reversed, &warm);
		run_two_blocks(meter, 13 * MIB, 3 * MIB, is_reversed, &warm);
		run_two_blocks(meter, 13 * MIB, 3 * MIB, is_reversed, &warm);
		assert_int_equal(warm, 16 * MIB);
		assert_true(sal_heap_lane(0).resident <= 34 * MIB);
		assert_true(sal_heap_check());
	}
	keep(0, 40 * MIB);
	run_two_blocks(meter, 32 * MIB, 8 * MIB, false, &warm);
	keep(0, 16 * MIB); /* the pages at the end are too many now */
	run_two_blocks(meter, 13 * MIB, 3 * MIB, false, &warm);
	run_two_blocks(meter, 13 * MIB, 3 * MIB, false, &warm);
	assert_int_equal(warm, 16 * MIB);
	assert_true(sal_heap_lane(0).resident <= 34 * MIB);
	leave(meter);
}

/* The vendor frees the scratch of an iteration when the next one has its own. Both stay warm. */
static void test_two_iterations_meet(void **state)
{
	uint32_t meter = sal_meter_open(), i;
	char *first, *second;

	(void)state;
	sal_heap_keep(100 * MIB);
	keep(0, 8 * MIB);
	for (i = 0; i < 4; i++) {
		begin(meter, 0, 0);
		first = heap_take_in_run(meter, 8 * MIB);
		sal_heap_end(meter);
		begin(meter, 0, 0);
		second = heap_take_in_run(meter, 8 * MIB);
		if (i > 0)
			assert_int_equal(heap_resident(second, 8 * MIB), 8 * MIB);
		memset(first, 1, 8 * MIB);
		memset(second, 1, 8 * MIB);
		sal_heap_give(first);
		sal_heap_end(meter);
		sal_heap_give(second); /* the lane is idle for a moment */
	}
	leave(meter);
}

/* A large session changes its lane: the warm pages come with it. */
static void test_lanes_exchange_ranges(void **state)
{
	uint32_t large = sal_meter_open(), small = sal_meter_open();
	char *scratch, *again;

	(void)state;
	sal_heap_keep(100 * MIB);
	keep(0, 8 * MIB);
	keep(1, 0);
	begin(large, 0, 0);
	scratch = heap_take_in_run(large, 8 * MIB);
	sal_heap_give(scratch);
	sal_heap_end(large);
	keep(0, MIB);
	keep(1, 8 * MIB);
	begin(large, 1, 0);
	begin(small, 0, 0);
	again = heap_take_in_run(large, 8 * MIB);
	assert_ptr_equal(again, scratch);
	assert_int_equal(sal_heap_lane(1).used, 8 * MIB);
	assert_int_equal(sal_heap_lane(0).used, 0);
	sal_heap_give(again);
	sal_heap_end(large);
	sal_heap_end(small);
	leave(large);
	leave(small);
}

/* While an iteration runs in a lane, nobody gets its range. */
static void test_no_exchange_with_a_running_lane(void **state)
{
	uint32_t first = sal_meter_open(), second = sal_meter_open();
	char *scratch, *other;

	(void)state;
	sal_heap_keep(100 * MIB);
	keep(0, 8 * MIB);
	begin(first, 0, 0);
	scratch = heap_take_in_run(first, 8 * MIB);
	sal_heap_give(scratch);
	keep(0, MIB);
	keep(1, 8 * MIB);
	begin(second, 1, 0);
	other = heap_take_in_run(second, 8 * MIB);
	assert_ptr_not_equal(other, scratch);
	assert_int_equal(sal_heap_lane(0).used, 0);
	sal_heap_give(other);
	sal_heap_end(first);
	sal_heap_end(second);
	leave(first);
	leave(second);
}

/* The vendor keeps a block of the first run. Later blocks of its size are not in the lane. */
static void test_lasting_blocks_are_learned(void **state)
{
	uint32_t meter = sal_meter_open();
	char *kept, *later;

	(void)state;
	begin(meter, 0, 0);
	kept = heap_take_in_run(meter, 3 * MIB);
	sal_heap_end(meter);
	for (int i = 0; i < 4; i++) {
		begin(meter, 0, 0);
		sal_heap_end(meter);
	}
	assert_int_equal(sal_heap_lane(0).lasting, 3 * MIB);
	later = heap_take_in_run(meter, 3 * MIB);
	assert_int_equal(sal_heap_lane(0).used, 3 * MIB);
	sal_heap_give(kept);
	assert_int_equal(sal_heap_lane(0).used, 0);
	sal_heap_give(later);
	leave(meter);
}

/* Scratch of any sizes, freed in any order: a lane never has holes when an iteration begins. */
static void test_no_fragments(void **state)
{
	struct rng rng = { .state = 7 };
	uint32_t meter = sal_meter_open(), round;
	void *blocks[BLOCKS] = { 0 };

	(void)state;
	sal_heap_keep(16 * MIB);
	keep(0, 16 * MIB);
	for (round = 0; round < ROUNDS; round++) {
		uint64_t all = 0, i;
		char *whole;

		begin(meter, 0, 0);
		for (i = 0; i < 2 * BLOCKS; i++) {
			uint64_t at = rng_below(&rng, BLOCKS);

			if (blocks[at])
				sal_heap_give(blocks[at]);
			blocks[at] = heap_take_in_run(meter, PAGE * rng_range(&rng, 16, 64));
		}
		for (i = 0; i < BLOCKS; i++) {
			all += blocks[i] ? sal_heap_size(blocks[i]) : 0;
			if (blocks[i])
				sal_heap_give(blocks[i]);
			blocks[i] = NULL;
		}
		sal_heap_end(meter);
		assert_int_equal(sal_heap_lane(0).used, 0);
		assert_true(sal_heap_lane(0).resident <= 16 * MIB);
		begin(meter, 0, 0);
		whole = heap_take_in_run(meter, (size_t)all); /* in one piece, where they were */
		assert_true(sal_heap_lane(0).extent <= 20 * MIB);
		sal_heap_give(whole);
		sal_heap_end(meter);
		assert_true(sal_heap_check());
	}
	leave(meter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_scratch_is_in_the_lane, heap_clear,
						heap_clear),
		cmocka_unit_test_setup_teardown(test_a_lane_keeps_its_size, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_two_iterations_meet, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_a_lane_stays_warm, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_lanes_exchange_ranges, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_no_exchange_with_a_running_lane, heap_clear,
						heap_clear),
		cmocka_unit_test_setup_teardown(test_lasting_blocks_are_learned, heap_clear,
						heap_clear),
		cmocka_unit_test_setup_teardown(test_no_fragments, heap_clear, heap_clear),
	};

	return cmocka_run_group_tests(tests, heap_start, NULL);
}
