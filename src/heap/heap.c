/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/heap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap/heap_impl.h"

/* Addresses cost nothing: the range has some times the memory of the machine. */
#define RANGE_TIMES 4
#define RANGE_PAGES_MIN (UINT32_C(16) << 18) /* 16 GiB */
#define RANGE_PAGES_MAX (UINT32_C(1) << 30) /* 4 TiB */
#define SPANS_MAX (UINT32_C(1) << 21)

struct sal_heap_state sal_heap_state = { .lock = PTHREAD_MUTEX_INITIALIZER, .limit = UINT64_MAX };

bool sal_heap_start(void)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES) * RANGE_TIMES;
	size_t bytes;
	void *base;

	pages = pages < RANGE_PAGES_MIN ? RANGE_PAGES_MIN : pages;
	pages = pages > RANGE_PAGES_MAX ? RANGE_PAGES_MAX : pages;
	if (sysconf(_SC_PAGESIZE) != SAL_PAGE_BYTES || sal_heap_state.range_bytes)
		return sal_heap_state.range_bytes > 0;
	bytes = (size_t)pages * SAL_PAGE_BYTES;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return false;
	if (!sal_pages_init(&sal_heap_state.pages, (uint32_t)pages, SPANS_MAX)) {
		(void)munmap(base, bytes);
		return false;
	}
	sal_heap_state.base = base;
	sal_heap_state.range_bytes = bytes;
	return true;
}

bool sal_heap_is_on(void)
{
	return sal_heap_state.range_bytes > 0;
}

void sal_heap_keep(uint64_t bytes)
{
	atomic_store_explicit(&sal_heap_state.keep, bytes, memory_order_relaxed);
}

void sal_heap_limit(uint64_t bytes)
{
	atomic_store_explicit(&sal_heap_state.limit, bytes, memory_order_relaxed);
}

bool sal_heap_owns(const void *at)
{
	return (size_t)((const char *)at - sal_heap_state.base) < sal_heap_state.range_bytes;
}

/* Under the lock. */
static void count(uint32_t span, bool comes)
{
	uint64_t *sum = sal_heap_state.pages.spans[span].meter ? &sal_heap_state.metered
							       : &sal_heap_state.own;

	*sum = comes ? *sum + sal_heap_span_bytes(span) : *sum - sal_heap_span_bytes(span);
	if (sal_heap_state.metered + sal_heap_state.warm > sal_heap_state.metered_peak)
		sal_heap_state.metered_peak = sal_heap_state.metered + sal_heap_state.warm;
}

/* A used span in which nobody is interested: its pages go back. Under the lock, which it releases. */
static void chill(uint32_t span)
{
	void *at = sal_heap_span_at(span);
	size_t size = (size_t)sal_heap_span_bytes(span);

	sal_heap_state.pages.spans[span].is_empty = true; /* nobody counts it meanwhile */
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	(void)madvise(at, size, MADV_DONTNEED);
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	sal_pages_give(&sal_heap_state.pages, span, SAL_SPAN_COLD);
}

/* Under the lock, which it releases. False: no private page is warm. */
bool sal_heap_chill_private(void)
{
	uint32_t span = sal_pages_largest(&sal_heap_state.pages, SAL_SPAN_WARM);

	if (!span)
		return false;
	sal_heap_state.warm -= sal_heap_span_bytes(span);
	sal_pages_take_span(&sal_heap_state.pages, span);
	chill(span);
	return true;
}

/* Under the lock, which it releases. False: nothing is warm. */
bool sal_heap_chill_one(void)
{
	return sal_heap_chill_private() || sal_heap_chill_exposed(SAL_NO_METER);
}

void sal_heap_trim(uint64_t left_bytes)
{
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	while (sal_heap_state.warm > left_bytes && sal_heap_chill_one())
		;
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

/* Under the lock, which it may release. */
static uint32_t take_span(uint32_t pages, uint32_t align, bool is_metered, bool *out_is_cold)
{
	uint32_t span = sal_pages_take(&sal_heap_state.pages, pages, align, SAL_SPAN_WARM);

	*out_is_cold = !span;
	if (span) {
		sal_heap_state.warm -= sal_heap_span_bytes(span);
		return span;
	}
	while (is_metered && !sal_heap_is_within((uint64_t)pages * SAL_PAGE_BYTES) &&
	       sal_heap_chill_one())
		;
	return sal_pages_take(&sal_heap_state.pages, pages, align, SAL_SPAN_COLD);
}

void *sal_heap_take(size_t bytes, size_t align, bool *out_is_zero)
{
	uint64_t pages = ((uint64_t)bytes + SAL_PAGE_BYTES - 1) / SAL_PAGE_BYTES;
	uint64_t align_pages = align > SAL_PAGE_BYTES ? align / SAL_PAGE_BYTES : 1;
	struct sal_payer payer;
	uint32_t span = SAL_NO_SPAN;
	void *at = NULL;

	*out_is_zero = false;
	if (!sal_heap_state.range_bytes || bytes > sal_heap_state.range_bytes ||
	    align > sal_heap_state.range_bytes)
		return NULL;
	payer = sal_payer_find();
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	if (sal_heap_is_wished(pages, align_pages, payer))
		span = sal_heap_take_exposed((uint32_t)pages, payer.meter, out_is_zero);
	if (!span)
		span = take_span((uint32_t)pages, (uint32_t)align_pages,
				 payer.meter != SAL_NO_METER, out_is_zero);
	if (span) {
		sal_heap_state.pages.spans[span].meter = payer.meter;
		sal_heap_state.pages.spans[span].run =
			sal_meter_add(payer, sal_heap_span_bytes(span));
		count(span, true);
		at = sal_heap_span_at(span);
	}
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	return at;
}

/* Under the lock. SAL_NO_SPAN: no block starts there. */
static uint32_t find_span(const void *at)
{
	size_t offset = (size_t)((const char *)at - sal_heap_state.base);

	return offset % SAL_PAGE_BYTES
		       ? SAL_NO_SPAN
		       : sal_pages_find(&sal_heap_state.pages, (uint32_t)(offset / SAL_PAGE_BYTES));
}

/* Its pages may stay: there is room for so many warm ones. Under the lock. */
bool sal_heap_may_stay(uint32_t span)
{
	return sal_heap_state.warm + sal_heap_span_bytes(span) <=
		       atomic_load_explicit(&sal_heap_state.keep, memory_order_relaxed) &&
	       sal_heap_is_within(
		       sal_heap_state.pages.spans[span].meter ? 0 : sal_heap_span_bytes(span));
}

/* Under the lock. */
void sal_heap_uncount(uint32_t index)
{
	const struct sal_span *span = &sal_heap_state.pages.spans[index];

	sal_meter_remove(span->meter, span->run, sal_heap_span_bytes(index));
	count(index, false);
}

static void give_private(uint32_t span)
{
	bool stays = sal_heap_may_stay(span);

	sal_heap_uncount(span);
	if (stays) {
		sal_heap_state.warm += sal_heap_span_bytes(span);
		sal_pages_give(&sal_heap_state.pages, span, SAL_SPAN_WARM);
	} else {
		chill(span);
	}
}

void sal_heap_give(void *block)
{
	const struct sal_span *span;
	uint32_t index;

	(void)pthread_mutex_lock(&sal_heap_state.lock);
	index = find_span(block);
	span = &sal_heap_state.pages.spans[index];
	if (!index || (span->exposed && span->is_empty))
		__builtin_trap(); /* the vendor frees what it does not have */
	if (span->is_empty)
		sal_pages_give(&sal_heap_state.pages, index, SAL_SPAN_COLD);
	else if (span->exposed)
		sal_heap_give_exposed(index);
	else
		give_private(index);
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

size_t sal_heap_size(const void *block)
{
	uint32_t span;
	size_t size;

	(void)pthread_mutex_lock(&sal_heap_state.lock);
	span = find_span(block);
	size = span ? (size_t)sal_heap_span_bytes(span) : 0;
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	return size;
}

/* Under the lock. The span is the whole block, or the block has a larger part elsewhere. */
uint32_t sal_heap_find(const void *bytes)
{
	return sal_heap_owns(bytes) ? find_span(bytes) : SAL_NO_SPAN;
}

/* Under the lock. No run counts it. */
void sal_heap_count_again(uint32_t index)
{
	struct sal_span *span = &sal_heap_state.pages.spans[index];

	span->run = sal_meter_add(sal_payer_for(span->meter, false), sal_heap_span_bytes(index));
	count(index, true);
}

void sal_heap_empty(void *bytes, size_t size)
{
	uintptr_t from = ((uintptr_t)bytes + SAL_PAGE_BYTES - 1) / SAL_PAGE_BYTES * SAL_PAGE_BYTES;
	uintptr_t to = ((uintptr_t)bytes + size) / SAL_PAGE_BYTES * SAL_PAGE_BYTES;
	uint32_t index;

	if (sal_heap_empty_exposed(bytes))
		return;
	if (from < to)
		(void)madvise((void *)from, to - from, MADV_DONTNEED);
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	index = sal_heap_find(bytes);
	if (index && !sal_heap_state.pages.spans[index].is_empty) {
		sal_heap_uncount(index);
		sal_heap_state.pages.spans[index].is_empty = true;
	}
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

void sal_heap_fill(void *bytes, size_t size)
{
	uint32_t index;

	(void)pthread_mutex_lock(&sal_heap_state.lock);
	index = sal_heap_find(bytes);
	if (index && sal_heap_state.pages.spans[index].is_empty) {
		struct sal_span *span = &sal_heap_state.pages.spans[index];

		while (span->meter && !sal_heap_is_within(size) && sal_heap_chill_one())
			;
		sal_heap_count_again(index);
		span->is_empty = false;
	}
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

void sal_heap_pay(void *block, struct sal_payer payer)
{
	uint32_t index;

	(void)pthread_mutex_lock(&sal_heap_state.lock);
	index = sal_heap_find(block);
	if (index && !sal_heap_state.pages.spans[index].is_empty) {
		struct sal_span *span = &sal_heap_state.pages.spans[index];

		if (span->exposed && span->meter != payer.meter)
			sal_heap_state.exposures.all[span->exposed].is_orphan = true;
		sal_heap_uncount(index);
		span->meter = payer.meter;
		sal_heap_count_again(index);
	}
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

struct sal_heap_view sal_heap_view(void)
{
	struct sal_heap_view view;

	(void)pthread_mutex_lock(&sal_heap_state.lock);
	view = (struct sal_heap_view){ .metered = sal_heap_state.metered,
				       .own = sal_heap_state.own,
				       .warm = sal_heap_state.warm,
				       .metered_peak = sal_heap_state.metered_peak,
				       .exposed = sal_heap_state.exposed_bytes };
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	return view;
}

bool sal_heap_check(void)
{
	uint64_t used = 0, warm = 0;
	uint32_t i;
	bool is_right;

	(void)pthread_mutex_lock(&sal_heap_state.lock);
	is_right = !sal_heap_state.range_bytes ||
		   (sal_pages_check(&sal_heap_state.pages) && sal_heap_exposures_check(&warm));
	for (i = 1; i < sal_heap_state.pages.span_count && is_right; i++) {
		const struct sal_span *s = &sal_heap_state.pages.spans[i];

		used += s->state == SAL_SPAN_USED && !s->is_empty ? sal_heap_span_bytes(i) : 0;
		warm += s->state == SAL_SPAN_WARM ? sal_heap_span_bytes(i) : 0;
	}
	is_right = is_right && used == sal_heap_state.metered + sal_heap_state.own &&
		   warm == sal_heap_state.warm;
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	return is_right;
}
