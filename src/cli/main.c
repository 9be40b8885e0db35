/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main - `salus COMMAND ...`: finds the command and runs it.
 */
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/sys/fd.h"
#include "cli/cli.h"

static const struct cli_command *const commands[] = {
	&cli_cmd_run,	&cli_cmd_env,	 &cli_cmd_ps,	  &cli_cmd_top,
	&cli_cmd_lanes, &cli_cmd_limits, &cli_cmd_why,	  &cli_cmd_policy,
	&cli_cmd_set,	&cli_cmd_pause,	 &cli_cmd_resume, &cli_cmd_kill,
	&cli_cmd_ping,	&cli_cmd_trace,	 &cli_cmd_sim,	  NULL,
};

static void print_help(FILE *out)
{
	const struct cli_command *const *c;

	(void)fprintf(out, "usage: salus COMMAND [OPTION...]\n\n"
			   "Salus lets many deep-learning jobs share one accelerator.\n\n");
	for (c = commands; *c; c++)
		(void)fprintf(out, "  %-8s %s\n", (*c)->name, (*c)->summary);
	(void)fprintf(out, "\n`salus COMMAND --help` explains a command.\n");
}

static int refuse_command(const char *word)
{
	struct sal_nearest near = { .word = word };
	const struct cli_command *const *c;

	for (c = commands; *c; c++)
		sal_nearest_offer(&near, (*c)->name);
	if (near.name[0]) {
		(void)fprintf(stderr, "salus: there is no command \"%s\"; did you mean %s?\n", word,
			      near.name);
	} else {
		(void)fprintf(stderr, "salus: there is no command \"%s\"\n\n", word);
		print_help(stderr);
	}
	return CLI_USAGE;
}

static bool asks_for_help(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	return false;
}

/* If stdin, stdout or stderr is closed, no other file may take its number. */
static void hold_places(void)
{
	int fd;

	do
		fd = open("/dev/null", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	sal_close(&fd);
}

int main(int argc, char **argv)
{
	const struct cli_command *const *c;

	hold_places();
	/* Only the encoding of characters; numbers keep their format. */
	(void)setlocale(LC_CTYPE, "C.UTF-8");
	if (argc < 2) {
		print_help(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return CLI_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		(void)printf("salus %s\n", SALUS_VERSION);
		return CLI_OK;
	}
	for (c = commands; *c; c++) {
		if (strcmp((*c)->name, argv[1]) != 0)
			continue;
		if (!(*c)->wraps && asks_for_help(argc - 1, argv + 1))
			return cli_help(*c);
		return (*c)->run(argc - 1, argv + 1);
	}
	return refuse_command(argv[1]);
}
