/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory: the search for a lane, in which each step tests the whole sum; the places of lanes; sizes
 * that overflow.
 */
#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MIB (UINT64_C(1) << 20)
#define WAIT (-1)

static const struct sal_lane_choice any_lane = { .allowed = UINT64_MAX, .may_open = true };
static const struct sal_lane_choice open_lanes = { .allowed = UINT64_MAX, .may_open = false };

/* A device of 1000 bytes with `persist` persistent bytes and lanes of these sizes. */
static struct sal_memory device(uint64_t persist, const uint64_t *lanes, uint32_t count)
{
	struct sal_memory m;

	sal_memory_init(&m, 1000);
	m.persist_bytes = persist;
	for (uint32_t i = 0; i < count; i++)
		sal_memory_resize(&m, i, lanes[i], true);
	return m;
}

static void admit(struct sal_memory *m, struct sal_needs needs, int lane)
{
	uint64_t size = m->lane_bytes[lane];

	m->persist_bytes += needs.persist_bytes;
	sal_memory_resize(m, (uint32_t)lane, size > needs.ephem_bytes ? size : needs.ephem_bytes,
			  true);
	assert_true(m->persist_bytes + m->lane_sum_bytes <= m->capacity_bytes);
}

struct search {
	const char *what;
	uint64_t persist;
	uint64_t lanes[3];
	uint32_t lane_count;
	struct sal_needs needs;
	bool may_open;
	int want;
};

static const struct search searches[] = {
	/* open */
	{ "a new lane on an empty device", 0, { 0 }, 0, { 100, 900 }, true, 0 },
	{ "a new lane beside others, though one would do",
	  100,
	  { 300, 200 },
	  2,
	  { 50, 200 },
	  true,
	  2 },
	{ "a new lane that fits to the byte", 100, { 300 }, 1, { 100, 500 }, true, 1 },
	{ "no new lane for one byte more", 100, { 300 }, 1, { 101, 500 }, true, 0 },
	{ "no new lane if none is allowed", 100, { 300 }, 1, { 100, 100 }, false, 0 },
	{ "a new lane that needs no scratch", 1000, { 0 }, 0, { 0, 0 }, true, 0 },
	/* best fit */
	{ "the lane that wastes least", 100, { 400, 250, 200 }, 3, { 20, 220 }, false, 1 },
	{ "the exact one", 100, { 400, 250, 200 }, 3, { 20, 200 }, false, 2 },
	{ "the first of two alike", 100, { 300, 200, 200 }, 3, { 20, 150 }, false, 1 },
	{ "no growth if one is large enough", 100, { 500, 100 }, 2, { 20, 150 }, false, 0 },
	{ "a lane large enough, but P exceeds the sum", 400, { 500 }, 1, { 101, 100 }, true, WAIT },
	{ "the same, one byte less", 400, { 500 }, 1, { 100, 100 }, true, 0 },
	/* grow */
	{ "the smallest grows", 100, { 200, 100, 150 }, 3, { 50, 300 }, false, 1 },
	{ "the smallest that works grows", 100, { 350, 100, 200 }, 3, { 50, 400 }, false, 2 },
	{ "P and growth fit to the byte", 100, { 200, 100 }, 2, { 100, 600 }, false, 1 },
	{ "a larger one, if that exceeds by one byte", 100, { 200, 100 }, 2, { 100, 601 }, false, 0 },
	/* wait */
	{ "no lane can grow enough", 300, { 200, 200 }, 2, { 50, 500 }, false, WAIT },
	{ "no lane at all", 300, { 0 }, 0, { 50, 500 }, false, WAIT },
	{ "P alone exceeds", 900, { 50 }, 1, { 51, 0 }, true, WAIT },
	{ "never more than the device", 0, { 0 }, 0, { 1, 1000 }, true, WAIT },
};

static void test_search(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(searches); i++) {
		const struct search *s = &searches[i];
		struct sal_memory m = device(s->persist, s->lanes, s->lane_count);
		int got = sal_memory_find(&m, s->needs, s->may_open ? any_lane : open_lanes);

		if (got != s->want)
			fail_msg("%s: got %d, want %d", s->what, got, s->want);
		if (got >= 0)
			admit(&m, s->needs, got);
	}
}

static void test_only_allowed_lanes(void **state)
{
	static const uint64_t lanes[] = { 200, 300, 100 };
	struct sal_memory m = device(100, lanes, 3);
	struct sal_needs needs = { 10, 150 };

	(void)state;
	assert_int_equal(sal_memory_find(&m, needs, (struct sal_lane_choice){ .allowed = 6 }), 1);
	assert_int_equal(sal_memory_find(&m, needs, (struct sal_lane_choice){ .allowed = 4 }), 2);
	assert_int_equal(sal_memory_find(&m, needs, (struct sal_lane_choice){ .allowed = 0 }),
			 WAIT);
	/* A lane that is allowed but closed does not count. */
	assert_int_equal(sal_memory_find(&m, needs, (struct sal_lane_choice){ .allowed = 8 }),
			 WAIT);
}

static void test_lanes_run_out(void **state)
{
	struct sal_memory m = device(0, NULL, 0);
	struct sal_needs needs = { 1, 1 };

	(void)state;
	for (int i = 0; i < SAL_LANES_MAX; i++) {
		assert_int_equal(sal_memory_find(&m, needs, any_lane), i);
		admit(&m, needs, i);
	}
	/* All lanes are open: the session shares one, although there is memory for more. */
	assert_true(sal_memory_free(&m) > 2);
	assert_int_equal(sal_memory_find(&m, needs, any_lane), 0);
}

/* Without margins, two ResNet-152 share one lane of a P100. Two lanes do not fit. */
static void test_two_resnet152_share_a_lane(void **state)
{
	struct sal_needs resnet152 = { 822 * MIB, 14172 * MIB };
	struct sal_memory m;
	int lane;

	(void)state;
	sal_memory_init(&m, 15976 * MIB);
	lane = sal_memory_find(&m, resnet152, any_lane);
	assert_int_equal(lane, 0);
	admit(&m, resnet152, lane);
	lane = sal_memory_find(&m, resnet152, any_lane);
	assert_int_equal(lane, 0);
	admit(&m, resnet152, lane);
	assert_int_equal(m.open_mask, 1);
	assert_int_equal(sal_memory_free(&m), 160 * MIB);
	assert_int_equal(sal_memory_find(&m, resnet152, any_lane), WAIT);
}

static void test_homes_are_contiguous_from_the_top(void **state)
{
	static const uint64_t lanes[] = { 200, 50, 300 };
	struct sal_memory m = device(100, lanes, 3);

	(void)state;
	assert_int_equal(sal_memory_home(&m, 0), 800);
	assert_int_equal(sal_memory_home(&m, 1), 750);
	assert_int_equal(sal_memory_home(&m, 2), 450);
	/* If a lane closes or shrinks, the lanes below it move up. */
	sal_memory_resize(&m, 0, 0, false);
	assert_int_equal(sal_memory_home(&m, 1), 950);
	assert_int_equal(sal_memory_home(&m, 2), 650);
	sal_memory_resize(&m, 1, 10, true);
	assert_int_equal(sal_memory_home(&m, 2), 690);
	assert_int_equal(m.lane_sum_bytes, 310);
	/* A new lane takes the free place. The other lanes make room at their boundaries. */
	assert_int_equal(sal_memory_find(&m, (struct sal_needs){ 0, 100 }, any_lane), 0);
}

static void test_sizes_that_overflow(void **state)
{
	static const uint64_t lanes[] = { 200 };
	static const uint64_t sizes[] = { 1001, UINT64_MAX / 2, UINT64_MAX - 500, UINT64_MAX };
	struct sal_memory m = device(300, lanes, 1);

	(void)state;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct sal_needs needs[] = { { sizes[i], 0 },
					     { 0, sizes[i] },
					     { sizes[i], sizes[i] },
					     { UINT64_MAX - sizes[i] + 1, sizes[i] } };

		for (size_t k = 0; k < COUNT(needs); k++)
			assert_int_equal(sal_memory_find(&m, needs[k], any_lane), WAIT);
	}
}

static void test_nothing_below_what_runs(void **state)
{
	static const uint64_t lanes[] = { 100 };
	struct sal_memory m = device(300, lanes, 1);

	(void)state;
	/* An iteration still runs at 400: persistent bytes must stay below it. */
	m.floor_bytes = 400;
	assert_int_equal(sal_memory_find(&m, (struct sal_needs){ 100, 50 }, open_lanes), 0);
	assert_int_equal(sal_memory_find(&m, (struct sal_needs){ 101, 50 }, open_lanes), WAIT);
	assert_int_equal(sal_memory_find(&m, (struct sal_needs){ 0, 600 }, open_lanes), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_only_allowed_lanes),
		cmocka_unit_test(test_lanes_run_out),
		cmocka_unit_test(test_two_resnet152_share_a_lane),
		cmocka_unit_test(test_homes_are_contiguous_from_the_top),
		cmocka_unit_test(test_sizes_that_overflow),
		cmocka_unit_test(test_nothing_below_what_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
