/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

int cli_flush(void)
{
	struct sal_err err = { 0 };

	if (fflush(stdout) == 0 && !ferror(stdout))
		return CLI_OK;
	(void)sal_err_set(&err, SAL_UNAVAILABLE, "cannot write the output: %s", strerror(errno));
	return cli_fail(CLI_FAILED, &err);
}

int cli_help(const struct cli_command *command)
{
	(void)printf("usage: salus %s %s", command->name, command->usage);
	if (command->more_help)
		command->more_help();
	return cli_flush();
}
