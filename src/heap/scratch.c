/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the heap that gives each lane a range of its own. */
#include "heap/heap_impl.h"

/* The vendor may free a block a little after the run's end. Later than this, the block lasts. */
#define BEGINS_UNTIL_LASTING 4u
/* So many blocks of a lane are looked at when an iteration begins: others wait for the lock. */
#define LOOKED_AT_MAX 128u

static uint32_t range_of(uint32_t lane)
{
	return atomic_load_explicit(&sal_heap_state.lane_ranges[lane], memory_order_relaxed);
}

void sal_heap_keep_lane(uint32_t lane, uint64_t bytes, bool *out_has_more)
{
	struct sal_heap_range *range = &sal_heap_state.ranges[range_of(lane)];

	atomic_store_explicit(&range->keep, bytes, memory_order_relaxed);
	*out_has_more |= atomic_load_explicit(&range->warm, memory_order_relaxed) >
			 sal_heap_warm_max(range);
}

bool sal_heap_is_lasting(const struct sal_heap_range *range, const struct sal_span *span)
{
	return span->state == SAL_SPAN_USED && !span->is_empty &&
	       range->begins - span->begin >= BEGINS_UNTIL_LASTING;
}

/* Under the lock. */
static void learn_lasting(uint32_t index)
{
	const struct sal_heap_range *range = &sal_heap_state.ranges[index];
	const struct sal_pages *pages = &sal_heap_state.pages;
	uint32_t i, n = 0;

	for (i = sal_pages_first(pages, index);
	     i && sal_pages_range(pages, i) == index && n++ < LOOKED_AT_MAX;
	     i = pages->spans[i].after)
		if (sal_heap_is_lasting(range, &pages->spans[i]))
			sal_lasting_learn(&sal_heap_state.runs[pages->spans[i].meter].lasting,
					  pages->spans[i].count);
}

static bool is_empty(const struct sal_heap_range *range)
{
	return !range->is_running && range->used == 0;
}

/* Two lanes exchange their ranges, but not what they may keep. Under the lock. */
static void exchange(uint32_t lane, uint32_t other)
{
	uint32_t mine = range_of(lane), theirs = range_of(other);
	uint64_t keep = sal_heap_state.ranges[mine].keep;

	sal_heap_state.ranges[mine].keep = sal_heap_state.ranges[theirs].keep;
	sal_heap_state.ranges[theirs].keep = keep;
	sal_heap_state.lane_ranges[lane] = theirs;
	sal_heap_state.lane_ranges[other] = mine;
}

/*
 * The lane may keep more than is warm in its range, and another lane has more than it may keep: a
 * large session came here from there. Under the lock.
 */
static void find_warmer(uint32_t lane)
{
	const struct sal_heap_range *mine = &sal_heap_state.ranges[range_of(lane)];
	uint32_t found = lane, i;

	if (!is_empty(mine) || mine->warm >= mine->keep)
		return;
	for (i = 0; i < SAL_HEAP_LANES; i++) {
		const struct sal_heap_range *other = &sal_heap_state.ranges[range_of(i)];

		if (is_empty(other) && other->warm > sal_heap_warm_max(other) &&
		    other->warm > sal_heap_state.ranges[range_of(found)].warm)
			found = i;
	}
	if (found != lane)
		exchange(lane, found);
}

void sal_heap_begin(uint32_t meter, uint32_t lane, const struct sal_lasting_outputs *outputs)
{
	struct sal_heap_run *run = &sal_heap_state.runs[meter];
	struct sal_heap_range *range;

	if (!meter)
		return;
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	find_warmer(lane);
	run->range = range_of(lane);
	run->lasting.outputs = *outputs;
	range = &sal_heap_state.ranges[run->range];
	range->is_running = true;
	range->begins++;
	if (range->used > 0)
		learn_lasting(run->range);
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

void sal_heap_end(uint32_t meter)
{
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	sal_heap_state.ranges[sal_heap_state.runs[meter].range].is_running = false;
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

void sal_heap_begin_nested(uint32_t meter, const struct sal_lasting_outputs *outputs)
{
	if (!meter)
		return;
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	sal_lasting_join(&sal_heap_state.runs[meter].lasting, outputs);
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

uint32_t sal_heap_range_for(struct sal_payer payer, uint32_t pages)
{
	struct sal_heap_run *run = &sal_heap_state.runs[payer.meter];

	if (!payer.meter || !payer.is_run || sal_lasting_claim(&run->lasting, pages))
		return SAL_MAIN_RANGE;
	return run->range;
}

void sal_heap_settle(void)
{
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	for (uint32_t i = 1; i < SAL_RANGES_MAX; i++) {
		struct sal_heap_range *range = &sal_heap_state.ranges[i];

		while (range->warm > sal_heap_warm_max(range) &&
		       sal_heap_chill_range(i, range->warm - sal_heap_warm_max(range)))
			;
	}
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

struct sal_heap_lane sal_heap_lane(uint32_t lane)
{
	const struct sal_pages *pages = &sal_heap_state.pages;
	struct sal_heap_lane view = { 0 };
	uint32_t index, i;

	(void)pthread_mutex_lock(&sal_heap_state.lock);
	index = range_of(lane);
	for (i = index ? sal_pages_first(pages, index) : SAL_NO_SPAN;
	     i && sal_pages_range(pages, i) == index; i = pages->spans[i].after) {
		const struct sal_heap_range *range = &sal_heap_state.ranges[index];
		const struct sal_span *span = &pages->spans[i];

		if (span->state == SAL_SPAN_COLD || span->is_empty)
			continue;
		view.resident += sal_heap_span_bytes(i);
		view.extent = (uint64_t)(span->page + span->count) * SAL_PAGE_BYTES;
		view.used += span->state == SAL_SPAN_USED ? sal_heap_span_bytes(i) : 0;
		view.lasting += sal_heap_is_lasting(range, span) ? sal_heap_span_bytes(i) : 0;
	}
	if (view.resident > 0)
		view.extent -=
			(uint64_t)pages->spans[sal_pages_first(pages, index)].page * SAL_PAGE_BYTES;
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	return view;
}
