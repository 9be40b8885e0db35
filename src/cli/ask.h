/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask - what the commands that talk to salusd share: which daemon to ask, the message if that
 * fails, and the exit code.
 */
#ifndef SAL_CLI_ASK_H
#define SAL_CLI_ASK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct cli_command;

/*
 * Asks the daemon that SALUS_SOCKET names, or the one in the usual place. If that fails, prints the
 * reason and the remedy on stderr. Takes the request. Returns an exit code; on CLI_OK the caller
 * owns *out_reply.
 */
int cli_ask(json_t *take_request, json_t **out_reply);

/* Shows an answer on stdout; returns an exit code. */
typedef int cli_show_fn(const json_t *reply, const void *ctx);

/* Asks and shows the answer; with `json`, prints the answer as it came. Returns an exit code. */
int cli_ask_and_show(json_t *take_request, bool json, cli_show_fn *show, const void *ctx);

/* The same for an answer with a descriptor. The caller closes *out_fd; -1: none came. */
int cli_ask_fd(json_t *take_request, json_t **out_reply, int *out_fd);

/* The same, but prints nothing. The reason of a failure is in err. */
int cli_try_ask(json_t *take_request, json_t **out_reply, struct sal_err *err);

/* The words of a command line, without the options that all these commands take. */
struct cli_words {
	bool json; /* --json */
	char **at; /* borrowed: argv, which is compacted */
	int count;
};

/*
 * Takes `--json` and `--socket PATH`; the rest are words, at least and at most so many. The first
 * word of a command that needs one is a job. Both return an exit code.
 */
int cli_parse_words(const struct cli_command *command, int argc, char **argv,
		    struct cli_words *out);
int cli_expect_words(const struct cli_command *command, const struct cli_words *words, int least,
		     int most);

/* For a command that takes those options and nothing else; returns an exit code. */
int cli_parse_json_flag(const struct cli_command *command, int argc, char **argv, bool *out_json);

/* If *reply is not "ok": frees it, sets it to NULL, and fails with the daemon's code and text. */
int cli_refusal(json_t **reply, struct sal_err *err);

/* Says on stderr why cli_admin_ask(path) failed with code, and what to do; returns an exit code. */
int cli_unreachable(const char *path, bool given, int code, struct sal_err *err);

/* The text of a key, "" if there is none. */
const char *cli_json_text(const json_t *object, const char *key);

/* The number of a key, 0 if there is none. */
double cli_json_number(const json_t *object, const char *key);

/* The same as a whole number; 0 if it is none. */
uint64_t cli_json_count(const json_t *object, const char *key);

/* Seconds of the daemon in ns; 0 if they are no time. */
uint64_t cli_seconds_to_ns(double seconds);

/* Prints an object as `--json` shows it, in the daemon's order. Returns an exit code. */
int cli_json_print(const json_t *object);

/*
 * Prints a sentence of the daemon and a newline. Characters that control a terminal are replaced.
 */
void cli_print_text(const char *text);

/* Prints "out of memory" on stderr; returns CLI_FAILED. */
int cli_no_memory(void);

#endif
