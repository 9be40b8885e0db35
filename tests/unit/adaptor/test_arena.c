/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's side of the arena: ranges never overlap, are aligned, and are completely freed. */
#include "adaptor/daemon/arena.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/socket.h"
#include "support/rng.h"

#define SEGMENT (UINT64_C(1) << 20)
#define LIVE 200

static int segment_fd(uint64_t bytes)
{
	int fd = sal_shared_create("test", bytes, NULL);

	assert_true(fd >= 0);
	return fd;
}

static struct adp_arena *arena_with(unsigned int segments)
{
	struct adp_arena *arena = adp_arena_create();
	struct sal_err err = { 0 };
	unsigned int i;

	assert_non_null(arena);
	for (i = 0; i < segments; i++)
		assert_int_equal(adp_arena_add(arena, segment_fd(SEGMENT), SEGMENT, &err), SAL_OK);
	return arena;
}

static void a_whole_segment_fits(void **state)
{
	struct adp_arena *arena = arena_with(1);
	struct adp_range r, more;

	(void)state;
	assert_false(adp_arena_try(arena, 0, &r));
	assert_false(adp_arena_try(arena, SEGMENT + 1, &r));
	assert_false(adp_arena_try(arena, UINT64_MAX, &r));
	assert_true(adp_arena_try(arena, SEGMENT, &r));
	assert_false(adp_arena_try(arena, 1, &more));
	memset(r.at, 1, SEGMENT);
	adp_arena_free(arena, &r.place);
	assert_true(adp_arena_try(arena, 1, &more));
	assert_ptr_equal(more.at, r.at);
	adp_arena_destroy(arena);
}

/* The daemon names the ranges that it has finished with. An invalid range changes nothing. */
static void nonsense_is_ignored(void **state)
{
	struct adp_arena *arena = arena_with(1);
	struct adp_range a, b, c;
	struct sal_place_in_arena place;

	(void)state;
	assert_true(adp_arena_try(arena, SEGMENT / 2, &a));
	assert_true(adp_arena_try(arena, SEGMENT / 2, &b));
	place = (struct sal_place_in_arena){ .segment = 7 };
	adp_arena_free(arena, &place);
	place = (struct sal_place_in_arena){ .offset = 64 };
	adp_arena_free(arena, &place);
	place = (struct sal_place_in_arena){ .offset = UINT64_MAX };
	adp_arena_free(arena, &place);
	assert_false(adp_arena_try(arena, 1, &c));
	adp_arena_free(arena, &a.place);
	adp_arena_free(arena, &a.place); /* a second time */
	assert_true(adp_arena_try(arena, SEGMENT / 2, &c));
	assert_false(adp_arena_try(arena, 1, &a));
	adp_arena_destroy(arena);
}

static void a_segment_of_another_size_is_refused(void **state)
{
	struct adp_arena *arena = arena_with(0);
	struct sal_err err = { 0 };
	struct adp_range r;

	(void)state;
	assert_true(adp_arena_add(arena, segment_fd(4096), 8192, &err) < 0);
	assert_false(adp_arena_try(arena, 1, &r));
	adp_arena_destroy(arena);
}

static void there_is_a_most_of_segments(void **state)
{
	struct adp_arena *arena = arena_with(0);
	struct sal_err err = { 0 };
	struct adp_range r;
	unsigned int i;

	(void)state;
	for (i = 0; i < SAL_SEGMENTS_MAX; i++)
		assert_int_equal(adp_arena_add(arena, segment_fd(4096), 4096, &err), SAL_OK);
	assert_int_equal(adp_arena_add(arena, segment_fd(4096), 4096, &err),
			 -SAL_RESOURCE_EXHAUSTED);
	for (i = 0; i < SAL_SEGMENTS_MAX; i++) {
		assert_true(adp_arena_try(arena, 4096, &r));
		assert_int_equal(r.place.segment, i);
	}
	assert_false(adp_arena_try(arena, 1, &r));
	adp_arena_destroy(arena);
}

/* Small ranges are aligned for the vendor. Large ranges fill whole pages. */
static void ranges_are_rounded_up(void **state)
{
	struct adp_arena *arena = arena_with(1);
	struct adp_range first, second, third;

	(void)state;
	assert_true(adp_arena_try(arena, 4097, &first));
	assert_true(adp_arena_try(arena, 1, &second));
	assert_true(adp_arena_try(arena, 65, &third));
	assert_int_equal(first.place.offset, 0);
	assert_int_equal(first.place.size, 4097);
	assert_int_equal(second.place.offset, 8192);
	assert_int_equal(third.place.offset, 8192 + 64);
	adp_arena_destroy(arena);
}

#define SLOTS (SEGMENT / 64)

/* Many more ranges are in use than the table has entries. Each range is found by its place. */
static void each_is_freed_by_its_own_place(void **state)
{
	struct adp_arena *arena = arena_with(2);
	struct adp_range r;
	struct rng rng = { 1 };
	unsigned int i;

	(void)state;
	for (i = 0; i < 2 * SLOTS; i++)
		assert_true(adp_arena_try(arena, 64, &r));
	assert_false(adp_arena_try(arena, 64, &r));
	for (i = 0; i < 2000; i++) {
		struct sal_place_in_arena place = { .segment = (uint32_t)rng_below(&rng, 2),
						    .offset = 64 * rng_below(&rng, SLOTS),
						    .size = 64 };

		adp_arena_free(arena, &place);
		assert_true(adp_arena_try(arena, 64, &r));
		assert_int_equal(r.place.segment, place.segment);
		assert_int_equal(r.place.offset, place.offset);
	}
	adp_arena_destroy(arena);
}

/* A descriptor is closed once its segment is mapped. Mappings end with the arena. */
static void nothing_is_left_behind(void **state)
{
	struct stat before, after;
	int fd = segment_fd(SEGMENT), copy = dup(fd);
	struct adp_arena *arena = arena_with(0);
	struct sal_err err = { 0 };
	struct adp_range r;
	unsigned char there;

	(void)state;
	assert_int_equal(fstat(fd, &before), 0);
	assert_int_equal(adp_arena_add(arena, copy, SEGMENT, &err), SAL_OK);
	assert_int_equal(fstat(copy, &after), -1); /* the arena closed the descriptor */
	assert_true(adp_arena_try(arena, SEGMENT, &r));
	assert_int_equal(mincore(r.at, 4096, &there), 0);
	adp_arena_destroy(arena);
	assert_int_equal(mincore(r.at, 4096, &there), -1);
	assert_int_equal(errno, ENOMEM);
	(void)close(fd);
}

static bool overlap(const struct adp_range *a, const struct adp_range *b)
{
	return a->place.segment == b->place.segment &&
	       a->place.offset < b->place.offset + b->place.size &&
	       b->place.offset < a->place.offset + a->place.size;
}

static void random_ranges_are_apart(void **state)
{
	struct adp_arena *arena = arena_with(3);
	struct adp_range live[LIVE], r;
	uint64_t seed = (uint64_t)time(NULL);
	struct rng rng = { seed };
	size_t count = 0, i;
	int step;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (step = 0; step < 20000; step++) {
		uint64_t size = 1 + rng_below(&rng, rng_below(&rng, 4) ? 5000 : 200000);

		if (count < LIVE && rng_below(&rng, 2) && adp_arena_try(arena, size, &r)) {
			assert_int_equal(r.place.size, size);
			assert_true(r.place.offset + size <= SEGMENT);
			assert_int_equal(r.place.offset % 64, 0);
			for (i = 0; i < count; i++)
				assert_false(overlap(&live[i], &r));
			memset(r.at, step, (size_t)size);
			live[count++] = r;
		} else if (count > 0) {
			i = (size_t)rng_below(&rng, count);
			adp_arena_free(arena, &live[i].place);
			live[i] = live[--count];
		}
	}
	while (count > 0)
		adp_arena_free(arena, &live[--count].place);
	for (i = 0; i < 3; i++) /* each segment was freed in one piece */
		assert_true(adp_arena_try(arena, SEGMENT, &live[i]));
	adp_arena_destroy(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_segment_fits),
		cmocka_unit_test(nonsense_is_ignored),
		cmocka_unit_test(a_segment_of_another_size_is_refused),
		cmocka_unit_test(there_is_a_most_of_segments),
		cmocka_unit_test(ranges_are_rounded_up),
		cmocka_unit_test(each_is_freed_by_its_own_place),
		cmocka_unit_test(nothing_is_left_behind),
		cmocka_unit_test(random_ranges_are_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
