/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main - `salus COMMAND ...`: finds the command and runs it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const struct cli_command *const commands[] = {
	&cli_cmd_sim,
	NULL,
};

static void print_help(FILE *out)
{
	const struct cli_command *const *c;

	(void)fprintf(out, "usage: salus COMMAND [OPTION...]\n\n"
			   "Salus lets many deep-learning jobs share one accelerator.\n\n");
	for (c = commands; *c; c++)
		(void)fprintf(out, "  %-8s %s\n", (*c)->name, (*c)->summary);
	(void)fprintf(out, "\n`salus COMMAND --help` tells more.\n");
}

int cli_usage_error(const struct cli_command *command, const char *fmt, ...)
{
	va_list args;

	(void)fprintf(stderr, "salus %s: ", command->name);
	va_start(args, fmt);
	(void)vfprintf(stderr, fmt, args);
	va_end(args);
	(void)fprintf(stderr, "\nTry `salus %s --help`.\n", command->name);
	return CLI_USAGE;
}

int cli_fail(enum cli_exit code, const struct sal_err *err)
{
	(void)fprintf(stderr, "salus: %s\n", err->text);
	return code;
}

static bool asks_for_help(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	const struct cli_command *const *c;

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
		if (asks_for_help(argc - 1, argv + 1)) {
			(void)printf("usage: salus %s %s", (*c)->name, (*c)->usage);
			return CLI_OK;
		}
		return (*c)->run(argc - 1, argv + 1);
	}
	(void)fprintf(stderr, "salus: no command \"%s\"\n", argv[1]);
	print_help(stderr);
	return CLI_USAGE;
}
