/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steer - `salus pause|resume|kill JOB`.
 */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/field.h"

static int show_outcome(const json_t *reply, const void *ctx)
{
	const char *done = ctx;
	const char *program = cli_json_text(reply, "running");
	char rest[200] = "", run[SAL_UNITS_TEXT], line[400];

	if (strcmp(done, "paused") == 0 && strcmp(cli_json_text(reply, "state"), "running") == 0)
		(void)snprintf(rest, sizeof(rest), "; the iteration that runs goes on to its end");
	if (strcmp(done, "killed") == 0 && *program)
		(void)snprintf(rest, sizeof(rest),
			       "; its iteration of %.60s still runs in lane %.0f, since %s: it is "
			       "closing until that ends",
			       program, cli_json_number(reply, "lane"),
			       cli_number_text(cli_json_number(reply, "run_s"), CLI_SECONDS, run,
					       sizeof(run)));
	(void)snprintf(line, sizeof(line), "%s %.128s (id %.0f)%s", done,
		       cli_json_text(reply, "name"), cli_json_number(reply, "id"), rest);
	cli_print_text(line);
	return cli_flush();
}

static int steer(const struct cli_command *command, const char *done, int argc, char **argv)
{
	struct cli_words words;
	int rc = cli_parse_words(command, argc, argv, &words);

	if (rc == CLI_OK)
		rc = cli_expect_words(command, &words, 1, 1);
	if (rc != CLI_OK)
		return rc;
	return cli_ask_and_show(json_pack("{s:s, s:s}", "op", command->name, "job", words.at[0]),
				words.json, show_outcome, done);
}

static int run_pause(int argc, char **argv)
{
	return steer(&cli_cmd_pause, "paused", argc, argv);
}

static int run_resume(int argc, char **argv)
{
	return steer(&cli_cmd_resume, "resumed", argc, argv);
}

static int run_kill(int argc, char **argv)
{
	return steer(&cli_cmd_kill, "killed", argc, argv);
}

#define JOB_USAGE                        \
	"JOB [--json] [--socket PATH]\n" \
	"\n"                             \
	"JOB is an id or a name that `salus ps` shows, or the beginning of a name.\n"

const struct cli_command cli_cmd_pause = {
	.name = "pause",
	.summary = "stop a job until it is resumed",
	.usage = JOB_USAGE
	"\n"
	"A running iteration goes on to its end. The job itself only sees that the next one takes\n"
	"long. Its memory may be paged out if another job needs it.\n",
	.run = run_pause,
};

const struct cli_command cli_cmd_resume = {
	.name = "resume",
	.summary = "let a paused job run again",
	.usage = JOB_USAGE,
	.run = run_resume,
};

const struct cli_command cli_cmd_kill = {
	.name = "kill",
	.summary = "end a job's session; its process gets UNAVAILABLE",
	.usage = JOB_USAGE
	"\n"
	"salusd frees everything that the job holds on the device. The job's process goes on:\n"
	"whatever it does next with the device fails with UNAVAILABLE.\n",
	.run = run_kill,
};
