/* SPDX-License-Identifier: Apache-2.0 */
/* memory_map: the bar, up to its last cell and not beyond. */
#include "cli/memory_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A reply with this many sessions and lanes of these sizes, on a device of 100 bytes. */
static json_t *reply_of(int sessions, int held, int lanes, int lane_bytes)
{
	json_t *s = json_array(), *l = json_array();
	int i;

	for (i = 0; i < sessions; i++)
		assert_int_equal(json_array_append_new(s, json_pack("{s:i}", "held_bytes", held)),
				 0);
	for (i = 0; i < lanes; i++)
		assert_int_equal(json_array_append_new(l, json_pack("{s:i, s:i}", "index", i,
								    "bytes", lane_bytes)),
				 0);
	return json_pack("{s:{s:i}, s:o, s:o}", "device", "capacity_bytes", 100, "sessions", s,
			 "lanes", l);
}

/* Asserts `cells` cells, each with a part and a tag, and no cell behind them. */
static void expect_whole(const struct cli_map *map, size_t cells)
{
	size_t i;

	assert_int_equal(map->cells, cells);
	assert_int_equal(strlen(map->tag), cells);
	for (i = 0; i < cells; i++)
		assert_true((unsigned int)map->part[i] <= CLI_MAP_LANE_NEXT);
	for (; i < CLI_MAP_CELLS_MAX; i++)
		assert_int_equal(map->part[i], CLI_MAP_FREE);
}

static void more_than_there_is_ends_at_the_last_cell(void **state)
{
	static const size_t cells[] = {
		1, 10, CLI_MAP_CELLS_MAX - 1, CLI_MAP_CELLS_MAX, CLI_MAP_CELLS_MAX + 1, 100000
	};
	struct cli_map map;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
		json_t *reply = reply_of(3, 70, 3, 70);

		cli_map_make(&map, reply, cells[i]);
		expect_whole(&map, cells[i] < CLI_MAP_CELLS_MAX ? cells[i] : CLI_MAP_CELLS_MAX);
		json_decref(reply);
		reply = reply_of(400, 1, 0, 0); /* more sessions than cells */
		cli_map_make(&map, reply, cells[i]);
		expect_whole(&map, cells[i] < CLI_MAP_CELLS_MAX ? cells[i] : CLI_MAP_CELLS_MAX);
		assert_int_not_equal(map.part[map.cells - 1], CLI_MAP_FREE);
		json_decref(reply);
	}
}

static void sessions_from_the_left_and_lanes_from_the_right(void **state)
{
	json_t *reply = reply_of(2, 30, 2, 10);
	struct cli_map map;

	(void)state;
	cli_map_make(&map, reply, 10);
	assert_string_equal(map.tag, "a  b    10");
	assert_int_equal(map.part[2], CLI_MAP_SESSION);
	assert_int_equal(map.part[3], CLI_MAP_SESSION_NEXT);
	assert_int_equal(map.part[5], CLI_MAP_SESSION_NEXT);
	assert_int_equal(map.part[6], CLI_MAP_FREE);
	assert_int_equal(map.part[7], CLI_MAP_FREE);
	assert_int_equal(map.part[8], CLI_MAP_LANE_NEXT);
	assert_int_equal(map.part[9], CLI_MAP_LANE);
	json_decref(reply);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_than_there_is_ends_at_the_last_cell),
		cmocka_unit_test(sessions_from_the_left_and_lanes_from_the_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
