/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/heap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap/pages.h"

/* Addresses cost nothing: the range has some times the memory of the machine. */
#define RANGE_TIMES 4
#define RANGE_PAGES_MIN (UINT32_C(16) << 18) /* 16 GiB */
#define RANGE_PAGES_MAX (UINT32_C(1) << 30) /* 4 TiB */
#define SPANS_MAX (UINT32_C(1) << 21)

static struct {
	pthread_mutex_t lock;
	char *base; /* set once, before other threads start */
	size_t range_bytes; /* 0: the heap is off */
	_Atomic uint64_t keep, limit;
	/* under the lock */
	struct sal_pages pages;
	uint64_t metered, own, warm, metered_peak;
} heap = { .lock = PTHREAD_MUTEX_INITIALIZER, .limit = UINT64_MAX };

static uint64_t bytes_of(uint32_t span)
{
	return (uint64_t)heap.pages.spans[span].count * SAL_PAGE_BYTES;
}

static void *address_of(uint32_t span)
{
	return heap.base + (size_t)heap.pages.spans[span].page * SAL_PAGE_BYTES;
}

bool sal_heap_start(void)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES) * RANGE_TIMES;
	size_t bytes;
	void *base;

	pages = pages < RANGE_PAGES_MIN ? RANGE_PAGES_MIN : pages;
	pages = pages > RANGE_PAGES_MAX ? RANGE_PAGES_MAX : pages;
	if (sysconf(_SC_PAGESIZE) != SAL_PAGE_BYTES || heap.range_bytes)
		return heap.range_bytes > 0;
	bytes = (size_t)pages * SAL_PAGE_BYTES;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return false;
	if (!sal_pages_init(&heap.pages, (uint32_t)pages, SPANS_MAX)) {
		(void)munmap(base, bytes);
		return false;
	}
	heap.base = base;
	heap.range_bytes = bytes;
	return true;
}

bool sal_heap_is_on(void)
{
	return heap.range_bytes > 0;
}

void sal_heap_keep(uint64_t bytes)
{
	atomic_store_explicit(&heap.keep, bytes, memory_order_relaxed);
}

void sal_heap_limit(uint64_t bytes)
{
	atomic_store_explicit(&heap.limit, bytes, memory_order_relaxed);
}

bool sal_heap_owns(const void *at)
{
	return (size_t)((const char *)at - heap.base) < heap.range_bytes;
}

/* Under the lock. */
static void count(uint32_t span, bool comes)
{
	uint64_t *sum = heap.pages.spans[span].meter ? &heap.metered : &heap.own;

	*sum = comes ? *sum + bytes_of(span) : *sum - bytes_of(span);
	if (heap.metered + heap.warm > heap.metered_peak)
		heap.metered_peak = heap.metered + heap.warm;
}

/* A used span in which nobody is interested: its pages go back. Under the lock, which it releases. */
static void chill(uint32_t span)
{
	void *at = address_of(span);
	size_t size = (size_t)bytes_of(span);

	heap.pages.spans[span].is_empty = true; /* nobody counts it meanwhile */
	(void)pthread_mutex_unlock(&heap.lock);
	(void)madvise(at, size, MADV_DONTNEED);
	(void)pthread_mutex_lock(&heap.lock);
	sal_pages_give(&heap.pages, span, SAL_SPAN_COLD);
}

/* Under the lock, which it releases. False: nothing is warm. */
static bool chill_one(void)
{
	uint32_t span = sal_pages_largest(&heap.pages, SAL_SPAN_WARM);

	if (!span)
		return false;
	heap.warm -= bytes_of(span);
	sal_pages_take_span(&heap.pages, span);
	chill(span);
	return true;
}

void sal_heap_trim(uint64_t left_bytes)
{
	(void)pthread_mutex_lock(&heap.lock);
	while (heap.warm > left_bytes && chill_one())
		;
	(void)pthread_mutex_unlock(&heap.lock);
}

static bool is_within_limit(uint64_t more_bytes)
{
	return heap.metered + heap.warm + more_bytes <=
	       atomic_load_explicit(&heap.limit, memory_order_relaxed);
}

/* Under the lock, which it may release. */
static uint32_t take_span(uint32_t pages, uint32_t align, bool is_metered, bool *out_is_cold)
{
	uint32_t span = sal_pages_take(&heap.pages, pages, align, SAL_SPAN_WARM);

	*out_is_cold = !span;
	if (span) {
		heap.warm -= bytes_of(span);
		return span;
	}
	while (is_metered && !is_within_limit((uint64_t)pages * SAL_PAGE_BYTES) && chill_one())
		;
	return sal_pages_take(&heap.pages, pages, align, SAL_SPAN_COLD);
}

void *sal_heap_take(size_t bytes, size_t align, bool *out_is_zero)
{
	uint64_t pages = ((uint64_t)bytes + SAL_PAGE_BYTES - 1) / SAL_PAGE_BYTES;
	uint64_t align_pages = align > SAL_PAGE_BYTES ? align / SAL_PAGE_BYTES : 1;
	struct sal_payer payer;
	uint32_t span;
	void *at = NULL;

	*out_is_zero = false;
	if (!heap.range_bytes || bytes > heap.range_bytes || align > heap.range_bytes)
		return NULL;
	payer = sal_payer_find();
	(void)pthread_mutex_lock(&heap.lock);
	span = take_span((uint32_t)pages, (uint32_t)align_pages, payer.meter != SAL_NO_METER,
			 out_is_zero);
	if (span) {
		heap.pages.spans[span].meter = payer.meter;
		heap.pages.spans[span].run = sal_meter_add(payer, bytes_of(span));
		count(span, true);
		at = address_of(span);
	}
	(void)pthread_mutex_unlock(&heap.lock);
	return at;
}

/* Under the lock. SAL_NO_SPAN: no block starts there. */
static uint32_t find_span(const void *at)
{
	size_t offset = (size_t)((const char *)at - heap.base);

	return offset % SAL_PAGE_BYTES
		       ? SAL_NO_SPAN
		       : sal_pages_find(&heap.pages, (uint32_t)(offset / SAL_PAGE_BYTES));
}

/* Its pages may stay: there is room for so many warm ones. Under the lock. */
static bool may_stay_warm(uint32_t span)
{
	return heap.warm + bytes_of(span) <=
		       atomic_load_explicit(&heap.keep, memory_order_relaxed) &&
	       is_within_limit(heap.pages.spans[span].meter ? 0 : bytes_of(span));
}

void sal_heap_give(void *block)
{
	uint32_t index;
	struct sal_span *span;

	(void)pthread_mutex_lock(&heap.lock);
	index = find_span(block);
	if (!index)
		__builtin_trap(); /* the vendor frees what it does not have */
	span = &heap.pages.spans[index];
	if (span->is_empty) {
		sal_pages_give(&heap.pages, index, SAL_SPAN_COLD);
	} else {
		bool stays = may_stay_warm(index);

		sal_meter_remove(span->meter, span->run, bytes_of(index));
		count(index, false);
		if (stays) {
			heap.warm += bytes_of(index);
			sal_pages_give(&heap.pages, index, SAL_SPAN_WARM);
		} else {
			chill(index);
		}
	}
	(void)pthread_mutex_unlock(&heap.lock);
}

size_t sal_heap_size(const void *block)
{
	uint32_t span;
	size_t size;

	(void)pthread_mutex_lock(&heap.lock);
	span = find_span(block);
	size = span ? (size_t)bytes_of(span) : 0;
	(void)pthread_mutex_unlock(&heap.lock);
	return size;
}

/* Under the lock. The span is the whole block, or the block has a larger part elsewhere. */
static uint32_t find_part(const void *bytes)
{
	return sal_heap_owns(bytes) ? find_span(bytes) : SAL_NO_SPAN;
}

void sal_heap_empty(void *bytes, size_t size)
{
	uintptr_t from = ((uintptr_t)bytes + SAL_PAGE_BYTES - 1) / SAL_PAGE_BYTES * SAL_PAGE_BYTES;
	uintptr_t to = ((uintptr_t)bytes + size) / SAL_PAGE_BYTES * SAL_PAGE_BYTES;
	uint32_t index;

	if (from < to)
		(void)madvise((void *)from, to - from, MADV_DONTNEED);
	(void)pthread_mutex_lock(&heap.lock);
	index = find_part(bytes);
	if (index && !heap.pages.spans[index].is_empty) {
		struct sal_span *span = &heap.pages.spans[index];

		sal_meter_remove(span->meter, span->run, bytes_of(index));
		count(index, false);
		span->is_empty = true;
	}
	(void)pthread_mutex_unlock(&heap.lock);
}

void sal_heap_fill(void *bytes, size_t size)
{
	uint32_t index;

	(void)pthread_mutex_lock(&heap.lock);
	index = find_part(bytes);
	if (index && heap.pages.spans[index].is_empty) {
		struct sal_span *span = &heap.pages.spans[index];

		while (span->meter && !is_within_limit(size) && chill_one())
			;
		span->run = sal_meter_add(sal_payer_for(span->meter, false), bytes_of(index));
		count(index, true);
		span->is_empty = false;
	}
	(void)pthread_mutex_unlock(&heap.lock);
}

void sal_heap_pay(void *block, struct sal_payer payer)
{
	uint32_t index;

	(void)pthread_mutex_lock(&heap.lock);
	index = find_part(block);
	if (index && !heap.pages.spans[index].is_empty) {
		struct sal_span *span = &heap.pages.spans[index];

		sal_meter_remove(span->meter, span->run, bytes_of(index));
		count(index, false);
		span->meter = payer.meter;
		span->run = sal_meter_add(sal_payer_for(payer.meter, false), bytes_of(index));
		count(index, true);
	}
	(void)pthread_mutex_unlock(&heap.lock);
}

struct sal_heap_view sal_heap_view(void)
{
	struct sal_heap_view view;

	(void)pthread_mutex_lock(&heap.lock);
	view = (struct sal_heap_view){ .metered = heap.metered,
				       .own = heap.own,
				       .warm = heap.warm,
				       .metered_peak = heap.metered_peak };
	(void)pthread_mutex_unlock(&heap.lock);
	return view;
}

bool sal_heap_check(void)
{
	uint64_t used = 0, warm = 0;
	uint32_t i;
	bool is_right;

	(void)pthread_mutex_lock(&heap.lock);
	is_right = !heap.range_bytes || sal_pages_check(&heap.pages);
	for (i = 1; i < heap.pages.span_count && is_right; i++) {
		const struct sal_span *s = &heap.pages.spans[i];

		used += s->state == SAL_SPAN_USED && !s->is_empty ? bytes_of(i) : 0;
		warm += s->state == SAL_SPAN_WARM ? bytes_of(i) : 0;
	}
	is_right = is_right && used == heap.metered + heap.own && warm == heap.warm;
	(void)pthread_mutex_unlock(&heap.lock);
	return is_right;
}
