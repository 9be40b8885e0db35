/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the heap that decides which free pages stay in memory for the next block, and gives
 * the others back to the system.
 */
#include <sys/mman.h>

#include "heap/heap_impl.h"

/* So many pages go back at once: fewer are not worth a system call. */
#define CHILL_PAGES_MIN 64u

void sal_heap_keep(uint64_t bytes)
{
	atomic_store_explicit(&sal_heap_state.keep, bytes, memory_order_relaxed);
}

void sal_heap_limit(uint64_t bytes)
{
	atomic_store_explicit(&sal_heap_state.limit, bytes, memory_order_relaxed);
}

/* A used span in which nobody is interested: its pages go back. Under the lock, which it releases. */
void sal_heap_chill(uint32_t span)
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
void sal_heap_count_warm(uint32_t span, uint64_t bytes, bool comes)
{
	struct sal_heap_range *range = sal_heap_range(span);

	sal_heap_state.warm = comes ? sal_heap_state.warm + bytes : sal_heap_state.warm - bytes;
	atomic_store_explicit(&range->warm, comes ? range->warm + bytes : range->warm - bytes,
			      memory_order_relaxed);
	if (sal_heap_is_in_main(span))
		return;
	sal_heap_count_in_lanes(bytes, comes);
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
	sal_heap_count_warm(span, sal_heap_span_bytes(span), false);
	sal_heap_chill(span);
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

/*
 * There is room for so many warm pages. A lane's own are bounded by its size. The main range may
 * keep what the lanes leave: what is in use there now will be warm at the end of the iteration.
 * Under the lock.
 */
static bool may_be_warm(uint32_t span)
{
	const struct sal_heap_range *range = sal_heap_range(span);
	uint64_t bytes = sal_heap_span_bytes(span);

	if (!sal_heap_is_in_main(span))
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

/*
 * The last scratch is what the next iteration needs. So other warm pages of its lane give way to a
 * block that becomes free; and if the lane became larger, arrays of the past do. Under the lock,
 * which it may release.
 */
void sal_heap_prefer_scratch(uint32_t span)
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
