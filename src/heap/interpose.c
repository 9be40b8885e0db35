/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interpose - malloc and its relatives, for salusd and everything that it loads.
 *
 * A program that defines malloc replaces the C library's, also for shared objects that the program
 * loads later: the vendor's plugin. Large blocks are the heap's, all others the C library's, whose
 * own functions have further names.
 *
 * This file is not part of the library of its layer: only programs that list it replace malloc.
 * Sanitizers have a malloc of their own, so their builds leave this file out.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "heap/heap.h"
#include "heap/pages.h"

/* In the C library. Its headers do not declare them. */
/* NOLINTBEGIN(bugprone-reserved-identifier): the C library's names */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *block);
/* NOLINTEND(bugprone-reserved-identifier) */

static void *take(size_t size, size_t align)
{
	bool is_zero;
	void *block = size >= SAL_BLOCK_MIN ? sal_heap_take(size, align, &is_zero) : NULL;

	if (block)
		return block;
	return align <= _Alignof(max_align_t) ? __libc_malloc(size) : __libc_memalign(align, size);
}

void *malloc(size_t size)
{
	return take(size, 1);
}

void free(void *block)
{
	int before = errno;

	if (sal_heap_owns(block))
		sal_heap_give(block);
	else
		__libc_free(block);
	errno = before; /* callers may read an errno from before */
}

void *calloc(size_t count, size_t size)
{
	size_t bytes;
	bool is_zero;
	void *block = NULL;

	if (!__builtin_mul_overflow(count, size, &bytes) && bytes >= SAL_BLOCK_MIN)
		block = sal_heap_take(bytes, 1, &is_zero);
	if (!block)
		return __libc_calloc(count, size);
	return is_zero ? block : memset(block, 0, bytes);
}

/* A block changes hands: it was the heap's, or becomes the heap's. */
static void *move(void *block, size_t had, size_t size)
{
	void *to = malloc(size);

	if (!to)
		return NULL;
	memcpy(to, block, had < size ? had : size);
	free(block);
	return to;
}

void *realloc(void *block, size_t size)
{
	size_t had;

	if (!block)
		return malloc(size);
	if (!sal_heap_owns(block)) {
		had = size >= SAL_BLOCK_MIN && sal_heap_is_on() ? malloc_usable_size(block) : 0;
		return had ? move(block, had, size) : __libc_realloc(block, size);
	}
	had = sal_heap_size(block);
	if (size <= had && size >= had / 2 && size > 0)
		return block;
	if (size == 0) {
		free(block);
		return NULL;
	}
	return move(block, had, size);
}

static bool is_power_of_two(size_t n)
{
	return n > 0 && (n & (n - 1)) == 0;
}

int posix_memalign(void **out_block, size_t align, size_t size)
{
	void *block;

	if (!is_power_of_two(align) || align % sizeof(void *))
		return EINVAL;
	block = take(size, align);
	if (!block)
		return ENOMEM;
	*out_block = block;
	return 0;
}

void *memalign(size_t align, size_t size)
{
	return is_power_of_two(align) ? take(size, align) : __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

void *valloc(size_t size)
{
	return take(size, SAL_PAGE_BYTES);
}

void *pvalloc(size_t size)
{
	return take((size + SAL_PAGE_BYTES - 1) / SAL_PAGE_BYTES * SAL_PAGE_BYTES, SAL_PAGE_BYTES);
}

/* The C library has no second name for this one. */
size_t malloc_usable_size(void *block)
{
	typedef size_t usable_size_fn(void *);
	static usable_size_fn *_Atomic next;
	usable_size_fn *usable = next;

	if (!block || sal_heap_owns(block))
		return block ? sal_heap_size(block) : 0;
	if (!usable)
		next = usable = (usable_size_fn *)dlsym(RTLD_NEXT, "malloc_usable_size");
	return usable ? usable(block) : 0;
}
