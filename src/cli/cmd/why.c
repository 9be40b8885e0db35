/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why - `salus why JOB`: what a job waits for, in a sentence or two.
 */
#include "cli/ask.h"
#include "cli/cli.h"

static int show_text(const json_t *reply, const void *unused)
{
	(void)unused;
	cli_print_text(cli_json_text(reply, "text"));
	return cli_flush();
}

static int run_why(int argc, char **argv)
{
	struct cli_words words;
	int rc = cli_parse_words(&cli_cmd_why, argc, argv, &words);

	if (rc == CLI_OK)
		rc = cli_expect_words(&cli_cmd_why, &words, 1, 1);
	if (rc != CLI_OK)
		return rc;
	return cli_ask_and_show(json_pack("{s:s, s:s}", "op", "why", "job", words.at[0]),
				words.json, show_text, NULL);
}

const struct cli_command cli_cmd_why = {
	.name = "why",
	.summary = "what a job waits for, and who has it",
	.usage =
		"JOB [--json] [--socket PATH]\n"
		"\n"
		"JOB is an id or a name that `salus ps` shows, or the beginning of a name.\n"
		"\n"
		"The answer includes a time only if it is known: the iterations that run first belong\n"
		"to programs that ran before, and the policy runs each of them once.\n",
	.run = run_why,
};
