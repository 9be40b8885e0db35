/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/memory_map.h"

#include <string.h>

#include "cli/ask.h"

char cli_map_session_tag(size_t n)
{
	static const char tags[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	return n < sizeof(tags) - 1 ? tags[n] : '+';
}

char cli_map_lane_tag(size_t index)
{
	return index < 10 ? (char)('0' + index) : '*';
}

const char *cli_map_glyph(enum cli_map_part part, bool is_utf8)
{
	static const char *const blocks[] = { "·", "█", "▓", "▒", "░" };
	static const char *const plain[] = { ".", "#", "%", "=", "-" };

	return is_utf8 ? blocks[part] : plain[part];
}

static size_t cells_of(const struct cli_map *map, double bytes, double capacity)
{
	size_t cells;

	if (!(bytes > 0 && capacity > 0))
		return 0;
	cells = bytes < capacity ? (size_t)(bytes / capacity * (double)map->cells + 0.5)
				 : map->cells;
	return cells > 0 ? cells : 1;
}

static void fill(struct cli_map *map, size_t from, size_t count, enum cli_map_part part)
{
	size_t i;

	for (i = from; i < from + count && i < map->cells; i++)
		map->part[i] = part;
}

static void draw_sessions(struct cli_map *map, const json_t *sessions, double capacity)
{
	size_t i, at = 0, drawn = 0;

	for (i = 0; i < json_array_size(sessions) && at < map->cells; i++) {
		const json_t *session = json_array_get(sessions, i);
		size_t cells = cells_of(map, cli_json_number(session, "held_bytes"), capacity);

		if (cells == 0)
			continue;
		fill(map, at, cells, drawn % 2 ? CLI_MAP_SESSION_NEXT : CLI_MAP_SESSION);
		map->tag[at] = cli_map_session_tag(drawn++);
		at += cells;
	}
}

static void draw_lanes(struct cli_map *map, const json_t *lanes, double capacity)
{
	size_t i, end = map->cells;

	for (i = 0; i < json_array_size(lanes) && end > 0; i++) {
		const json_t *lane = json_array_get(lanes, i);
		size_t cells = cells_of(map, cli_json_number(lane, "bytes"), capacity);
		size_t at = cells < end ? end - cells : 0;

		if (cells == 0)
			continue;
		fill(map, at, end - at, i % 2 ? CLI_MAP_LANE_NEXT : CLI_MAP_LANE);
		map->tag[at] = cli_map_lane_tag(cli_json_count(lane, "index"));
		end = at;
	}
}

void cli_map_make(struct cli_map *map, const json_t *reply, size_t cells)
{
	double capacity = cli_json_number(json_object_get(reply, "device"), "capacity_bytes");

	memset(map, 0, sizeof(*map));
	map->cells = cells < CLI_MAP_CELLS_MAX ? cells : CLI_MAP_CELLS_MAX;
	memset(map->tag, ' ', map->cells);
	draw_sessions(map, json_object_get(reply, "sessions"), capacity);
	draw_lanes(map, json_object_get(reply, "lanes"), capacity);
}
