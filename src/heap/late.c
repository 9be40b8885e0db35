/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the heap that waits for blocks of runs that have ended.
 *
 * A vendor may report the end of a run, and free the run's scratch a little later on another thread.
 * The next run then has its own scratch already: for a moment the lane has both. That does no harm
 * where there is room. At the limit the new block waits, at most WAIT_NS. The vendor may be unable
 * to free anything as long as it waits here, or what looks like scratch is something that it keeps:
 * so after a wait in vain nobody waits for a while.
 */
#include <errno.h>
#include <time.h>

#include "heap/heap_impl.h"

#define SECOND_NS UINT64_C(1000000000)
#define WAIT_NS UINT64_C(20000000)
#define PAUSE_NS SECOND_NS
/* So many blocks of a lane are looked at: others wait for the lock. */
#define LOOKED_AT_MAX 128u

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

bool sal_heap_late_init(void)
{
	pthread_condattr_t attr;
	bool is_good;

	if (pthread_condattr_init(&attr) != 0)
		return false;
	is_good = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
		  pthread_cond_init(&sal_heap_state.late.freed, &attr) == 0;
	(void)pthread_condattr_destroy(&attr);
	return is_good;
}

/* Scratch of a run before the one that is in the range now. */
static bool is_late(const struct sal_heap_range *range, const struct sal_span *span)
{
	return span->state == SAL_SPAN_USED && !span->is_empty &&
	       (!range->is_running || span->begin != range->begins) &&
	       !sal_heap_is_lasting(range, span);
}

static bool has_late_in(uint32_t index)
{
	const struct sal_heap_range *range = &sal_heap_state.ranges[index];
	const struct sal_pages *pages = &sal_heap_state.pages;
	uint32_t i, n = 0;

	if (range->used == 0)
		return false;
	for (i = sal_pages_first(pages, index);
	     i && sal_pages_range(pages, i) == index && n++ < LOOKED_AT_MAX;
	     i = pages->spans[i].after)
		if (is_late(range, &pages->spans[i]))
			return true;
	return false;
}

static bool has_late(void)
{
	for (uint32_t i = 1; i < SAL_RANGES_MAX; i++)
		if (has_late_in(i))
			return true;
	return false;
}

/* Warm pages can go. */
static bool fits(uint64_t more_bytes)
{
	return sal_heap_state.metered + more_bytes <=
	       atomic_load_explicit(&sal_heap_state.limit, memory_order_relaxed);
}

void sal_heap_await_late(uint64_t more_bytes)
{
	struct sal_heap_late *late = &sal_heap_state.late;
	struct timespec until;
	uint64_t start_ns, end_ns;
	int rc = 0;

	if (fits(more_bytes) || !has_late())
		return;
	start_ns = now_ns();
	if (late->in_vain_ns > 0 && start_ns - late->in_vain_ns < PAUSE_NS)
		return;
	end_ns = start_ns + WAIT_NS;
	until = (struct timespec){ .tv_sec = (time_t)(end_ns / SECOND_NS),
				   .tv_nsec = (long)(end_ns % SECOND_NS) };
	late->waiters++;
	while (rc != ETIMEDOUT && !fits(more_bytes) && has_late())
		rc = pthread_cond_timedwait(&late->freed, &sal_heap_state.lock, &until);
	late->waiters--;
	if (rc == ETIMEDOUT)
		late->in_vain_ns = now_ns();
}

void sal_heap_late_tell(void)
{
	if (sal_heap_state.late.waiters > 0)
		(void)pthread_cond_broadcast(&sal_heap_state.late.freed);
}
