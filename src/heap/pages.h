/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages - ranges of pages, divided into spans.
 *
 *     | used | warm | used | used | cold                                        |
 *
 * The pages are cut into ranges once and for all: the main range, and behind it others of one size.
 * A span is in one range.
 *
 * A used span is a block of memory. A free span is warm if its pages are in memory, and cold if the
 * system has them back. Spans cover a range without gaps. Two free neighbours of the same kind are
 * always one span.
 *
 * A free span is in a bin with spans of nearly the same size. So taking and giving need no search
 * of the whole range: a bin of larger spans always fits, and in the bin of the wanted size a few
 * spans are tried.
 *
 * Owns: the tables of spans. They are mapped, never allocated: the allocator itself uses them.
 * Threads: none. The caller serialises calls. Does no other system calls.
 */
#ifndef SAL_HEAP_PAGES_H
#define SAL_HEAP_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAL_PAGE_BYTES 4096u
#define SAL_PAGE_BINS 256u
#define SAL_NO_SPAN 0u
/* The main range, and one for each lane. */
#define SAL_RANGES_MAX 65u
#define SAL_MAIN_RANGE 0u

enum sal_span_state {
	SAL_SPAN_UNUSED, /* this entry of the table describes nothing */
	SAL_SPAN_USED,
	SAL_SPAN_WARM,
	SAL_SPAN_COLD,
};
#define SAL_SPAN_STATES 4

struct sal_span {
	uint32_t page, count; /* the pages [page, page + count) */
	uint32_t before, after; /* neighbours, also in another range */
	uint32_t prev, next; /* in its bin; next also links unused entries */
	uint32_t meter, run, begin, exposed; /* of a used span: the caller's notes */
	uint8_t state; /* enum sal_span_state */
	bool is_empty; /* of a used span: its pages are not in memory; the caller's note */
};

struct sal_bins {
	uint64_t filled[SAL_PAGE_BINS / 64]; /* bit i: bin i has spans */
	uint32_t first[SAL_PAGE_BINS];
};

struct sal_pages_plan {
	uint32_t main_pages; /* of the main range */
	uint32_t other_pages; /* of each other range; at least 1 if there are others */
	uint32_t others; /* ranges beside the main one */
	uint32_t span_max;
};

struct sal_pages {
	struct sal_span *spans; /* owned; [0] is not used */
	uint32_t *starts; /* owned; for each page: the span that starts there */
	struct sal_pages_plan plan;
	uint32_t page_count, span_count;
	uint32_t unused; /* entries of the table that can be used again */
	struct sal_bins bins[SAL_RANGES_MAX][SAL_SPAN_STATES]; /* for warm and cold spans */
};

/* Each range is one cold span. Returns false if there is no memory. */
bool sal_pages_init(struct sal_pages *p, const struct sal_pages_plan *plan);
void sal_pages_fini(struct sal_pages *p);

/* The first span of a range, in the order of addresses; and the range of a span. */
static inline uint32_t sal_pages_first(const struct sal_pages *p, uint32_t range)
{
	(void)p;
	return 1 + range; /* a span joins the one before it, so the first one stays */
}
uint32_t sal_pages_range(const struct sal_pages *p, uint32_t span);
/*
 * Take `count` pages from free spans of this range and state, so that the first page is a multiple of
 * `align`, a power of two. SAL_NO_SPAN: no free span of this state is large enough, or the table
 * is full.
 */
uint32_t sal_pages_take(struct sal_pages *p, uint32_t range, uint32_t count, uint32_t align,
			enum sal_span_state from);
/* A used span becomes free. It may become one with its neighbours. */
void sal_pages_give(struct sal_pages *p, uint32_t span, enum sal_span_state as);
/* The largest bin of a range's spans of this state: its first span. SAL_NO_SPAN: there is none. */
uint32_t sal_pages_largest(const struct sal_pages *p, uint32_t range, enum sal_span_state state);
/*
 * The same from the lowest free pages, warm or cold, so that the range stays short. out_warm: so many
 * of them were warm. SAL_NO_SPAN also if the range has very many spans.
 */
uint32_t sal_pages_take_lowest(struct sal_pages *p, uint32_t range, uint32_t count, uint32_t align,
			       uint32_t *out_warm);
/* A warm span near the end of the range. SAL_NO_SPAN: there is none. */
uint32_t sal_pages_last_warm(const struct sal_pages *p, uint32_t range);
/* Take the last pages of a free span, at most `count`, at least 1. */
uint32_t sal_pages_take_end(struct sal_pages *p, uint32_t span, uint32_t count);
/* The used span that starts at this page. SAL_NO_SPAN: there is none. */
uint32_t sal_pages_find(const struct sal_pages *p, uint32_t page);

/* Verifies every invariant. O(n). */
bool sal_pages_check(const struct sal_pages *p);

#endif
