/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/pages.h"

#include <string.h>
#include <sys/mman.h>

/* So many spans of the wanted size are tried. */
#define TRIES 16
/* So many spans are looked at in the order of addresses. */
#define LOOKED_AT_MAX 256u

/* Pages of a table are there when they are first written. */
static void *map_table(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* The bins have eight sizes between one power of two and the next. */
static uint32_t bin_of(uint32_t count)
{
	uint32_t log = 31u - (uint32_t)__builtin_clz(count);

	return log * 8 + (log >= 3 ? (count >> (log - 3)) & 7 : 0);
}

static uint32_t range_at(const struct sal_pages *p, uint32_t page)
{
	return page < p->plan.main_pages ? SAL_MAIN_RANGE
					 : 1 + (page - p->plan.main_pages) / p->plan.other_pages;
}

uint32_t sal_pages_range(const struct sal_pages *p, uint32_t span)
{
	return range_at(p, p->spans[span].page);
}

static struct sal_bins *bins_of(struct sal_pages *p, const struct sal_span *s)
{
	return &p->bins[range_at(p, s->page)][s->state];
}

static void bin_add(struct sal_pages *p, uint32_t index)
{
	struct sal_span *s = &p->spans[index];
	struct sal_bins *bins = bins_of(p, s);
	uint32_t bin = bin_of(s->count), first = bins->first[bin];

	s->prev = SAL_NO_SPAN;
	s->next = first;
	if (first)
		p->spans[first].prev = index;
	bins->first[bin] = index;
	bins->filled[bin / 64] |= UINT64_C(1) << bin % 64;
}

static void bin_remove(struct sal_pages *p, uint32_t index)
{
	const struct sal_span *s = &p->spans[index];
	struct sal_bins *bins = bins_of(p, s);
	uint32_t bin = bin_of(s->count);

	if (s->next)
		p->spans[s->next].prev = s->prev;
	if (s->prev)
		p->spans[s->prev].next = s->next;
	else
		bins->first[bin] = s->next;
	if (!bins->first[bin])
		bins->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

/* The next bin that has spans, from this one on; SAL_PAGE_BINS: none. */
static uint32_t next_bin(const struct sal_bins *bins, uint32_t bin)
{
	uint32_t word = bin / 64;
	uint64_t bits = bin < SAL_PAGE_BINS ? bins->filled[word] >> bin % 64 << bin % 64 : 0;

	while (!bits && ++word < SAL_PAGE_BINS / 64)
		bits = bins->filled[word];
	return bits ? word * 64 + (uint32_t)__builtin_ctzll(bits) : SAL_PAGE_BINS;
}

static uint32_t new_entry(struct sal_pages *p)
{
	uint32_t index = p->unused;

	if (index) {
		p->unused = p->spans[index].next;
		return index;
	}
	return p->span_count < p->plan.span_max ? p->span_count++ : SAL_NO_SPAN;
}

static void drop_entry(struct sal_pages *p, uint32_t index)
{
	p->spans[index] = (struct sal_span){ .next = p->unused };
	p->unused = index;
}

/* Each range is one cold span. Neighbours know each other, also across the border. */
static void add_range(struct sal_pages *p, uint32_t page, uint32_t count)
{
	uint32_t index = p->span_count++, before = index - 1;

	p->spans[index] = (struct sal_span){
		.page = page, .count = count, .before = before, .state = SAL_SPAN_COLD
	};
	if (before)
		p->spans[before].after = index;
	bin_add(p, index);
}

bool sal_pages_init(struct sal_pages *p, const struct sal_pages_plan *plan)
{
	uint32_t i;

	memset(p, 0, sizeof(*p));
	p->plan = *plan;
	p->page_count = plan->main_pages + plan->others * plan->other_pages;
	p->spans = map_table(plan->span_max * sizeof(*p->spans));
	p->starts = map_table(p->page_count * sizeof(*p->starts));
	if (!p->spans || !p->starts) {
		sal_pages_fini(p);
		return false;
	}
	p->span_count = 1;
	add_range(p, 0, plan->main_pages);
	for (i = 0; i < plan->others; i++)
		add_range(p, plan->main_pages + i * plan->other_pages, plan->other_pages);
	return true;
}

void sal_pages_fini(struct sal_pages *p)
{
	if (p->spans)
		(void)munmap(p->spans, p->plan.span_max * sizeof(*p->spans));
	if (p->starts)
		(void)munmap(p->starts, p->page_count * sizeof(*p->starts));
	p->spans = NULL;
	p->starts = NULL;
}

/* The first `count` pages of a span that is in no bin stay with it. Returns the rest, in no bin. */
static uint32_t cut(struct sal_pages *p, uint32_t index, uint32_t count)
{
	struct sal_span *s = &p->spans[index];
	uint32_t rest = new_entry(p);

	if (!rest)
		return SAL_NO_SPAN;
	p->spans[rest] = (struct sal_span){ .page = s->page + count,
					    .count = s->count - count,
					    .before = index,
					    .after = s->after,
					    .state = s->state };
	if (s->after)
		p->spans[s->after].before = rest;
	s->after = rest;
	s->count = count;
	return rest;
}

/* Pages before the first page that is aligned. */
static uint32_t lead_of(const struct sal_span *s, uint32_t align)
{
	return (align - s->page % align) % align;
}

static bool suits(const struct sal_span *s, uint32_t count, uint32_t align)
{
	return (uint64_t)lead_of(s, align) + count <= s->count;
}

static uint32_t find_free(const struct sal_pages *p, uint32_t count, uint32_t align,
			  const struct sal_bins *bins)
{
	uint32_t bin, index, tries = 0;

	for (bin = next_bin(bins, bin_of(count)); bin < SAL_PAGE_BINS;
	     bin = next_bin(bins, bin + 1))
		for (index = bins->first[bin]; index; index = p->spans[index].next) {
			if (suits(&p->spans[index], count, align))
				return index;
			if (++tries % TRIES == 0)
				break;
		}
	return SAL_NO_SPAN;
}

static void use(struct sal_pages *p, uint32_t index)
{
	struct sal_span *s = &p->spans[index];

	s->state = SAL_SPAN_USED;
	s->meter = s->run = s->begin = s->exposed = 0;
	s->is_empty = false;
	p->starts[s->page] = index;
}

/* Out of its bin, without the pages before the first aligned one. SAL_NO_SPAN: the table is full. */
static uint32_t take_aligned(struct sal_pages *p, uint32_t index, uint32_t align)
{
	uint32_t lead = lead_of(&p->spans[index], align), rest;

	bin_remove(p, index);
	if (!lead)
		return index;
	rest = cut(p, index, lead);
	bin_add(p, index);
	return rest;
}

/* The span is in no bin. Pages beyond `count` go into one. */
static void leave_rest(struct sal_pages *p, uint32_t index, uint32_t count)
{
	uint32_t rest;

	if (p->spans[index].count <= count)
		return;
	rest = cut(p, index, count);
	if (rest)
		bin_add(p, rest); /* else the block has more pages than it needs */
}

uint32_t sal_pages_take(struct sal_pages *p, uint32_t range, uint32_t count, uint32_t align,
			enum sal_span_state from)
{
	uint32_t index = find_free(p, count, align, &p->bins[range][from]);

	index = index ? take_aligned(p, index, align) : SAL_NO_SPAN;
	if (!index)
		return SAL_NO_SPAN;
	leave_rest(p, index, count);
	use(p, index);
	return index;
}

/* Neighbours in no bin become one. */
static void merge(struct sal_pages *p, uint32_t index, uint32_t after)
{
	struct sal_span *s = &p->spans[index];

	s->count += p->spans[after].count;
	s->after = p->spans[after].after;
	if (s->after)
		p->spans[s->after].before = index;
	drop_entry(p, after);
}

/*
 * The first of free neighbours, warm or cold, that together suit, in the order of addresses. Of very
 * many spans it looks at some only. SAL_NO_SPAN: none.
 */
static uint32_t find_lowest(const struct sal_pages *p, uint32_t range, uint32_t count,
			    uint32_t align)
{
	uint32_t i = sal_pages_first(p, range), first = SAL_NO_SPAN, n;
	uint64_t pages = 0;

	for (n = 0; i && sal_pages_range(p, i) == range && n < LOOKED_AT_MAX; n++) {
		const struct sal_span *s = &p->spans[i];

		if (s->state == SAL_SPAN_USED) {
			first = SAL_NO_SPAN;
		} else if (first || lead_of(s, align) < s->count) {
			pages = first ? pages + s->count : s->count;
			first = first ? first : i;
			if (lead_of(&p->spans[first], align) + (uint64_t)count <= pages)
				return first;
		}
		i = s->after;
	}
	return SAL_NO_SPAN;
}

uint32_t sal_pages_take_lowest(struct sal_pages *p, uint32_t range, uint32_t count, uint32_t align,
			       uint32_t *out_warm)
{
	uint32_t first = find_lowest(p, range, count, align), next, part;

	*out_warm = 0;
	first = first ? take_aligned(p, first, align) : SAL_NO_SPAN;
	if (!first)
		return SAL_NO_SPAN;
	for (next = first;; next = p->spans[first].after) {
		if (next != first)
			bin_remove(p, next);
		leave_rest(p, next, count);
		part = p->spans[next].count;
		*out_warm += p->spans[next].state == SAL_SPAN_WARM ? part : 0;
		if (next != first)
			merge(p, first, next);
		if (part >= count)
			break;
		count -= part;
	}
	use(p, first);
	return first;
}

uint32_t sal_pages_last_warm(const struct sal_pages *p, uint32_t range)
{
	uint32_t i = range < p->plan.others ? p->spans[sal_pages_first(p, range + 1)].before
					    : SAL_NO_SPAN;
	uint32_t n;

	for (n = 0; i && sal_pages_range(p, i) == range && n < LOOKED_AT_MAX; n++) {
		if (p->spans[i].state == SAL_SPAN_WARM)
			return i;
		i = p->spans[i].before;
	}
	return sal_pages_largest(p, range, SAL_SPAN_WARM);
}

uint32_t sal_pages_take_end(struct sal_pages *p, uint32_t span, uint32_t count)
{
	uint32_t end;

	bin_remove(p, span);
	end = p->spans[span].count > count ? cut(p, span, p->spans[span].count - count) : 0;
	if (end)
		bin_add(p, span);
	else
		end = span;
	use(p, end);
	return end;
}

/* Two neighbours that are free in the same way, and in one range. */
static bool can_join(const struct sal_pages *p, uint32_t before, uint32_t after)
{
	return before && after && p->spans[before].state == p->spans[after].state &&
	       sal_pages_range(p, before) == sal_pages_range(p, after);
}

/* Join the neighbour behind, if it is free in the same way. Neither is in a bin afterwards. */
static void join_after(struct sal_pages *p, uint32_t index)
{
	uint32_t after = p->spans[index].after;

	if (!can_join(p, index, after))
		return;
	bin_remove(p, after);
	merge(p, index, after);
}

void sal_pages_give(struct sal_pages *p, uint32_t span, enum sal_span_state as)
{
	struct sal_span *s = &p->spans[span];
	uint32_t before = s->before;

	p->starts[s->page] = SAL_NO_SPAN;
	s->state = (uint8_t)as;
	join_after(p, span);
	if (can_join(p, before, span)) {
		bin_remove(p, before);
		bin_add(p, span); /* join_after takes it out of its bin */
		join_after(p, before);
		span = before;
	}
	bin_add(p, span);
}

uint32_t sal_pages_largest(const struct sal_pages *p, uint32_t range, enum sal_span_state state)
{
	const struct sal_bins *bins = &p->bins[range][state];
	uint32_t word = SAL_PAGE_BINS / 64;

	while (word-- > 0)
		if (bins->filled[word])
			return bins->first[word * 64 + 63u -
					   (uint32_t)__builtin_clzll(bins->filled[word])];
	return SAL_NO_SPAN;
}

uint32_t sal_pages_find(const struct sal_pages *p, uint32_t page)
{
	return page < p->page_count ? p->starts[page] : SAL_NO_SPAN;
}

static bool is_in_bin(const struct sal_pages *p, uint32_t index)
{
	const struct sal_span *s = &p->spans[index];
	uint32_t other = p->bins[range_at(p, s->page)][s->state].first[bin_of(s->count)];

	while (other && other != index)
		other = p->spans[other].next;
	return other != SAL_NO_SPAN;
}

static bool span_is_right(const struct sal_pages *p, uint32_t index)
{
	const struct sal_span *s = &p->spans[index];
	const struct sal_span *after = s->after ? &p->spans[s->after] : NULL;

	if (s->count == 0 || s->state == SAL_SPAN_UNUSED ||
	    range_at(p, s->page) != range_at(p, s->page + s->count - 1))
		return false;
	if (after && (after->page != s->page + s->count || after->before != index))
		return false;
	if (s->state == SAL_SPAN_USED)
		return p->starts[s->page] == index;
	return p->starts[s->page] == SAL_NO_SPAN && is_in_bin(p, index) &&
	       !can_join(p, index, s->after);
}

bool sal_pages_check(const struct sal_pages *p)
{
	uint32_t index = 1, pages = 0;

	while (p->spans[index].before)
		index = p->spans[index].before;
	if (p->spans[index].page != 0)
		return false;
	for (; index; index = p->spans[index].after) {
		if (!span_is_right(p, index))
			return false;
		pages += p->spans[index].count;
	}
	return pages == p->page_count;
}
