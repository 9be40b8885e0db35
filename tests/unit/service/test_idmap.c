/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idmap: compared with a plain array, at all sizes, with ids that collide; and emptying a large
 * map.
 */
#include "service/idmap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/rng.h"

static char things[4096]; /* values are addresses in this array */

static void empty_has_nothing(void **state)
{
	struct svc_idmap map;

	(void)state;
	svc_idmap_init(&map);
	assert_null(svc_idmap_find(&map, 1));
	assert_null(svc_idmap_remove(&map, 1));
	assert_null(svc_idmap_pop(&map));
	svc_idmap_fini(&map);
}

static void id_zero_is_none(void **state)
{
	struct svc_idmap map;

	(void)state;
	svc_idmap_init(&map);
	assert_false(svc_idmap_add(&map, 0, things));
	assert_true(svc_idmap_add(&map, 7, things));
	assert_null(svc_idmap_find(&map, 0));
	assert_null(svc_idmap_remove(&map, 0));
	assert_int_equal(map.count, 1);
	svc_idmap_fini(&map);
}

static void an_id_is_taken_once(void **state)
{
	struct svc_idmap map;

	(void)state;
	svc_idmap_init(&map);
	assert_true(svc_idmap_add(&map, UINT64_MAX, things));
	assert_false(svc_idmap_add(&map, UINT64_MAX, things + 1));
	assert_ptr_equal(svc_idmap_find(&map, UINT64_MAX), things);
	assert_ptr_equal(svc_idmap_remove(&map, UINT64_MAX), things);
	assert_null(svc_idmap_find(&map, UINT64_MAX));
	assert_true(svc_idmap_add(&map, UINT64_MAX, things + 1));
	assert_ptr_equal(svc_idmap_find(&map, UINT64_MAX), things + 1);
	svc_idmap_fini(&map);
}

/* Ids as clients choose them: consecutive, far apart, and random. */
static uint64_t id_of(unsigned kind, uint64_t i)
{
	struct rng rng = { .state = i };

	switch (kind) {
	case 0:
		return i + 1;
	case 1:
		return (i + 1) << 32;
	case 2:
		return UINT64_MAX - i;
	default:
		return rng_next(&rng) | 1;
	}
}

/* Adds and removes ids at random. After each step, every id maps to its value. */
static void behaves_like_an_array(void **state)
{
	void *model[512] = { NULL };
	unsigned kind, step, i;
	struct rng rng = { .state = 3 };

	(void)state;
	for (kind = 0; kind < 4; kind++) {
		struct svc_idmap map;
		size_t count = 0;

		svc_idmap_init(&map);
		for (step = 0; step < 20000; step++) {
			size_t k = (size_t)rng_below(&rng, 512);
			void *value = things + k;

			if (rng_below(&rng, 2)) {
				assert_int_equal(svc_idmap_add(&map, id_of(kind, k), value),
						 !model[k]);
				count += !model[k];
				model[k] = value;
			} else {
				assert_ptr_equal(svc_idmap_remove(&map, id_of(kind, k)), model[k]);
				count -= model[k] != NULL;
				model[k] = NULL;
			}
			assert_int_equal(map.count, count);
			if (step % 16 == 0)
				for (i = 0; i < 512; i++)
					assert_ptr_equal(svc_idmap_find(&map, id_of(kind, i)),
							 model[i]);
		}
		for (i = 0; i < 512; i++)
			model[i] = NULL;
		svc_idmap_fini(&map);
	}
}

static void pop_gives_each_once(void **state)
{
	enum {
		COUNT = 3000
	};
	bool seen[COUNT] = { false };
	struct svc_idmap map;
	char *value;
	size_t i, n = 0;

	(void)state;
	svc_idmap_init(&map);
	for (i = 0; i < COUNT; i++)
		assert_true(svc_idmap_add(&map, id_of(3, i), things + i));
	while ((value = svc_idmap_pop(&map))) {
		assert_false(seen[value - things]);
		seen[value - things] = true;
		n++;
		/* Half-way, the removed ids are added again. */
		if (n == COUNT / 2)
			for (i = 0; i < COUNT; i++)
				if (seen[i]) {
					assert_true(svc_idmap_add(&map, id_of(3, i), things + i));
					seen[i] = false;
				}
	}
	for (i = 0; i < COUNT; i++)
		assert_true(seen[i]);
	assert_int_equal(map.count, 0);
	svc_idmap_fini(&map);
}

/*
 * A session with many buffers ends while all threads wait for the lock. Quadratic time would take
 * minutes.
 */
static void a_large_map_is_emptied_at_once(void **state)
{
	struct svc_idmap map;
	uint64_t i;

	(void)state;
	svc_idmap_init(&map);
	for (i = 1; i <= 300000; i++)
		assert_true(svc_idmap_add(&map, i, things));
	for (i = 1; i <= 300000; i++)
		assert_non_null(svc_idmap_pop(&map));
	assert_null(svc_idmap_pop(&map));
	svc_idmap_fini(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_has_nothing),
		cmocka_unit_test(id_zero_is_none),
		cmocka_unit_test(an_id_is_taken_once),
		cmocka_unit_test(behaves_like_an_array),
		cmocka_unit_test(pop_gives_each_once),
		cmocka_unit_test(a_large_map_is_emptied_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
