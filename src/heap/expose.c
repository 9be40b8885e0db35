/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the heap that exposes blocks. */
#include <fcntl.h>

#include "heap/heap_impl.h"

/*
 * The block is not exposed any more: its pages go, and the span that it had is used, empty and
 * private. False: the system refuses, and the block stays exposed. Under the lock, which it releases.
 */
static bool withdraw(uint32_t index)
{
	struct sal_exposed *exposed = &sal_heap_state.exposures.all[index];
	struct sal_span *span = &sal_heap_state.pages.spans[exposed->span];
	enum sal_exposed_state state = exposed->state;
	bool was_empty = span->is_empty, is_done;
	int fd = exposed->fd;

	/* Meanwhile nobody counts it, takes it, or gets its descriptor. */
	span->is_empty = true;
	exposed->state = SAL_EXPOSED_USED;
	exposed->fd = -1;
	sal_heap_state.exposed_bytes -= sal_heap_span_bytes(exposed->span);
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	is_done = sal_exposed_close(sal_heap_span_at(exposed->span),
				    (size_t)sal_heap_span_bytes(exposed->span), fd);
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	if (!is_done) {
		span->is_empty = was_empty;
		exposed->state = state;
		exposed->fd = fd;
		sal_heap_state.exposed_bytes += sal_heap_span_bytes(exposed->span);
		return false;
	}
	span->exposed = SAL_NOT_EXPOSED;
	if (exposed->is_known)
		(void)atomic_fetch_add(&sal_heap_state.withdrawn, 1);
	sal_exposed_remove(&sal_heap_state.exposures, index);
	return true;
}

/* A free exposed block, which is warm, becomes cold. Under the lock, which it releases. */
bool sal_heap_chill_exposed(uint32_t meter)
{
	uint32_t index = sal_exposed_any_free(&sal_heap_state.exposures, meter), span;

	if (!index)
		return false;
	span = sal_heap_state.exposures.all[index].span;
	sal_heap_state.warm -= sal_heap_span_bytes(span);
	if (!withdraw(index)) {
		sal_heap_state.warm += sal_heap_span_bytes(span);
		return false;
	}
	sal_pages_give(&sal_heap_state.pages, span, SAL_SPAN_COLD);
	return true;
}

/* Zeros, in shared memory. SAL_NO_SPAN: an ordinary block must do. Under the lock, which it releases. */
static uint32_t make_exposed(uint32_t pages, uint32_t meter)
{
	uint32_t index, span;
	int fd;

	/* Free blocks of other sizes give way. */
	while (sal_exposed_is_full(&sal_heap_state.exposures, meter) &&
	       sal_heap_chill_exposed(meter))
		;
	sal_heap_make_room((uint64_t)pages * SAL_PAGE_BYTES);
	span = sal_pages_take(&sal_heap_state.pages, SAL_MAIN_RANGE, pages, 1, SAL_SPAN_COLD);
	if (!span)
		return SAL_NO_SPAN;
	index = sal_exposed_add(&sal_heap_state.exposures, meter, span, pages);
	if (!index ||
	    sal_heap_state.pages.spans[span].count != pages) { /* the table of spans is full */
		if (index)
			sal_exposed_remove(&sal_heap_state.exposures, index);
		sal_pages_give(&sal_heap_state.pages, span, SAL_SPAN_COLD);
		return SAL_NO_SPAN;
	}
	sal_heap_state.pages.spans[span].is_empty = true; /* nobody counts it meanwhile */
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	fd = sal_exposed_open(sal_heap_span_at(span), (size_t)pages * SAL_PAGE_BYTES);
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	sal_heap_state.pages.spans[span].is_empty = false;
	if (fd < 0) {
		sal_exposed_remove(&sal_heap_state.exposures, index);
		return span;
	}
	sal_heap_state.exposures.all[index].fd = fd;
	sal_heap_state.pages.spans[span].exposed = index;
	sal_heap_state.exposed_bytes += sal_heap_span_bytes(span);
	return span;
}

/* A block that its session can read. SAL_NO_SPAN as above. Under the lock, which it may release. */
uint32_t sal_heap_take_exposed(uint32_t pages, uint32_t meter, bool *out_is_cold)
{
	uint32_t index = sal_exposed_find_free(&sal_heap_state.exposures, meter, pages), span;

	*out_is_cold = !index;
	if (!index)
		return make_exposed(pages, meter);
	span = sal_heap_state.exposures.all[index].span;
	sal_heap_state.exposures.all[index].state = SAL_EXPOSED_USED;
	sal_heap_state.pages.spans[span].is_empty = false;
	sal_heap_state.warm -= sal_heap_span_bytes(span);
	return span;
}

/* Is it a result that its session is going to read? Under the lock. */
bool sal_heap_is_wished(uint64_t pages, uint64_t align_pages, struct sal_payer payer)
{
	return payer.meter && payer.is_run && align_pages == 1 &&
	       pages >= SAL_EXPOSED_BYTES_MIN / SAL_PAGE_BYTES &&
	       sal_wishes_ask(&sal_heap_state.wishes[payer.meter], (uint32_t)pages);
}

/*
 * An exposed block is warm on both sides: other warm pages give way to it. Under the lock, which it
 * may release.
 */
void sal_heap_give_exposed(uint32_t span)
{
	struct sal_exposed *exposed =
		&sal_heap_state.exposures.all[sal_heap_state.pages.spans[span].exposed];
	bool stays;

	while (!exposed->is_orphan && !sal_heap_may_stay(span) &&
	       sal_heap_chill_range(SAL_MAIN_RANGE, sal_heap_span_bytes(span)))
		;
	stays = !exposed->is_orphan && sal_heap_may_stay(span);
	sal_heap_uncount(span);
	if (stays) {
		sal_heap_state.warm += sal_heap_span_bytes(span);
		sal_heap_state.pages.spans[span].is_empty = true;
		exposed->state = SAL_EXPOSED_FREE;
	} else if (withdraw(sal_heap_state.pages.spans[span].exposed)) {
		sal_pages_give(&sal_heap_state.pages, span, SAL_SPAN_COLD);
	} else { /* the system has no memory for a mapping: the block is lost */
		sal_heap_state.pages.spans[span].is_empty = true;
		exposed->is_orphan = true;
	}
}

/* A job that reads the block keeps its pages. The block becomes private. True: it was exposed. */
bool sal_heap_empty_exposed(void *bytes)
{
	uint32_t span;
	bool is_exposed;

	(void)pthread_mutex_lock(&sal_heap_state.lock);
	span = sal_heap_find(bytes);
	is_exposed = span && sal_heap_state.pages.spans[span].exposed;
	if (is_exposed) {
		sal_heap_uncount(span);
		if (!withdraw(sal_heap_state.pages.spans[span].exposed))
			sal_heap_count_again(span);
	}
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	return is_exposed;
}

void sal_heap_expose_limit(uint64_t of_session, uint64_t of_all)
{
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	sal_heap_state.exposures.session_max = of_session < SAL_EXPOSED_MAX ? (uint32_t)of_session
									    : SAL_EXPOSED_MAX;
	sal_heap_state.exposures.max = of_all < SAL_EXPOSED_MAX ? (uint32_t)of_all
								: SAL_EXPOSED_MAX;
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

bool sal_heap_expose(const void *block, uint32_t meter, struct sal_heap_exposed *out)
{
	struct sal_exposed *exposed;
	const struct sal_span *span;
	uint32_t index;
	bool is_exposed = false;

	if (!sal_heap_owns(block))
		return false;
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	index = sal_heap_find(block);
	span = &sal_heap_state.pages.spans[index];
	if (index && meter && span->meter == meter && !span->is_empty) {
		exposed = &sal_heap_state.exposures.all[span->exposed];
		is_exposed = span->exposed && !exposed->is_orphan && exposed->meter == meter;
		sal_wishes_note(&sal_heap_state.wishes[meter], span->count);
		if (is_exposed)
			*out = (struct sal_heap_exposed){ exposed->number,
							  sal_heap_span_bytes(index) };
	}
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	return is_exposed;
}

int sal_heap_exposed_fd(uint64_t number, uint32_t meter, uint64_t *out_bytes)
{
	struct sal_exposed *exposed;
	uint32_t index;
	int fd = -1;

	(void)pthread_mutex_lock(&sal_heap_state.lock);
	index = sal_exposed_find(&sal_heap_state.exposures, number);
	exposed = &sal_heap_state.exposures.all[index];
	if (index && exposed->meter == meter && !exposed->is_orphan && exposed->fd >= 0) {
		fd = fcntl(exposed->fd, F_DUPFD_CLOEXEC, 0);
		exposed->is_known |= fd >= 0;
		*out_bytes = (uint64_t)exposed->pages * SAL_PAGE_BYTES;
	}
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	return fd;
}

bool sal_heap_is_exposed(uint64_t number)
{
	bool is_exposed;

	(void)pthread_mutex_lock(&sal_heap_state.lock);
	is_exposed = sal_exposed_find(&sal_heap_state.exposures, number) != SAL_NOT_EXPOSED;
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
	return is_exposed;
}

uint64_t sal_heap_withdrawn(void)
{
	return atomic_load(&sal_heap_state.withdrawn);
}

void sal_heap_leave(uint32_t meter)
{
	if (!meter)
		return;
	(void)pthread_mutex_lock(&sal_heap_state.lock);
	sal_heap_state.wishes[meter] = (struct sal_wishes){ 0 };
	sal_heap_state.runs[meter] = (struct sal_heap_run){ 0 };
	sal_exposed_abandon(&sal_heap_state.exposures, meter);
	while (sal_heap_chill_exposed(meter))
		;
	(void)pthread_mutex_unlock(&sal_heap_state.lock);
}

/* Under the lock. */
bool sal_heap_exposures_check(uint64_t *warm)
{
	const struct sal_exposures *e = &sal_heap_state.exposures;
	uint64_t bytes = 0;
	uint32_t count = 0;

	for (uint32_t i = 1; i < e->end; i++) {
		const struct sal_exposed *x = &e->all[i];
		const struct sal_span *span = &sal_heap_state.pages.spans[x->span];
		bool is_free = x->state == SAL_EXPOSED_FREE;

		if (x->state == SAL_EXPOSED_UNUSED)
			continue;
		count++;
		if (x->fd < 0)
			continue; /* another thread is making it */
		if (span->exposed != i || span->count != x->pages || span->state != SAL_SPAN_USED ||
		    (is_free && !span->is_empty))
			return false;
		bytes += sal_heap_span_bytes(x->span);
		*warm += is_free ? sal_heap_span_bytes(x->span) : 0;
	}
	return count == e->count && bytes == sal_heap_state.exposed_bytes;
}
