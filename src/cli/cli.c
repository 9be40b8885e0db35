/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

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

int cli_option_error(const struct cli_command *command, const struct option *table, int option,
		     char *const *argv)
{
	struct sal_err err = { 0 };

	(void)sal_option_refuse(table, option, argv, &err);
	return cli_usage_error(command, "%s", err.text);
}

/* Copies the option that starts at usage; returns its length, 0 if no option starts there. */
static size_t option_at(const char *usage, char *out, size_t size)
{
	size_t length = strspn(usage, "-abcdefghijklmnopqrstuvwxyz");

	if (strncmp(usage, "--", 2) != 0 || length <= 2 || length >= size)
		return 0;
	memcpy(out, usage, length);
	out[length] = '\0';
	return length;
}

int cli_unknown_option(const struct cli_command *command, const char *word)
{
	char name[40];
	struct sal_nearest near = { .word = word };
	const char *at;

	for (at = command->usage; (at = strstr(at, "--")); at += strspn(at, "-"))
		if (option_at(at, name, sizeof(name)) > 0)
			sal_nearest_offer(&near, name);
	if (near.name[0])
		return cli_usage_error(command, "there is no option %s; did you mean %s?", word,
				       near.name);
	return cli_usage_error(command, "there is no option %s", word);
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
