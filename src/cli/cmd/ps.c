/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps - `salus ps`: the jobs of the daemon, one row each.
 */
#include <stdio.h>

#include "base/array.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/field.h"

/* A narrow terminal shows fewer columns: those with the largest last number go first. */
static const struct cli_field fields[] = {
	{ { "id", true, 0, 0 }, "id", CLI_COUNT },
	{ { "name", false, 32, 0 }, "name", CLI_TEXT },
	{ { "state", false, 0, 0 }, "state", CLI_TEXT },
	{ { "lane", true, 0, 0 }, "lane", CLI_COUNT },
	{ { "iterations", true, 0, 0 }, "iterations", CLI_COUNT },
	{ { "used", true, 0, 0 }, "used_s", CLI_SECONDS },
	{ { "waited", true, 0, 1 }, "waited_s", CLI_SECONDS },
	{ { "queued", true, 0, 3 }, "queued", CLI_COUNT },
	{ { "persistent", true, 0, 0 }, "held_bytes", CLI_BYTES },
	{ { "framework", true, 0, 10 }, "framework_bytes", CLI_BYTES },
	{ { "ephemeral", true, 0, 2 }, "ephem_bytes", CLI_BYTES },
	{ { "weight", true, 0, 4 }, "weight", CLI_REAL },
	{ { "priority", true, 0, 5 }, "priority", CLI_COUNT },
	{ { "kind", false, 0, 8 }, "kind_shown", CLI_TEXT },
	{ { "deadline", true, 0, 9 }, "deadline_s", CLI_SECONDS },
	{ { "age", true, 0, 6 }, "age_s", CLI_SECONDS },
	{ { "pid", true, 0, 7 }, "pid", CLI_COUNT },
};

#define FIELDS SAL_COUNT(fields)

/* One line about the daemon as a whole. */
static void print_summary(const json_t *reply)
{
	const json_t *programs = json_object_get(reply, "programs");

	(void)printf("policy %s", cli_json_text(reply, "policy"));
	if (programs)
		(void)printf("; programs: %.0f compiled, %.0f found in memory, %.0f on disk",
			     cli_json_number(programs, "compiled"),
			     cli_json_number(programs, "memory_hits"),
			     cli_json_number(programs, "disk_hits"));
	(void)printf("\n");
}

/* A kind that was found is marked. */
static void add_kinds(json_t *sessions)
{
	json_t *session;
	size_t i;

	json_array_foreach(sessions, i, session)
	{
		const char *kind = cli_json_text(session, "kind");
		bool found = json_is_true(json_object_get(session, "kind_found"));

		if (*kind)
			(void)json_object_set_new(session, "kind_shown",
						  json_sprintf("%s%s", kind,
							       found ? " (found)" : ""));
	}
}

static int show_ps(const json_t *reply, const void *unused)
{
	json_t *sessions = json_object_get(reply, "sessions");

	(void)unused;
	add_kinds(sessions);
	if (json_array_size(sessions) == 0)
		(void)printf("no jobs; `salus run -- CMD` starts one\n");
	else if (cli_print_fields(fields, FIELDS, sessions) != CLI_OK)
		return CLI_FAILED;
	print_summary(reply);
	return cli_flush();
}

static int run_ps(int argc, char **argv)
{
	bool json;
	int rc = cli_parse_json_flag(&cli_cmd_ps, argc, argv, &json);

	if (rc != CLI_OK)
		return rc;
	return cli_ask_and_show(json_pack("{s:s}", "op", "ps"), json, show_ps, NULL);
}

const struct cli_command cli_cmd_ps = {
	.name = "ps",
	.summary = "the jobs: what they do, use and hold",
	.usage =
		"[--json] [--socket PATH]\n"
		"\n"
		"  state       running; ready: waits for its turn; idle: has nothing to run; waiting: for\n"
		"              memory; paused: by `salus pause`; paging out, paged, paging in: its memory\n"
		"              goes to the host, is there, comes back; refused: can never fit; closing:\n"
		"              the job has ended, its last iteration has not\n"
		"  used        device time so far\n"
		"  waited      time in which it had something to run and did not run\n"
		"  queued      iterations that wait\n"
		"  persistent  device memory that it holds between iterations, as in `salus lanes`\n"
		"  framework   the part of it that the vendor's plugin keeps beyond the job's arrays\n"
		"  kind        training or inference; (found): nobody declared it\n"
		"  deadline    time from the submission of an iteration to its end\n"
		"  ephemeral   scratch while an iteration runs, shared with the others of its lane\n"
		"\n"
		"A narrow terminal shows fewer columns. `salus why JOB` says what a job waits for.\n",
	.run = run_ps,
};
