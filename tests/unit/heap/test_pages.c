/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "heap/pages.h"
#include "support/rng.h"

#define PAGES 1000u
#define OTHER_PAGES 100u
#define SPANS 300u

static int start(void **state)
{
	static const struct sal_pages_plan plan = {
		.main_pages = PAGES, .other_pages = OTHER_PAGES, .others = 2, .span_max = SPANS
	};
	static struct sal_pages pages;

	*state = &pages;
	return sal_pages_init(&pages, &plan) ? 0 : -1;
}

static int stop(void **state)
{
	sal_pages_fini(*state);
	return 0;
}

static void test_neighbours_become_one(void **state)
{
	struct sal_pages *p = *state;
	uint32_t a = sal_pages_take(p, SAL_MAIN_RANGE, 10, 1, SAL_SPAN_COLD);
	uint32_t b = sal_pages_take(p, SAL_MAIN_RANGE, 20, 1, SAL_SPAN_COLD);
	uint32_t c = sal_pages_take(p, SAL_MAIN_RANGE, 30, 1, SAL_SPAN_COLD);

	assert_true(a && b && c);
	assert_true(sal_pages_check(p));
	sal_pages_give(p, a, SAL_SPAN_WARM);
	sal_pages_give(p, c, SAL_SPAN_WARM);
	assert_int_equal(sal_pages_take(p, SAL_MAIN_RANGE, 60, 1, SAL_SPAN_WARM), SAL_NO_SPAN);
	sal_pages_give(p, b, SAL_SPAN_WARM);
	assert_true(sal_pages_check(p));
	assert_true(sal_pages_take(p, SAL_MAIN_RANGE, 60, 1, SAL_SPAN_WARM));
}

/* Warm pages never become one with cold ones: nobody could tell which are in memory. */
static void test_warm_and_cold_stay_apart(void **state)
{
	struct sal_pages *p = *state;
	uint32_t a = sal_pages_take(p, SAL_MAIN_RANGE, 10, 1, SAL_SPAN_COLD);

	sal_pages_give(p, a, SAL_SPAN_WARM);
	assert_true(sal_pages_check(p));
	assert_int_equal(sal_pages_take(p, SAL_MAIN_RANGE, 11, 1, SAL_SPAN_WARM), SAL_NO_SPAN);
	a = sal_pages_take(p, SAL_MAIN_RANGE, 10, 1, SAL_SPAN_WARM);
	sal_pages_give(p, a, SAL_SPAN_COLD);
	assert_true(sal_pages_take(p, SAL_MAIN_RANGE, PAGES, 1, SAL_SPAN_COLD));
}

static void test_alignment(void **state)
{
	struct sal_pages *p = *state;
	uint32_t a = sal_pages_take(p, SAL_MAIN_RANGE, 3, 1, SAL_SPAN_COLD);
	uint32_t b = sal_pages_take(p, SAL_MAIN_RANGE, 5, 64, SAL_SPAN_COLD);

	assert_int_equal(p->spans[b].page % 64, 0);
	assert_int_equal(sal_pages_find(p, p->spans[b].page), b);
	assert_int_equal(sal_pages_find(p, p->spans[b].page + 1), SAL_NO_SPAN);
	assert_true(sal_pages_check(p));
	sal_pages_give(p, b, SAL_SPAN_COLD);
	sal_pages_give(p, a, SAL_SPAN_COLD);
	assert_true(sal_pages_take(p, SAL_MAIN_RANGE, PAGES, 1, SAL_SPAN_COLD));
}

/* The last pages of a range and the first ones of the next are never one block. */
static void test_ranges_stay_apart(void **state)
{
	struct sal_pages *p = *state;
	uint32_t main = sal_pages_take(p, SAL_MAIN_RANGE, PAGES, 1, SAL_SPAN_COLD);
	uint32_t one = sal_pages_take(p, 1, OTHER_PAGES, 1, SAL_SPAN_COLD);
	uint32_t two = sal_pages_take(p, 2, 1, 1, SAL_SPAN_COLD);

	assert_int_equal(sal_pages_range(p, main), SAL_MAIN_RANGE);
	assert_int_equal(sal_pages_range(p, one), 1);
	assert_int_equal(sal_pages_range(p, two), 2);
	assert_int_equal(sal_pages_first(p, 1), one);
	assert_int_equal(sal_pages_first(p, 2), two);
	assert_int_equal(sal_pages_take(p, 1, 1, 1, SAL_SPAN_COLD), SAL_NO_SPAN);
	sal_pages_give(p, one, SAL_SPAN_WARM);
	sal_pages_give(p, main, SAL_SPAN_WARM);
	sal_pages_give(p, two, SAL_SPAN_COLD);
	assert_true(sal_pages_check(p));
	assert_int_equal(sal_pages_take(p, 1, OTHER_PAGES + 1, 1, SAL_SPAN_WARM), SAL_NO_SPAN);
	assert_true(sal_pages_take(p, 1, OTHER_PAGES, 1, SAL_SPAN_WARM));
	assert_true(sal_pages_take(p, 2, OTHER_PAGES, 1, SAL_SPAN_COLD));
	assert_true(sal_pages_check(p));
}

/* A range whose warm pages do not suffice grows where they end, and shrinks there. */
static void test_grows_at_its_end(void **state)
{
	struct sal_pages *p = *state;
	uint32_t span = sal_pages_take(p, 1, 10, 1, SAL_SPAN_COLD), warm, first, more;

	sal_pages_give(p, span, SAL_SPAN_WARM);
	first = p->spans[sal_pages_first(p, 1)].page;
	span = sal_pages_take_lowest(p, 1, 15, 1, &warm);
	assert_int_equal(warm, 10);
	assert_int_equal(p->spans[span].page, first);
	assert_int_equal(p->spans[span].count, 15);
	assert_true(sal_pages_check(p));
	more = sal_pages_take_lowest(p, 1, 5, 8, &warm);
	assert_int_equal(warm, 0);
	assert_int_equal(p->spans[more].page % 8, 0);
	sal_pages_give(p, more, SAL_SPAN_COLD);
	sal_pages_give(p, span, SAL_SPAN_WARM);
	assert_false(sal_pages_take_lowest(p, 1, OTHER_PAGES + 1, 1, &warm));
	span = sal_pages_take_end(p, sal_pages_last_warm(p, 1), 4);
	assert_int_equal(p->spans[span].page, first + 11);
	assert_int_equal(p->spans[span].count, 4);
	sal_pages_give(p, span, SAL_SPAN_COLD);
	span = sal_pages_take_end(p, sal_pages_largest(p, 1, SAL_SPAN_WARM), 400);
	assert_int_equal(p->spans[span].page, first);
	assert_int_equal(p->spans[span].count, 11);
	sal_pages_give(p, span, SAL_SPAN_COLD);
	assert_true(sal_pages_check(p));
}

static void test_full(void **state)
{
	struct sal_pages *p = *state;
	uint32_t all = sal_pages_take(p, SAL_MAIN_RANGE, PAGES, 1, SAL_SPAN_COLD);

	assert_true(all);
	assert_int_equal(sal_pages_take(p, SAL_MAIN_RANGE, 1, 1, SAL_SPAN_COLD), SAL_NO_SPAN);
	sal_pages_give(p, all, SAL_SPAN_COLD);
	assert_int_equal(sal_pages_take(p, SAL_MAIN_RANGE, PAGES + 1, 1, SAL_SPAN_COLD),
			 SAL_NO_SPAN);
}

struct block {
	uint32_t span, count;
};

/* Blocks never overlap, whatever comes and goes, and also when the table of spans is full. */
static void test_random(void **state)
{
	struct sal_pages *p = *state;
	struct block blocks[256] = { { 0 } };
	struct rng rng = { .state = (uint64_t)time(NULL) };

	printf("seed %llu\n", (unsigned long long)rng.state);
	for (int i = 0; i < 20000; i++) {
		struct block *b = &blocks[rng_below(&rng, 256)];
		enum sal_span_state state_of = rng_below(&rng, 2) ? SAL_SPAN_WARM : SAL_SPAN_COLD;
		uint32_t warm;

		if (b->span) {
			assert_true(p->spans[b->span].count >= b->count);
			sal_pages_give(p, b->span, state_of);
			b->span = SAL_NO_SPAN;
		} else {
			b->count = 1 + (uint32_t)rng_below(&rng, 12);
			b->span = sal_pages_take(p, SAL_MAIN_RANGE, b->count,
						 1u << rng_below(&rng, 3), state_of);
			if (!b->span)
				b->span = sal_pages_take_lowest(p, SAL_MAIN_RANGE, b->count,
								1u << rng_below(&rng, 3), &warm);
		}
		assert_true(sal_pages_check(p));
	}
	for (size_t i = 0; i < 256; i++)
		if (blocks[i].span)
			sal_pages_give(p, blocks[i].span, SAL_SPAN_COLD);
	while (sal_pages_largest(p, SAL_MAIN_RANGE, SAL_SPAN_WARM)) {
		uint32_t span = sal_pages_largest(p, SAL_MAIN_RANGE, SAL_SPAN_WARM);

		span = sal_pages_take_end(p, span, 1 + (uint32_t)rng_below(&rng, 12));
		sal_pages_give(p, span, SAL_SPAN_COLD);
		assert_true(sal_pages_check(p));
	}
	assert_true(sal_pages_check(p));
	assert_true(sal_pages_take(p, SAL_MAIN_RANGE, PAGES, 1, SAL_SPAN_COLD));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_neighbours_become_one, start, stop),
		cmocka_unit_test_setup_teardown(test_warm_and_cold_stay_apart, start, stop),
		cmocka_unit_test_setup_teardown(test_alignment, start, stop),
		cmocka_unit_test_setup_teardown(test_ranges_stay_apart, start, stop),
		cmocka_unit_test_setup_teardown(test_grows_at_its_end, start, stop),
		cmocka_unit_test_setup_teardown(test_full, start, stop),
		cmocka_unit_test_setup_teardown(test_random, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
