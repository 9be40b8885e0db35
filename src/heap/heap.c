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
/* So many pages go back at once: fewer are not worth a system call. */
#define CHILL_PAGES_MIN 64u

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
	if (!sal_pages_init(&sal_heap_state.pages, &ranges)) {
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

static bool is_in_main(uint32_t span)
{
	return sal_pages_range(&sal_heap_state.pages, span) == SAL_MAIN_RANGE;
}

/* Pages of a lane come to be in memory, or are not any more. Under the lock. */
static void count_in_lanes(uint64_t bytes, bool comes)
{
	uint64_t *sum = &sal_heap_state.lanes_bytes;

	*sum = comes ? *sum + bytes : *sum - bytes;
}

/* Under the lock. */
static void count(uint32_t span, bool comes)
{
	uint64_t *sum = sal_heap_state.pages.spans[span].meter ? &sal_heap_state.metered
							       : &sal_heap_state.own;
	uint64_t *used = &sal_heap_range(span)->used;

	*sum = comes ? *sum + sal_heap_span_bytes(span) : *sum - sal_heap_span_bytes(span);
	*used = comes ? *used + sal_heap_span_bytes(span) : *used - sal_heap_span_bytes(span);
	if (!is_in_main(span))
		count_in_lanes(sal_heap_span_bytes(span), comes);
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

/* So many bytes of the span's range become warm, or are not warm any more. Under the lock. */
static void count_warm(uint32_t span, uint64_t bytes, bool comes)
{
	struct sal_heap_range *range = sal_heap_range(span);

	sal_heap_state.warm = comes ? sal_heap_state.warm + bytes : sal_heap_state.warm - bytes;
	atomic_store_explicit(&range->warm, comes ? range->warm + bytes : range->warm - bytes,
			      memory_order_relaxed);
	if (is_in_main(span))
		return;
	count_in_lanes(bytes, comes);
	sal_heap_state.lanes_warm = comes ? sal_heap_state.lanes_warm + bytes
					  : sal_heap_state.lanes_warm - bytes;
}

/* Under the lock, which it releases. */
bool sal_heap_chill_range(uint32_t range, uint64_t bytes)
{
	uint64_t pages = (bytes + SAL_PAGE_BYTES - 1) / SAL_PAGE_BYTES;
	uint32_t span = range == SAL_MAIN_RANGE
				? sal_pages_largest(&sal_heap_state.pages, range, SAL_SPAN_WARM)
				: sal_pages_last_warm(&sal_heap_state.pages, range);

	if (!span)
		return false;
	pages = pages < CHILL_PAGES_MIN ? CHILL_PAGES_MIN : pages;
	span = sal_pages_take_end(&sal_heap_state.pages, span,
				  pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX);
	count_warm(span, sal_heap_span_bytes(span), false);
	chill(span);
	return true;
}

/* The range with the most warm bytes, or with the most beyond what it may keep; 0 bytes: none. */
static uint32_t find_warmest(bool is_beyond, uint64_t *out_bytes)
{
	uint32_t found = SAL_MAIN_RANGE, i;

	*out_bytes = 0;
	for (i = 0; i < SAL_RANGES_MAX; i++) {
		const struct sal_heap_range *range = &sal_heap_state.ranges[i];
		uint64_t kept = !is_beyond	      ? 0
				: i == SAL_MAIN_RANGE ? UINT64_MAX
						      : sal_heap_warm_max(range);

		if (range->warm > kept && range->warm - kept > *out_bytes) {
			found = i;
			*out_bytes = range->warm - kept;
		}
	}
	return found;
}

/* Under the lock, which it releases. False: no private page is warm, or none is too many. */
static bool chill_warmest(bool is_beyond, uint64_t bytes)
{
	uint64_t there;
	uint32_t range = find_warmest(is_beyond, &there);

	return there > 0 && sal_heap_chill_range(range, there < bytes ? there : bytes);
}

/* Under the lock, which it releases. False: nothing is warm. */
bool sal_heap_chill_some(uint64_t bytes)
{
	return chill_warmest(true, bytes) || sal_heap_chill_range(SAL_MAIN_RANGE, bytes) ||
	       chill_warmest(false, bytes) || sal_heap_chill_exposed(SAL_NO_METER);
}

/* Under the lock, which it may release. Warm pages go until there is room for so many bytes more. */
void sal_heap_make_room(uint64_t more_bytes)
{
	uint64_t beyond = sal_heap_beyond(more_bytes);

	while (beyond > 0 && sal_heap_chill_some(beyond))
		beyond = sal_heap_beyond(more_bytes);
}

void sal_heap_trim(uint64_t left_bytes)
{
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	while (sal_heap_state.warm > left_bytes &&
	       sal_heap_chill_some(sal_heap_state.warm - left_bytes))
		;
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

/* In the main range. Under the lock, which it may release. */
static uint32_t take_lasting(uint32_t pages, uint32_t align, bool is_metered, bool *out_is_cold)
{
	struct sal_pages *p = &sal_heap_state.pages;
	uint32_t span = sal_pages_take(p, SAL_MAIN_RANGE, pages, align, SAL_SPAN_WARM);

	*out_is_cold = !span;
	if (span) {
		count_warm(span, sal_heap_span_bytes(span), false);
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
	count_warm(span, (uint64_t)warm * SAL_PAGE_BYTES, false);
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

/*
 * There is room for so many warm pages. A lane's own are bounded by its size. The main range may
 * keep what the lanes leave: what is in use there now will be warm at the end of the iteration.
 * Under the lock.
 */
static bool may_be_warm(uint32_t span)
{
	const struct sal_heap_range *range = sal_heap_range(span);
	uint64_t bytes = sal_heap_span_bytes(span);

	if (!is_in_main(span))
		return range->warm + bytes <= sal_heap_warm_max(range);
	return sal_heap_state.warm - sal_heap_state.lanes_warm + sal_heap_state.lanes_bytes +
		       bytes <=
	       atomic_load_explicit(&sal_heap_state.keep, memory_order_relaxed);
}

/* Its pages may stay. Under the lock. */
bool sal_heap_may_stay(uint32_t span)
{
	return may_be_warm(span) && sal_heap_is_within(sal_heap_state.pages.spans[span].meter
							       ? 0
							       : sal_heap_span_bytes(span));
}

/* Under the lock. */
void sal_heap_uncount(uint32_t index)
{
	const struct sal_span *span = &sal_heap_state.pages.spans[index];

	sal_meter_remove(span->meter, span->run, sal_heap_span_bytes(index));
	count(index, false);
}

/*
 * The last scratch is what the next iteration needs. So other warm pages of its lane give way to a
 * block that becomes free; and if the lane became larger, arrays of the past do. Under the lock,
 * which it may release.
 */
static void prefer_scratch(uint32_t span)
{
	const struct sal_heap_range *range = sal_heap_range(span);
	uint32_t index = sal_pages_range(&sal_heap_state.pages, span);
	uint64_t bytes = sal_heap_span_bytes(span), max = sal_heap_warm_max(range), all;

	while (bytes <= max && range->warm + bytes > max &&
	       sal_heap_chill_range(index, range->warm + bytes - max))
		;
	for (;;) {
		all = sal_heap_state.warm + bytes;
		if (!may_be_warm(span) || all <= sal_heap_state.keep ||
		    !(chill_warmest(true, all - sal_heap_state.keep) ||
		      sal_heap_chill_range(SAL_MAIN_RANGE, all - sal_heap_state.keep)))
			break;
	}
}

/* Under the lock, which it may release. */
static void give_private(uint32_t span)
{
	bool stays;

	if (!is_in_main(span))
		prefer_scratch(span);
	stays = sal_heap_may_stay(span);
	sal_heap_uncount(span);
	if (stays) {
		count_warm(span, sal_heap_span_bytes(span), true);
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
