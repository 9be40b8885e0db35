/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/heap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap/heap_impl.h"

/* Addresses cost nothing: the main range has some times the memory of the machine, a lane all. */
#define MAIN_TIMES 4
#define MEMORY_PAGES_MIN (UINT32_C(1) << 18) /* 1 GiB */
#define MEMORY_PAGES_MAX ((UINT32_C(1) << 31) / (MAIN_TIMES + SAL_HEAP_LANES)) /* 8 TiB in all */
#define SPANS_MAX (UINT32_C(1) << 21)

_Static_assert(SAL_RANGES_MAX == 1 + SAL_HEAP_LANES, "each lane has a range");

struct sal_heap_state sal_heap_state = { .lock = PTHREAD_MUTEX_INITIALIZER, .limit = UINT64_MAX };

static uint64_t memory_pages(void)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);

	pages = pages < MEMORY_PAGES_MIN ? MEMORY_PAGES_MIN : pages;
	return pages > MEMORY_PAGES_MAX ? MEMORY_PAGES_MAX : pages;
}

/* The ranges for a machine with so many pages; and how many bytes they have together. */
static struct sal_pages_plan plan_for(uint64_t pages, size_t *out_bytes)
{
	*out_bytes = (size_t)pages * (MAIN_TIMES + SAL_HEAP_LANES) * SAL_PAGE_BYTES;
	return (struct sal_pages_plan){ .main_pages = (uint32_t)pages * MAIN_TIMES,
					.other_pages = (uint32_t)pages,
					.others = SAL_HEAP_LANES,
					.span_max = SPANS_MAX };
}

/* A system may allow fewer addresses: then the ranges are smaller. NULL: it allows too few. */
static void *reserve(struct sal_pages_plan *out_ranges, size_t *out_bytes)
{
	uint64_t pages;
	void *base;

	for (pages = memory_pages(); pages >= MEMORY_PAGES_MIN; pages /= 2) {
		*out_ranges = plan_for(pages, out_bytes);
		base = mmap(NULL, *out_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (base != MAP_FAILED)
			return base;
	}
	return NULL;
}

bool sal_heap_start(void)
{
	struct sal_pages_plan ranges;
	size_t bytes;
	void *base;

	if (sysconf(_SC_PAGESIZE) != SAL_PAGE_BYTES || sal_heap_state.range_bytes)
		return sal_heap_state.range_bytes > 0;
	base = reserve(&ranges, &bytes);
	if (!base)
		return false;
	if (!sal_heap_late_init() || !sal_pages_init(&sal_heap_state.pages, &ranges)) {
		(void)munmap(base, bytes);
		return false;
	}
	for (uint32_t i = 0; i < SAL_HEAP_LANES; i++)
		sal_heap_state.lane_ranges[i] = 1 + i;
	sal_heap_state.base = base;
	sal_heap_state.range_bytes = bytes;
	return true;
}

bool sal_heap_is_on(void)
{
	return sal_heap_state.range_bytes > 0;
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
	uint64_t *used = &sal_heap_range(span)->used;

	*sum = comes ? *sum + sal_heap_span_bytes(span) : *sum - sal_heap_span_bytes(span);
	*used = comes ? *used + sal_heap_span_bytes(span) : *used - sal_heap_span_bytes(span);
	if (!sal_heap_is_in_main(span))
		sal_heap_count_in_lanes(sal_heap_span_bytes(span), comes);
	if (sal_heap_state.metered + sal_heap_state.warm > sal_heap_state.metered_peak)
		sal_heap_state.metered_peak = sal_heap_state.metered + sal_heap_state.warm;
}

/* In the main range. Under the lock, which it may release. */
static uint32_t take_lasting(uint32_t pages, uint32_t align, bool is_metered, bool *out_is_cold)
{
	struct sal_pages *p = &sal_heap_state.pages;
	uint32_t span = sal_pages_take(p, SAL_MAIN_RANGE, pages, align, SAL_SPAN_WARM);

	*out_is_cold = !span;
	if (span) {
		sal_heap_count_warm(span, sal_heap_span_bytes(span), false);
		return span;
	}
	if (is_metered)
		sal_heap_make_room((uint64_t)pages * SAL_PAGE_BYTES);
	return sal_pages_take(p, SAL_MAIN_RANGE, pages, align, SAL_SPAN_COLD);
}

/*
 * At the lowest address of the lane's range where there is room. SAL_NO_SPAN: the range has no
 * addresses left, or too many blocks. Under the lock, which it may release.
 */
static uint32_t take_scratch(uint32_t range, uint32_t pages, uint32_t align, bool *out_is_cold)
{
	uint32_t warm,
		span = sal_pages_take_lowest(&sal_heap_state.pages, range, pages, align, &warm);
	struct sal_span *s = &sal_heap_state.pages.spans[span];

	*out_is_cold = !warm;
	if (!span)
		return SAL_NO_SPAN;
	sal_heap_count_warm(span, (uint64_t)warm * SAL_PAGE_BYTES, false);
	s->is_empty = true; /* nobody counts it meanwhile */
	sal_heap_make_room(sal_heap_span_bytes(span));
	s->is_empty = false;
	return span;
}

void *sal_heap_take(size_t bytes, size_t align, bool *out_is_zero)
{
	uint64_t pages = ((uint64_t)bytes + SAL_PAGE_BYTES - 1) / SAL_PAGE_BYTES;
	uint64_t align_pages = align > SAL_PAGE_BYTES ? align / SAL_PAGE_BYTES : 1;
	struct sal_payer payer;
	uint32_t span = SAL_NO_SPAN, range;
	void *at = NULL;

	*out_is_zero = false;
	if (!sal_heap_state.range_bytes || bytes > sal_heap_state.range_bytes ||
	    align > sal_heap_state.range_bytes)
		return NULL;
	payer = sal_payer_find();
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	range = sal_heap_range_for(payer, (uint32_t)pages);
	if (payer.meter != SAL_NO_METER)
		sal_heap_await_late(pages * SAL_PAGE_BYTES);
	if (sal_heap_is_wished(pages, align_pages, payer))
		span = sal_heap_take_exposed((uint32_t)pages, payer.meter, out_is_zero);
	if (!span && range != SAL_MAIN_RANGE)
		span = take_scratch(range, (uint32_t)pages, (uint32_t)align_pages, out_is_zero);
	if (!span)
		span = take_lasting((uint32_t)pages, (uint32_t)align_pages,
				    payer.meter != SAL_NO_METER, out_is_zero);
	if (span) {
		sal_heap_state.pages.spans[span].meter = payer.meter;
		sal_heap_state.pages.spans[span].begin = sal_heap_range(span)->begins;
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

/* Under the lock. */
void sal_heap_uncount(uint32_t index)
{
	const struct sal_span *span = &sal_heap_state.pages.spans[index];

	sal_meter_remove(span->meter, span->run, sal_heap_span_bytes(index));
	count(index, false);
}

/* Under the lock, which it may release. */
static void give_private(uint32_t span)
{
	bool stays;

	if (!sal_heap_is_in_main(span))
		sal_heap_prefer_scratch(span);
	stays = sal_heap_may_stay(span);
	sal_heap_uncount(span);
	if (stays) {
		sal_heap_count_warm(span, sal_heap_span_bytes(span), true);
		sal_pages_give(&sal_heap_state.pages, span, SAL_SPAN_WARM);
	} else {
		sal_heap_chill(span);
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
	sal_heap_late_tell();
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

		if (span->meter)
			sal_heap_make_room(size);
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

/* Under the lock: the sums of a range, and what all ranges have. */
static bool range_is_right(uint32_t range, uint64_t *used, uint64_t *warm)
{
	const struct sal_pages *p = &sal_heap_state.pages;
	uint64_t used_here = 0, warm_here = 0;
	uint32_t i;

	for (i = sal_pages_first(p, range); i && sal_pages_range(p, i) == range;
	     i = p->spans[i].after) {
		const struct sal_span *s = &p->spans[i];

		used_here += s->state == SAL_SPAN_USED && !s->is_empty ? sal_heap_span_bytes(i) : 0;
		warm_here += s->state == SAL_SPAN_WARM ? sal_heap_span_bytes(i) : 0;
	}
	*used += used_here;
	*warm += warm_here;
	return used_here == sal_heap_state.ranges[range].used &&
	       warm_here == sal_heap_state.ranges[range].warm;
}

bool sal_heap_check(void)
{
	uint64_t used = 0, warm = 0;
	uint32_t i;
	bool is_right;

	(void)pthread_mutex_lock(&sal_heap_state.lock);
	is_right = !sal_heap_state.range_bytes ||
		   (sal_pages_check(&sal_heap_state.pages) && sal_heap_exposures_check(&warm));
	for (i = 0; i < SAL_RANGES_MAX && sal_heap_state.range_bytes && is_right; i++)
		is_right = range_is_right(i, &used, &warm);
	is_right = is_right && used == sal_heap_state.metered + sal_heap_state.own &&
		   warm == sal_heap_state.warm;
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	return is_right;
}
