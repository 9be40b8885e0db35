/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap - what the tests of the heap share: a clean start, and blocks. Include cmocka first.
 */
#ifndef SAL_TESTS_SUPPORT_HEAP_H
#define SAL_TESTS_SUPPORT_HEAP_H

#include <string.h>
#include <sys/mman.h>

#include "heap/heap.h"

#define MIB ((size_t)1 << 20)

static inline int heap_start(void **state)
{
	(void)state;
	return sal_heap_start() ? 0 : -1;
}

/* Each test begins with nothing warm. */
static inline int heap_clear(void **state)
{
	struct sal_heap_view view;
	bool has_more = false;

	(void)state;
	(void)sal_payer_set((struct sal_payer){ 0 });
	sal_heap_keep(0);
	for (uint32_t i = 0; i < SAL_HEAP_LANES; i++)
		sal_heap_keep_lane(i, 0, &has_more);
	sal_heap_limit(UINT64_MAX);
	sal_heap_expose_limit(64, 512);
	sal_heap_trim(0);
	view = sal_heap_view();
	return sal_heap_check() && view.metered == 0 && view.exposed == 0 ? 0 : -1;
}

/* A block whose pages are in memory. */
static inline void *heap_take(size_t bytes)
{
	bool is_zero;
	void *block = sal_heap_take(bytes, 1, &is_zero);

	assert_non_null(block);
	memset(block, 1, bytes);
	return block;
}

/* A block that a run of the session allocates. Nobody has written to it. */
static inline void *heap_take_in_run(uint32_t meter, size_t bytes)
{
	struct sal_payer before = sal_payer_set(sal_payer_for(meter, true));
	bool is_zero;
	void *block = sal_heap_take(bytes, 64, &is_zero);

	(void)sal_payer_set(before);
	assert_non_null(block);
	return block;
}

/* Bytes of a block that are in memory. */
static inline size_t heap_resident(void *at, size_t bytes)
{
	unsigned char there[16384];
	size_t count = 0;

	assert_true(bytes / 4096 <= sizeof(there));
	assert_int_equal(mincore(at, bytes, there), 0);
	for (size_t i = 0; i < bytes / 4096; i++)
		count += there[i] & 1;
	return count * 4096;
}

#endif
