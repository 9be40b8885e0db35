/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that the process of their session may read: which ones, for whom, and for how long. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "heap/exposed.h"
#include "heap/heap.h"
#include "heap/wishes.h"
#include "support/heap.h"

#define SIZE (4 * MIB)

static bool expose(const void *block, uint32_t meter, struct sal_heap_exposed *out)
{
	*out = (struct sal_heap_exposed){ 0 };
	return sal_heap_expose(block, meter, out);
}

/* The session reads results of this size until the heap knows. */
static void make_a_wish(uint32_t meter, size_t bytes)
{
	struct sal_heap_exposed out;

	for (uint32_t i = 0; i < SAL_WISH_READS; i++) {
		char *block = heap_take_in_run(meter, bytes);

		assert_false(expose(block, meter, &out));
		sal_heap_give(block);
	}
}

/* An exposed block that the session's process has mapped. */
struct seen {
	uint32_t meter;
	char *block;
	struct sal_heap_exposed exposed;
	int fd;
	char *view;
};

static struct seen see(uint32_t meter)
{
	struct seen s = { .meter = meter, .block = heap_take_in_run(meter, SIZE) };
	uint64_t bytes;

	assert_true(expose(s.block, meter, &s.exposed));
	assert_int_equal(s.exposed.bytes, SIZE);
	s.fd = sal_heap_exposed_fd(s.exposed.number, meter, &bytes);
	assert_true(s.fd >= 0);
	assert_int_equal(bytes, SIZE);
	s.view = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, s.fd, 0);
	assert_true(s.view != MAP_FAILED);
	return s;
}

static void unsee(struct seen *s)
{
	(void)munmap(s->view, SIZE);
	(void)close(s->fd);
}

static void leave(uint32_t meter)
{
	sal_heap_leave(meter);
	sal_meter_close(meter);
}

/* Only results of sizes that the session reads are exposed, and it sees their bytes. */
static void test_what_is_exposed(void **state)
{
	uint32_t meter = sal_meter_open();
	struct sal_heap_exposed out;
	struct seen s;
	char *other;

	(void)state;
	make_a_wish(meter, SIZE);
	make_a_wish(meter, MIB / 2); /* too small */
	s = see(meter);
	memset(s.block, 7, SIZE);
	assert_int_equal(s.view[0], 7);
	assert_int_equal(s.view[SIZE - 1], 7);
	assert_int_equal(sal_heap_view().exposed, SIZE);
	assert_int_equal(sal_meter_bytes(meter), SIZE);
	other = heap_take_in_run(meter, SIZE + MIB); /* of a size that nobody reads */
	assert_false(expose(other, meter, &out));
	sal_heap_give(other);
	other = heap_take_in_run(meter, MIB / 2);
	assert_false(expose(other, meter, &out));
	sal_heap_give(other);
	sal_heap_give(s.block);
	unsee(&s);
	leave(meter);
}

/* Memory of an upload is not the run's. */
static void test_only_a_run_makes_results(void **state)
{
	uint32_t meter = sal_meter_open();
	struct sal_heap_exposed out;
	bool is_zero;
	char *block;

	(void)state;
	make_a_wish(meter, SIZE);
	(void)sal_payer_set(sal_payer_for(meter, false));
	block = sal_heap_take(SIZE, 64, &is_zero);
	(void)sal_payer_set((struct sal_payer){ 0 });
	assert_false(expose(block, meter, &out));
	sal_heap_give(block);
	leave(meter);
}

/* Whoever has the descriptor can read. He cannot write, and he cannot take the memory away. */
static void test_nobody_can_write(void **state)
{
	uint32_t meter = sal_meter_open();
	char path[64];
	struct seen s;
	int again;

	(void)state;
	make_a_wish(meter, SIZE);
	s = see(meter);
	s.block[0] = 7;
	assert_true(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0) == MAP_FAILED);
	assert_int_equal(mprotect(s.view, SIZE, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(pwrite(s.fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(s.fd, 0), -1);
	assert_int_equal(fallocate(s.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MIB), -1);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", s.fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again >= 0) {
		assert_true(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) ==
			    MAP_FAILED);
		assert_int_equal(pwrite(again, "x", 1, 0), -1);
		assert_int_equal(ftruncate(again, 0), -1);
		(void)close(again);
	}
	assert_int_equal(s.block[0], 7);
	sal_heap_give(s.block);
	unsee(&s);
	leave(meter);
}

/* A session gets its own blocks only, also if another one reads results of the same size. */
static void test_blocks_of_others(void **state)
{
	uint32_t mine = sal_meter_open(), other = sal_meter_open();
	struct sal_heap_exposed out;
	uint64_t bytes;
	struct seen s, t;

	(void)state;
	sal_heap_keep(UINT64_MAX);
	make_a_wish(mine, SIZE);
	make_a_wish(other, SIZE);
	s = see(mine);
	memset(s.block, 7, SIZE);
	assert_false(expose(s.block, other, &out));
	assert_int_equal(sal_heap_exposed_fd(s.exposed.number, other, &bytes), -1);
	assert_int_equal(sal_heap_exposed_fd(s.exposed.number + 1, mine, &bytes), -1);
	sal_heap_give(s.block); /* it stays warm, for its session alone */
	t = see(other);
	assert_int_not_equal(t.exposed.number, s.exposed.number);
	assert_ptr_not_equal(t.block, s.block);
	assert_int_equal(t.view[0], 0);
	memset(t.block, 8, SIZE);
	assert_int_equal(s.view[0], 7);
	assert_true(sal_heap_check());
	sal_heap_give(t.block);
	leave(other);
	leave(mine);
	/* Not even the next session with the same meter gets them. */
	assert_false(sal_heap_is_exposed(s.exposed.number));
	assert_false(sal_heap_is_exposed(t.exposed.number));
	assert_int_equal(sal_heap_exposed_fd(s.exposed.number, mine, &bytes), -1);
	unsee(&s);
	unsee(&t);
}

/* The next result of the session is in the same block: its pages are warm on both sides. */
static void test_a_free_block_is_used_again(void **state)
{
	uint32_t meter = sal_meter_open();
	uint64_t withdrawn = sal_heap_withdrawn();
	struct sal_heap_exposed out;
	struct seen s;
	char *block;

	(void)state;
	sal_heap_keep(2 * SIZE);
	make_a_wish(meter, SIZE);
	s = see(meter);
	sal_heap_give(s.block);
	assert_true(sal_heap_is_exposed(s.exposed.number));
	assert_int_equal(sal_heap_view().metered, 0);
	assert_true(sal_heap_view().warm >= SIZE);
	assert_true(sal_heap_check());
	block = heap_take_in_run(meter, SIZE);
	assert_ptr_equal(block, s.block);
	assert_true(expose(block, meter, &out));
	assert_int_equal(out.number, s.exposed.number);
	block[5] = 9;
	assert_int_equal(s.view[5], 9);
	sal_heap_give(block);
	assert_int_equal(sal_heap_withdrawn(), withdrawn);
	sal_heap_trim(0); /* somebody else needs the memory */
	assert_int_equal(sal_heap_view().warm, 0);
	assert_int_equal(sal_heap_view().exposed, 0);
	assert_int_equal(sal_heap_withdrawn(), withdrawn + 1);
	assert_false(sal_heap_is_exposed(s.exposed.number));
	assert_true(sal_heap_check());
	unsee(&s);
	leave(meter);
}

/* Warm memory is bounded, and blocks that jobs can read count. */
static void test_warm_blocks_are_bounded(void **state)
{
	uint32_t meter = sal_meter_open();
	struct seen s, t;

	(void)state;
	sal_heap_keep(SIZE);
	make_a_wish(meter, SIZE);
	s = see(meter);
	t = see(meter);
	sal_heap_give(s.block);
	sal_heap_give(t.block);
	assert_int_equal(sal_heap_view().warm, SIZE);
	assert_true(sal_heap_is_exposed(s.exposed.number));
	assert_false(sal_heap_is_exposed(t.exposed.number));
	assert_true(sal_heap_check());
	unsee(&s);
	unsee(&t);
	leave(meter);
}

/* After a page-out the job still sees its result, and the block does not change it any more. */
static void test_paged_out_while_it_is_read(void **state)
{
	uint32_t meter = sal_meter_open();
	struct sal_heap_exposed out;
	struct seen s;

	(void)state;
	make_a_wish(meter, SIZE);
	s = see(meter);
	memset(s.block, 7, SIZE);
	sal_heap_empty(s.block, SIZE);
	assert_int_equal(sal_meter_bytes(meter), 0);
	assert_int_equal(sal_heap_view().exposed, 0);
	assert_int_equal(s.view[SIZE - 1], 7);
	assert_true(sal_heap_check());
	sal_heap_fill(s.block, SIZE);
	assert_int_equal(sal_meter_bytes(meter), SIZE);
	assert_int_equal(s.block[0], 0);
	memset(s.block, 8, SIZE);
	assert_int_equal(s.view[0], 7);
	assert_false(expose(s.block, meter, &out));
	assert_false(sal_heap_is_exposed(s.exposed.number));
	sal_heap_give(s.block);
	assert_true(sal_heap_check());
	unsee(&s);
	leave(meter);
}

/* A block that outlives its session is nobody's: it goes when it is freed. */
static void test_the_session_ends_first(void **state)
{
	uint32_t meter = sal_meter_open();
	uint64_t bytes;
	struct seen s;

	(void)state;
	sal_heap_keep(UINT64_MAX);
	make_a_wish(meter, SIZE);
	s = see(meter);
	leave(meter);
	assert_int_equal(sal_heap_exposed_fd(s.exposed.number, meter, &bytes), -1);
	sal_heap_give(s.block);
	assert_false(sal_heap_is_exposed(s.exposed.number));
	assert_int_equal(sal_heap_view().exposed, 0);
	unsee(&s);
}

/* A job that keeps many views gets copies of the rest. */
static void test_limits(void **state)
{
	uint32_t mine = sal_meter_open(), other = sal_meter_open();
	struct sal_heap_exposed out;
	char *blocks[4];

	(void)state;
	sal_heap_expose_limit(2, 3);
	make_a_wish(mine, SIZE);
	make_a_wish(other, SIZE);
	for (size_t i = 0; i < 4; i++) {
		uint32_t meter = i < 3 ? mine : other;

		blocks[i] = heap_take_in_run(meter, SIZE);
		assert_int_equal(expose(blocks[i], meter, &out), i != 2);
	}
	assert_int_equal(sal_heap_view().exposed, 3 * SIZE);
	sal_heap_give(blocks[0]);
	blocks[0] = heap_take_in_run(mine, SIZE);
	assert_true(expose(blocks[0], mine, &out));
	for (size_t i = 0; i < 4; i++)
		sal_heap_give(blocks[i]);
	leave(mine);
	leave(other);
}

/* Free blocks of a size that the job does not need any more do not count against it. */
static void test_another_size(void **state)
{
	uint32_t meter = sal_meter_open();
	struct sal_heap_exposed out;
	char *blocks[2];

	(void)state;
	sal_heap_keep(UINT64_MAX);
	sal_heap_expose_limit(2, 512);
	make_a_wish(meter, SIZE);
	make_a_wish(meter, 2 * SIZE);
	for (size_t i = 0; i < 2; i++)
		blocks[i] = heap_take_in_run(meter, SIZE);
	for (size_t i = 0; i < 2; i++)
		sal_heap_give(blocks[i]);
	assert_int_equal(sal_heap_view().exposed, 2 * SIZE);
	blocks[0] = heap_take_in_run(meter, 2 * SIZE);
	assert_true(expose(blocks[0], meter, &out));
	assert_int_equal(sal_heap_view().exposed, 3 * SIZE);
	assert_true(sal_heap_check());
	sal_heap_give(blocks[0]);
	leave(meter);
}

/* A job that does not read its results any more gets ordinary blocks again. */
static void test_unread(void **state)
{
	uint32_t meter = sal_meter_open();
	struct sal_heap_exposed out;
	char *block;

	(void)state;
	make_a_wish(meter, SIZE);
	for (uint32_t i = 0; i <= SAL_WISH_UNREAD_MAX; i++)
		sal_heap_give(heap_take_in_run(meter, SIZE));
	block = heap_take_in_run(meter, SIZE);
	assert_int_equal(sal_heap_view().exposed, 0);
	assert_false(expose(block, meter, &out));
	sal_heap_give(block);
	leave(meter);
}

/* Sizes compete for their few places. One that is read all the time stays. */
static void test_many_sizes(void **state)
{
	struct sal_wishes w = { 0 };

	(void)state;
	for (uint32_t i = 0; i < SAL_WISH_READS; i++)
		sal_wishes_note(&w, 1000);
	for (uint32_t pages = 1; pages < 100; pages++) {
		sal_wishes_note(&w, 1000);
		sal_wishes_note(&w, pages);
	}
	assert_true(sal_wishes_ask(&w, 1000));
	for (uint32_t i = 0; i < SAL_WISH_READS; i++)
		sal_wishes_note(&w, 2000);
	assert_true(sal_wishes_ask(&w, 2000));
}

static void *churn(void *arg)
{
	uint32_t meter = *(uint32_t *)arg;
	char *blocks[4] = { NULL };
	struct sal_heap_exposed out;

	for (size_t i = 0; i < 600; i++) {
		char **b = &blocks[i * 3 % 4];
		size_t bytes = (1 + i % 2) * MIB;

		if (*b && i % 5 == 0)
			sal_heap_empty(*b, MIB);
		if (*b)
			sal_heap_give(*b);
		*b = heap_take_in_run(meter, bytes);
		**b = 1;
		(void)expose(*b, meter, &out);
	}
	for (size_t i = 0; i < 4; i++)
		sal_heap_give(blocks[i]);
	return NULL;
}

static void test_many_threads(void **state)
{
	uint32_t meters[4];
	pthread_t threads[4];

	(void)state;
	sal_heap_keep(6 * MIB);
	sal_heap_limit(16 * MIB);
	sal_heap_expose_limit(3, 8);
	for (size_t i = 0; i < 4; i++) {
		meters[i] = sal_meter_open();
		assert_int_equal(pthread_create(&threads[i], NULL, churn, &meters[i]), 0);
	}
	for (size_t i = 0; i < 4; i++) {
		(void)pthread_join(threads[i], NULL);
		assert_int_equal(sal_meter_bytes(meters[i]), 0);
		assert_true(sal_heap_check());
		leave(meters[i]);
	}
	assert_true(sal_heap_view().warm <= 6 * MIB);
	assert_int_equal(sal_heap_view().exposed, 0);
	assert_true(sal_heap_check());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_exposed, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_only_a_run_makes_results, heap_clear,
						heap_clear),
		cmocka_unit_test_setup_teardown(test_nobody_can_write, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_blocks_of_others, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_a_free_block_is_used_again, heap_clear,
						heap_clear),
		cmocka_unit_test_setup_teardown(test_warm_blocks_are_bounded, heap_clear,
						heap_clear),
		cmocka_unit_test_setup_teardown(test_paged_out_while_it_is_read, heap_clear,
						heap_clear),
		cmocka_unit_test_setup_teardown(test_the_session_ends_first, heap_clear,
						heap_clear),
		cmocka_unit_test_setup_teardown(test_limits, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_another_size, heap_clear, heap_clear),
		cmocka_unit_test_setup_teardown(test_unread, heap_clear, heap_clear),
		cmocka_unit_test(test_many_sizes),
		cmocka_unit_test_setup_teardown(test_many_threads, heap_clear, heap_clear),
	};

	return cmocka_run_group_tests(tests, heap_start, NULL);
}
