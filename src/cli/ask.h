/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask - what the commands that talk to salusd have in common: whom to ask, what to tell the user if
 * that fails, what to exit with.
 */
#ifndef SAL_CLI_ASK_H
#define SAL_CLI_ASK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct cli_command;

/*
 * Asks the daemon that SALUS_SOCKET names, or the one in the usual place, and says on stderr what went
 * wrong and what to do. Takes the request. Returns an exit code; on CLI_OK the caller owns *out_reply.
 */
int cli_ask(json_t *take_request, json_t **out_reply);

/* Shows an answer on stdout; returns an exit code. */
typedef int cli_show_fn(const json_t *reply, const void *ctx);

/* Asks and shows the answer, or prints it as it is if `json`. Returns an exit code. */
int cli_ask_and_show(json_t *take_request, bool json, cli_show_fn *show, const void *ctx);

/* Asks, for an answer that comes with a descriptor: *out_fd, the caller's to close, or -1. */
int cli_ask_fd(json_t *take_request, json_t **out_reply, int *out_fd);

/* The same without a word: what there is to say is in err. */
int cli_try_ask(json_t *take_request, json_t **out_reply, struct sal_err *err);

/* What is left of a command's line without the options that all these commands take. */
struct cli_words {
	bool json; /* --json */
	char **at; /* borrowed: argv, moved together */
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

/* If *reply is not "ok": frees it, sets it to NULL, and fails with the daemon's code and sentence. */
int cli_refusal(json_t **reply, struct sal_err *err);

/* Says on stderr why cli_admin_ask(path) failed with code, and what to do; returns an exit code. */
int cli_unreachable(const char *path, bool given, int code, struct sal_err *err);

/* A text in an object, or "" if there is none of that name. */
const char *cli_json_text(const json_t *object, const char *key);

/* A number in an object, 0 if there is none of that name. */
double cli_json_number(const json_t *object, const char *key);

/* The same as a whole number, 0 for what cannot be one. */
uint64_t cli_json_count(const json_t *object, const char *key);

/* Seconds as the daemon gives them; 0 for what cannot be a time. */
uint64_t cli_seconds_to_ns(double seconds);

/* An object as `--json` shows it, in the daemon's order. Returns an exit code. */
int cli_json_print(const json_t *object);

/* A sentence of the daemon's on stdout, with a newline, and with nothing that a terminal would obey. */
void cli_print_text(const char *text);

/* "out of memory" on stderr; returns CLI_FAILED. */
int cli_no_memory(void);

#endif
