/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_impl - what the files of the heap share. Private to heap/.
 *
 * All functions are called under the lock. Those that do system calls release it meanwhile: they say
 * so.
 */
#ifndef SAL_HEAP_HEAP_IMPL_H
#define SAL_HEAP_HEAP_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "heap/exposed.h"
#include "heap/heap.h"
#include "heap/lasting.h"
#include "heap/pages.h"
#include "heap/wishes.h"

/* Of a range; under the lock, the atomic numbers can be read without it. */
struct sal_heap_range {
	uint64_t used; /* bytes of blocks whose pages are in memory */
	_Atomic uint64_t warm;
	_Atomic uint64_t keep; /* set without the lock; the main range has none */
	uint32_t begins; /* iterations that began in it */
	bool is_running; /* an iteration may allocate here */
};

/* Where the blocks of a meter's run go. */
struct sal_heap_run {
	uint32_t range; /* for scratch */
	struct sal_lasting lasting;
};

/* Who waits for blocks of runs that have ended: see late.c. Under the lock. */
struct sal_heap_late {
	pthread_cond_t freed; /* one of those blocks is free */
	uint32_t waiters;
	uint64_t in_vain_ns; /* when somebody last waited in vain; 0: never */
};

struct sal_heap_state {
	pthread_mutex_t lock;
	char *base; /* set once, before other threads start */
	size_t range_bytes; /* 0: the heap is off */
	_Atomic uint64_t keep, limit;
	_Atomic uint64_t withdrawn;
	/* under the lock */
	struct sal_pages pages;
	uint64_t metered, own, warm, metered_peak,
		exposed_bytes; /* warm: with free exposed blocks */
	uint64_t lanes_warm, lanes_bytes; /* of all lanes: warm, and in memory */
	struct sal_exposures exposures;
	struct sal_wishes wishes[SAL_METERS_MAX];
	struct sal_heap_range ranges[SAL_RANGES_MAX];
	struct sal_heap_run runs[SAL_METERS_MAX];
	struct sal_heap_late late;
	_Atomic uint32_t lane_ranges[SAL_HEAP_LANES]; /* which range a lane has */
};

extern struct sal_heap_state sal_heap_state;

static inline uint64_t sal_heap_span_bytes(uint32_t span)
{
	return (uint64_t)sal_heap_state.pages.spans[span].count * SAL_PAGE_BYTES;
}

static inline void *sal_heap_span_at(uint32_t span)
{
	return sal_heap_state.base + (size_t)sal_heap_state.pages.spans[span].page * SAL_PAGE_BYTES;
}

/* By so much would blocks and warm pages be more than the limit. */
static inline uint64_t sal_heap_beyond(uint64_t more_bytes)
{
	uint64_t all = sal_heap_state.metered + sal_heap_state.warm + more_bytes;
	uint64_t limit = atomic_load_explicit(&sal_heap_state.limit, memory_order_relaxed);

	return all > limit ? all - limit : 0;
}

static inline bool sal_heap_is_within(uint64_t more_bytes)
{
	return sal_heap_beyond(more_bytes) == 0;
}

/*
 * So many bytes may be warm in the range of a lane: what two iterations take, because the vendor frees
 * the scratch of one when the next has its own, and a little more for holes between blocks. Otherwise
 * the pages of one of them would go whenever the lane is idle, and come again when two meet.
 */
static inline uint64_t sal_heap_warm_max(const struct sal_heap_range *range)
{
	uint64_t keep = atomic_load_explicit(&range->keep, memory_order_relaxed);

	return keep > 0 ? 2 * keep + keep / 16 + (UINT64_C(1) << 20) : 0;
}

static inline struct sal_heap_range *sal_heap_range(uint32_t span)
{
	return &sal_heap_state.ranges[sal_pages_range(&sal_heap_state.pages, span)];
}

static inline bool sal_heap_is_in_main(uint32_t span)
{
	return sal_pages_range(&sal_heap_state.pages, span) == SAL_MAIN_RANGE;
}

/* Pages of a lane come to be in memory, or are not any more. */
static inline void sal_heap_count_in_lanes(uint64_t bytes, bool comes)
{
	uint64_t *sum = &sal_heap_state.lanes_bytes;

	*sum = comes ? *sum + bytes : *sum - bytes;
}

/* In heap.c */

/* The block at this address; SAL_NO_SPAN: no block starts there. */
uint32_t sal_heap_find(const void *at);
/* The block comes again, or goes, for its meter and the sums. No run counts it when it comes. */
void sal_heap_count_again(uint32_t span);
void sal_heap_uncount(uint32_t span);

/* In warm.c */

/* The pages of a block that is going to be free may stay: there is room for so many warm ones. */
bool sal_heap_may_stay(uint32_t span);
/* So many bytes of the span's range become warm, or are not warm any more. */
void sal_heap_count_warm(uint32_t span, uint64_t bytes, bool comes);
/* A used span in which nobody is interested: its pages go back. Releases the lock. */
void sal_heap_chill(uint32_t span);
/*
 * Warm pages go, of this range or of any: so many bytes, fewer or somewhat more. False: there are
 * none. Both release the lock.
 */
bool sal_heap_chill_range(uint32_t range, uint64_t bytes);
bool sal_heap_chill_some(uint64_t bytes);
/* Warm pages go until so many bytes more are within the limit. May release the lock. */
void sal_heap_make_room(uint64_t more_bytes);
/*
 * The last scratch is what the next iteration needs. So other warm pages of its lane give way to a
 * block that becomes free; and if the lane became larger, arrays of the past do. May release the
 * lock.
 */
void sal_heap_prefer_scratch(uint32_t span);

/* In scratch.c */

/* The range for a new block: that of the run's lane, or the main range if the block lasts. */
uint32_t sal_heap_range_for(struct sal_payer payer, uint32_t pages);

/*
 * A block that an iteration allocated, and that lies in the lane since so many iterations that it is
 * no scratch.
 */
bool sal_heap_is_lasting(const struct sal_heap_range *range, const struct sal_span *span);

/* In late.c */

bool sal_heap_late_init(void);
/*
 * So many bytes more would be beyond the limit, even if no page were warm: wait for blocks that the
 * vendor frees a little after the end of their run. Releases the lock meanwhile.
 */
void sal_heap_await_late(uint64_t more_bytes);
/* A block is free. */
void sal_heap_late_tell(void);

/* In expose.c */

/* Is it a result that its session is going to read? */
bool sal_heap_is_wished(uint64_t pages, uint64_t align_pages, struct sal_payer payer);
/*
 * A block that its session can read. SAL_NO_SPAN: an ordinary one must do. May release the lock.
 * is_cold: it has zeros.
 */
uint32_t sal_heap_take_exposed(uint32_t pages, uint32_t meter, bool *out_is_cold);
/* Free an exposed block. May release the lock. */
void sal_heap_give_exposed(uint32_t span);
/* A free block, of this session if meter is not 0, becomes cold. False: none. Releases the lock. */
bool sal_heap_chill_exposed(uint32_t meter);
/*
 * Takes the lock itself. A job that reads the block keeps its pages, and the block becomes private.
 * False: the block is not exposed.
 */
bool sal_heap_empty_exposed(void *bytes);
bool sal_heap_exposures_check(uint64_t *warm);

#endif
