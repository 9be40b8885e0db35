/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_map - the device's memory as one bar.
 *
 *     a              b                                      1      0
 *     |##############%%%%%%%%.............................==----|
 *      persistent bytes of each session ->    free    <- lanes
 *
 * What is there takes at least one cell, so nothing is invisible for being small.
 */
#ifndef SAL_CLI_MEMORY_MAP_H
#define SAL_CLI_MEMORY_MAP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define CLI_MAP_CELLS_MAX 256

/* One cell: whose it is, and how to draw it. */
enum cli_map_part {
	CLI_MAP_FREE,
	CLI_MAP_SESSION, /* and the next one in another shade */
	CLI_MAP_SESSION_NEXT,
	CLI_MAP_LANE,
	CLI_MAP_LANE_NEXT
};

struct cli_map {
	size_t cells;
	enum cli_map_part part[CLI_MAP_CELLS_MAX];
	char tag[CLI_MAP_CELLS_MAX + 1]; /* names, where they begin; blanks between */
};

/* Of an answer to "ps". */
void cli_map_make(struct cli_map *map, const json_t *reply, size_t cells);

/* The name of the n-th session with memory in the map (a, b, ...), or of a lane (0, 1, ...). */
char cli_map_session_tag(size_t n);
char cli_map_lane_tag(size_t index);

/* A cell as text. */
const char *cli_map_glyph(enum cli_map_part part, bool is_utf8);

#endif
