/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes - `salus lanes`: the device's memory as a picture, and a legend with the numbers.
 */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/field.h"
#include "cli/memory_map.h"
#include "cli/screen.h"

#define CELLS_USUAL 80

static void print_bar(const struct cli_map *map, double capacity, bool is_utf8)
{
	const char *edge = is_utf8 ? "│" : "|";
	char all[SAL_UNITS_TEXT];
	size_t i;

	(void)printf(" %s\n%s", map->tag, edge);
	for (i = 0; i < map->cells; i++)
		(void)fputs(cli_map_glyph(map->part[i], is_utf8), stdout);
	(void)printf("%s\n 0%*s\n\n", edge, (int)map->cells - 1,
		     cli_number_text(capacity, CLI_BYTES, all, sizeof(all)));
}

/* A row of the legend. */
static void add_row(struct cli_table *table, char tag, const char *what, double bytes,
		    double capacity)
{
	char key[2] = { tag, '\0' }, text[SAL_UNITS_TEXT];

	cli_table_add(table, key);
	cli_table_add(table, what);
	cli_table_add(table, cli_number_text(bytes, CLI_BYTES, text, sizeof(text)));
	(void)snprintf(text, sizeof(text), "%.1f%%", capacity > 0 ? 100 * bytes / capacity : 0.0);
	cli_table_add(table, text);
}

static void add_sessions(struct cli_table *table, const json_t *reply, double capacity)
{
	const json_t *sessions = json_object_get(reply, "sessions");
	size_t i, drawn = 0;

	for (i = 0; i < json_array_size(sessions); i++) {
		const json_t *s = json_array_get(sessions, i);
		double held = cli_json_number(s, "held_bytes");
		double lane = cli_json_number(s, "lane");
		char what[200], paged[SAL_UNITS_TEXT], note[100];

		(void)snprintf(what, sizeof(what), "%.128s (id %.0f)", cli_json_text(s, "name"),
			       cli_json_number(s, "id"));
		add_row(table, held > 0 ? cli_map_session_tag(drawn++) : ' ', what, held, capacity);
		(void)snprintf(note, sizeof(note), lane >= 0 ? "%s, lane %.0f" : "%s",
			       cli_json_text(s, "state"), lane);
		if (cli_json_number(s, "paged_bytes") > 0)
			(void)snprintf(note + strlen(note), sizeof(note) - strlen(note),
				       ", %s on the host",
				       cli_number_text(cli_json_number(s, "paged_bytes"), CLI_BYTES,
						       paged, sizeof(paged)));
		cli_table_add(table, note);
	}
}

/* For example "runs id 3; 10.2 MiB in memory; of ids 1, 3, 7". */
static void note_lane(const json_t *lane, char *note, size_t size)
{
	const json_t *ids = json_object_get(lane, "sessions");
	const json_t *running = json_object_get(lane, "running");
	const json_t *real = json_object_get(lane, "real");
	char bytes[SAL_UNITS_TEXT];
	size_t i, used;

	used = (size_t)(json_is_integer(running)
				? snprintf(note, size, "runs id %.0f", json_number_value(running))
				: snprintf(note, size, "at rest"));
	if (json_is_object(real))
		used += (size_t)snprintf(note + used, size - used, "; %s in memory",
					 cli_number_text(cli_json_number(real, "resident_bytes"),
							 CLI_BYTES, bytes, sizeof(bytes)));
	for (i = 0; i < json_array_size(ids) && used + 24 < size; i++)
		used += (size_t)snprintf(note + used, size - used, "%s%.0f", i ? ", " : "; of ids ",
					 json_number_value(json_array_get(ids, i)));
}

static void add_lanes(struct cli_table *table, const json_t *reply, double capacity)
{
	const json_t *lanes = json_object_get(reply, "lanes");
	size_t i;

	for (i = 0; i < json_array_size(lanes); i++) {
		const json_t *lane = json_array_get(lanes, i);
		double index = cli_json_number(lane, "index");
		char what[32], note[160];

		(void)snprintf(what, sizeof(what), "lane %.0f", index);
		add_row(table, cli_map_lane_tag(cli_json_count(lane, "index")), what,
			cli_json_number(lane, "bytes"), capacity);
		note_lane(lane, note, sizeof(note));
		cli_table_add(table, note);
	}
}

static int print_legend(const json_t *reply, double capacity, double free_bytes, bool is_utf8)
{
	static const struct cli_column columns[] = {
		{ "", false, 0, 0 },	  { "what", false, 32, 0 }, { "bytes", true, 0, 0 },
		{ "of all", true, 0, 0 }, { "", false, 0, 1 },
	};
	struct cli_table table;
	bool ok;

	cli_table_init(&table, columns, SAL_COUNT(columns));
	add_sessions(&table, reply, capacity);
	add_row(&table, ' ', "free", free_bytes, capacity);
	cli_table_add(&table, is_utf8 ? "·" : ".");
	add_lanes(&table, reply, capacity);
	ok = cli_table_print(&table, stdout);
	cli_table_fini(&table);
	return ok ? CLI_OK : cli_no_memory();
}

static void print_gain(const json_t *device)
{
	char gain[CLI_GAIN_TEXT];

	if (*cli_gain_text(device, gain, sizeof(gain)))
		(void)printf("%s\n", gain);
	(void)printf("\n");
}

/* Only a host device says what is really there. */
static void print_real(const json_t *device)
{
	const json_t *real = json_object_get(device, "real");
	char texts[3][SAL_UNITS_TEXT];

	if (!json_is_object(real))
		return;
	(void)printf("\nreally in memory: %s for jobs and %s for the next iterations, at most %s\n",
		     cli_number_text(cli_json_number(real, "sessions_bytes"), CLI_BYTES, texts[0],
				     SAL_UNITS_TEXT),
		     cli_number_text(cli_json_number(real, "spare_bytes"), CLI_BYTES, texts[1],
				     SAL_UNITS_TEXT),
		     cli_number_text(cli_json_number(real, "peak_bytes"), CLI_BYTES, texts[2],
				     SAL_UNITS_TEXT));
}

static int print_lanes(const json_t *reply)
{
	const json_t *device = json_object_get(reply, "device");
	double capacity = cli_json_number(device, "capacity_bytes");
	double persist = cli_json_number(device, "persist_bytes");
	double lanes = cli_json_number(device, "lane_sum_bytes");
	size_t width = cli_screen_width(), count = json_array_size(json_object_get(reply, "lanes"));
	char texts[4][SAL_UNITS_TEXT];
	bool is_utf8 = cli_screen_is_utf8();
	struct cli_map map;

	if (width == 0)
		width = CELLS_USUAL;
	(void)printf("%s, %s: %s persistent, %s in %zu lane%s of at most %.0f, %s free\n",
		     cli_json_text(device, "platform"),
		     cli_number_text(capacity, CLI_BYTES, texts[0], SAL_UNITS_TEXT),
		     cli_number_text(persist, CLI_BYTES, texts[1], SAL_UNITS_TEXT),
		     cli_number_text(lanes, CLI_BYTES, texts[2], SAL_UNITS_TEXT), count,
		     count == 1 ? "" : "s", cli_json_number(device, "lane_limit"),
		     cli_number_text(capacity - persist - lanes, CLI_BYTES, texts[3],
				     SAL_UNITS_TEXT));
	print_gain(device);
	cli_map_make(&map, reply, width > 12 ? width - 2 : 10);
	print_bar(&map, capacity, is_utf8);
	if (print_legend(reply, capacity, capacity - persist - lanes, is_utf8) != CLI_OK)
		return CLI_FAILED;
	print_real(device);
	return cli_flush();
}

static int run_lanes(int argc, char **argv)
{
	json_t *reply;
	bool json;
	int rc = cli_parse_json_flag(&cli_cmd_lanes, argc, argv, &json);

	if (rc == CLI_OK)
		rc = cli_ask(json_pack("{s:s}", "op", "ps"), &reply);
	if (rc != CLI_OK)
		return rc;
	if (json) {
		json_t *part = json_pack("{s:O, s:O*, s:O*, s:O*}", "ok",
					 json_object_get(reply, "ok"), "device",
					 json_object_get(reply, "device"), "lanes",
					 json_object_get(reply, "lanes"), "sessions",
					 json_object_get(reply, "sessions"));

		rc = cli_json_print(part);
		json_decref(part);
	} else {
		rc = print_lanes(reply);
	}
	json_decref(reply);
	return rc;
}

const struct cli_command cli_cmd_lanes = {
	.name = "lanes",
	.summary = "the device's memory: who holds what, and the lanes",
	.usage =
		"[--json] [--socket PATH]\n"
		"\n"
		"Persistent memory grows from the left, one part for each job on the device. Lanes lie at\n"
		"the right end. Each lane is as large as the largest scratch of its jobs.\n"
		"\n"
		"The second line says how many lanes ran side by side in the last seconds, and how much\n"
		"all of them did together, against one job that runs alone.\n"
		"\n"
		"On a host device, the last line says what is really in memory now, and the most so far.\n",
	.run = run_lanes,
};
