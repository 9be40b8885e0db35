/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli - the table entry of a command of `salus`, its exit codes, and its error messages.
 */
#ifndef SAL_CLI_CLI_H
#define SAL_CLI_CLI_H

#include <stdbool.h>

struct option;

#include "base/err.h"

/* Exit codes, after sysexits(3). */
enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 64,
	CLI_BAD_DATA = 65,
	CLI_NO_INPUT = 66,
	CLI_UNREACHABLE = 69,
	CLI_CANNOT_CREATE = 73,
	CLI_TRY_LATER = 75,
	CLI_PERMISSION = 77,
	/* Of `salus run`, as in env(1): salus itself failed, CMD cannot be run, there is no CMD. */
	CLI_RUN_FAILED = 125,
	CLI_RUN_CANNOT = 126,
	CLI_RUN_NOT_FOUND = 127,
};

struct cli_command {
	const char *name;
	const char *summary; /* one line */
	const char *usage; /* what follows the name, and the options */
	void (*more_help)(void); /* prints the rest of the help; NULL: that is all */
	int (*run)(int argc, char **argv); /* argv[0] is the name; returns an exit code */
	bool wraps; /* the line of another command follows, with a --help of its own */
};

extern const struct cli_command cli_cmd_env;
extern const struct cli_command cli_cmd_kill;
extern const struct cli_command cli_cmd_lanes;
extern const struct cli_command cli_cmd_limits;
extern const struct cli_command cli_cmd_pause;
extern const struct cli_command cli_cmd_ping;
extern const struct cli_command cli_cmd_policy;
extern const struct cli_command cli_cmd_ps;
extern const struct cli_command cli_cmd_resume;
extern const struct cli_command cli_cmd_run;
extern const struct cli_command cli_cmd_set;
extern const struct cli_command cli_cmd_sim;
extern const struct cli_command cli_cmd_top;
extern const struct cli_command cli_cmd_trace;
extern const struct cli_command cli_cmd_why;

/* Prints how to call the command on stdout; returns CLI_OK. */
int cli_help(const struct cli_command *command);

/* Prints what is wrong with the call, and where the help is; returns CLI_USAGE. */
int cli_usage_error(const struct cli_command *command, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * The same for an option that getopt_long did not take: it returned `option`, '?' or ':'. The list
 * of short options starts with ':', so that getopt_long itself says nothing.
 */
int cli_option_error(const struct cli_command *command, const struct option *table, int option,
		     char *const *argv);

/* The same for a word that starts with '-' and is none of the options named in command->usage. */
int cli_unknown_option(const struct cli_command *command, const char *word);

/* Prints `salus: text` on stderr; returns code. */
int cli_fail(enum cli_exit code, const struct sal_err *err);

/* Flushes stdout. Returns CLI_OK, or prints why that failed and returns CLI_FAILED. */
int cli_flush(void);

#endif
