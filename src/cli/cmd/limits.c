/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits - `salus limits`: the limit of each resource, and how much of it is used.
 */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/field.h"
#include "cli/screen.h"

static const struct cli_column columns[] = {
	{ "option", false, 0, 0 },   { "used", true, 0, 0 }, { "limit", true, 0, 0 },
	{ "most by", false, 32, 1 }, { "", false, 0, 2 },
};

static enum cli_unit unit_of(const json_t *row)
{
	const char *unit = cli_json_text(row, "unit");

	if (strcmp(unit, "bytes") == 0)
		return CLI_BYTES;
	if (strcmp(unit, "seconds") == 0)
		return CLI_SECONDS;
	return strcmp(unit, "real") == 0 ? CLI_REAL : CLI_COUNT;
}

/* The number of a key, or a text that replaces it. */
static void add_number(struct cli_table *table, const json_t *row, const char *key,
		       const char *none)
{
	char text[SAL_UNITS_TEXT], with_unit[SAL_UNITS_TEXT + 2];

	if (!json_is_number(json_object_get(row, key))) {
		cli_table_add(table, none);
		return;
	}
	(void)snprintf(with_unit, sizeof(with_unit), "%s%s",
		       cli_number_text(cli_json_number(row, key), unit_of(row), text, sizeof(text)),
		       strcmp(cli_json_text(row, "unit"), "per_s") == 0 ? "/s" : "");
	cli_table_add(table, with_unit);
}

static int show_limits(const json_t *reply, const void *unused)
{
	const json_t *limits = json_object_get(reply, "limits");
	struct cli_table table;
	size_t i;
	bool ok;

	(void)unused;
	cli_table_init(&table, columns, SAL_COUNT(columns));
	for (i = 0; i < json_array_size(limits); i++) {
		const json_t *row = json_array_get(limits, i);

		cli_table_add(&table, cli_json_text(row, "option"));
		add_number(&table, row, "used", "-");
		add_number(&table, row, "limit", "none");
		cli_table_add(&table, cli_json_text(row, "by"));
		cli_table_add(&table, cli_json_text(row, "help"));
	}
	cli_table_fit(&table, cli_screen_width());
	ok = cli_table_print(&table, stdout);
	cli_table_fini(&table);
	return ok ? cli_flush() : cli_no_memory();
}

static int run_limits(int argc, char **argv)
{
	bool json;
	int rc = cli_parse_json_flag(&cli_cmd_limits, argc, argv, &json);

	if (rc != CLI_OK)
		return rc;
	return cli_ask_and_show(json_pack("{s:s}", "op", "limits"), json, show_limits, NULL);
}

const struct cli_command cli_cmd_limits = {
	.name = "limits",
	.summary = "the limits of jobs and users, and how much is used",
	.usage =
		"[--json] [--socket PATH]\n"
		"\n"
		"A limit holds for each job (job-...), for all jobs of a user together (user-...) or for\n"
		"all jobs together (daemon-...). Of jobs and users, `used` shows the one that uses most.\n"
		"Limits are set when salusd starts: `salusd --limit job-buffers=200000`, or a line\n"
		"`job-buffers = 200000` in its configuration file; `none` means no limit.\n"
		"\n"
		"A request over a limit fails with RESOURCE_EXHAUSTED and the name of the option.\n",
	.run = run_limits,
};
