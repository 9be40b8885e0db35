/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli - the command table of `salus`.
 */
#ifndef SAL_CLI_CLI_H
#define SAL_CLI_CLI_H

#include <stdbool.h>

#include "base/err.h"

/* Exit codes, after sysexits(3). */
enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 64,
	CLI_BAD_DATA = 65,
	CLI_NO_INPUT = 66,
	CLI_CANNOT_CREATE = 73,
};

struct cli_command {
	const char *name;
	const char *summary; /* one line */
	const char *usage; /* what follows the name, and the options */
	int (*run)(int argc, char **argv); /* argv[0] is the name; returns an exit code */
};

extern const struct cli_command cli_cmd_sim;

/* Say what is wrong with the call, and where to read on; returns CLI_USAGE. */
int cli_usage_error(const struct cli_command *command, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* `salus: text` on stderr; returns code. */
int cli_fail(enum cli_exit code, const struct sal_err *err);

#endif
