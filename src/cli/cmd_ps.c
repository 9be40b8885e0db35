/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_ps - `salus ps`: the sessions of the daemon, one row each.
 *
 * A field that a daemon of another version does not send shows as "-".
 */
#include <stdio.h>

#include "base/units.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/table.h"

enum unit {
	TEXT,
	COUNT, /* negative: none */
	REAL,
	SECONDS,
	BYTES
};

struct field {
	struct cli_column column;
	const char *key;
	enum unit unit;
};

static const struct field fields[] = {
	{ { "id", true, 0 }, "id", COUNT },
	{ { "name", false, 32 }, "name", TEXT },
	{ { "state", false, 0 }, "state", TEXT },
	{ { "lane", true, 0 }, "lane", COUNT },
	{ { "iterations", true, 0 }, "iterations", COUNT },
	{ { "used", true, 0 }, "used_s", SECONDS },
	{ { "queued", true, 0 }, "queued", COUNT },
	{ { "persistent", true, 0 }, "persist_bytes", BYTES },
	{ { "ephemeral", true, 0 }, "ephem_bytes", BYTES },
	{ { "weight", true, 0 }, "weight", REAL },
	{ { "priority", true, 0 }, "priority", COUNT },
	{ { "age", true, 0 }, "age_s", SECONDS },
	{ { "pid", true, 0 }, "pid", COUNT },
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* A number as text; "-" for one that makes no sense. */
static const char *number_text(double value, enum unit unit, char *buf, size_t size)
{
	if (!(value >= 0 && value < 9e18))
		return "-";
	if (unit == SECONDS)
		return sal_duration_format(cli_seconds_to_ns(value), buf, size);
	if (unit == BYTES)
		return sal_bytes_format((uint64_t)value, buf, size);
	(void)snprintf(buf, size, unit == REAL ? "%.4g" : "%.0f", value);
	return buf;
}

static void add_field(struct cli_table *table, const struct field *field, const json_t *session)
{
	const json_t *value = json_object_get(session, field->key);
	char buf[SAL_UNITS_TEXT];

	if (field->unit == TEXT && json_is_string(value))
		cli_table_add(table, json_string_value(value));
	else if (field->unit != TEXT && json_is_number(value))
		cli_table_add(table,
			      number_text(json_number_value(value), field->unit, buf, sizeof(buf)));
	else
		cli_table_add(table, "-");
}

static int print_sessions(const json_t *sessions)
{
	struct cli_column columns[FIELDS];
	struct sal_err err = { 0 };
	struct cli_table table;
	size_t i, f;
	bool ok;

	for (f = 0; f < FIELDS; f++)
		columns[f] = fields[f].column;
	cli_table_init(&table, columns, FIELDS);
	for (i = 0; i < json_array_size(sessions); i++)
		for (f = 0; f < FIELDS; f++)
			add_field(&table, &fields[f], json_array_get(sessions, i));
	ok = cli_table_print(&table, stdout);
	cli_table_fini(&table);
	if (ok)
		return CLI_OK;
	(void)sal_err_set(&err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	return cli_fail(CLI_FAILED, &err);
}

static long long count_of(const json_t *object, const char *key)
{
	return (long long)json_integer_value(json_object_get(object, key));
}

/* One line about the daemon as a whole. */
static void print_summary(const json_t *reply)
{
	const json_t *programs = json_object_get(reply, "programs");

	(void)printf("policy %s", cli_json_text(reply, "policy"));
	if (programs)
		(void)printf("; programs: %lld compiled, %lld found in memory, %lld on disk",
			     count_of(programs, "compiled"), count_of(programs, "memory_hits"),
			     count_of(programs, "disk_hits"));
	(void)printf("\n");
}

static int print_ps(const json_t *reply)
{
	const json_t *sessions = json_object_get(reply, "sessions");

	if (json_array_size(sessions) == 0)
		(void)printf("no sessions; `salus run -- CMD` starts a job\n");
	else if (print_sessions(sessions) != CLI_OK)
		return CLI_FAILED;
	print_summary(reply);
	return cli_flush();
}

static int run_ps(int argc, char **argv)
{
	json_t *reply;
	bool json;
	int rc = cli_parse_json_flag(&cli_cmd_ps, argc, argv, &json);

	if (rc == CLI_OK)
		rc = cli_ask(json_pack("{s:s}", "op", "ps"), &reply);
	if (rc != CLI_OK)
		return rc;
	rc = json ? cli_json_print(reply) : print_ps(reply);
	json_decref(reply);
	return rc;
}

const struct cli_command cli_cmd_ps = {
	.name = "ps",
	.summary = "the sessions: what they do, use and hold",
	.usage =
		"[--json]\n"
		"\n"
		"  state       running, ready (its turn will come), waiting (for memory), idle (has\n"
		"              nothing to run) or paused\n"
		"  used        device time so far\n"
		"  queued      iterations that wait\n"
		"  persistent  device memory held between iterations\n"
		"  ephemeral   scratch while an iteration runs, shared with the others of its lane\n",
	.run = run_ps,
};
