/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys/fd.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/screen.h"
#include "link/paths.h"

/* The code whose sal_code_name is this. */
static enum sal_code code_named(const char *name)
{
	int code;

	for (code = SAL_CANCELLED; code <= SAL_UNAUTHENTICATED; code++)
		if (strcmp(sal_code_name(code), name) == 0)
			return (enum sal_code)code;
	return SAL_UNKNOWN;
}

int cli_refusal(json_t **reply, struct sal_err *err)
{
	const char *text = cli_json_text(*reply, "error");
	char *clean;
	int rc;

	if (json_is_true(json_object_get(*reply, "ok")))
		return SAL_OK;
	clean = cli_screen_text(text, 0);
	rc = sal_err_set(err, code_named(cli_json_text(*reply, "code")), "%s",
			 clean && *clean ? clean : "salusd refuses, and does not say why");
	free(clean);
	json_decref(*reply);
	*reply = NULL;
	return rc;
}

/*
 * Sets err to the reason why cli_admin_ask(path) failed, and to the remedy. Returns an exit code.
 */
static int explain(const char *path, bool given, int code, struct sal_err *err)
{
	if (code == -SAL_UNAVAILABLE && given)
		(void)sal_err_set(
			err, SAL_UNAVAILABLE,
			"no salusd at %s, which SALUS_SOCKET or --socket names; start one "
			"there with `salusd --socket`, or name no socket",
			path);
	else if (code == -SAL_UNAVAILABLE)
		(void)sal_err_set(err, SAL_UNAVAILABLE,
				  "no salusd at %s; `salus run -- CMD` starts one", path);
	else if (code == -SAL_DEADLINE_EXCEEDED)
		(void)sal_err_set(err, SAL_DEADLINE_EXCEEDED,
				  "salusd at %s does not answer; it may hang: its log may say why; "
				  "once you end it, a new one can start",
				  path);
	return code == -SAL_PERMISSION_DENIED ? CLI_PERMISSION : CLI_UNREACHABLE;
}

int cli_unreachable(const char *path, bool given, int code, struct sal_err *err)
{
	enum cli_exit status = (enum cli_exit)explain(path, given, code, err);

	return cli_fail(status, err);
}

/* The exit code for a refusal by the daemon. */
static enum cli_exit exit_of(int code)
{
	switch (-code) {
	case SAL_PERMISSION_DENIED:
	case SAL_UNAUTHENTICATED:
		return CLI_PERMISSION;
	case SAL_RESOURCE_EXHAUSTED:
	case SAL_UNAVAILABLE:
		return CLI_TRY_LATER;
	default:
		return CLI_FAILED;
	}
}

/*
 * The socket to connect to. If its directory does not exist yet, no daemon listens, which is no
 * error.
 */
static int find_socket(char *out, size_t size, bool *out_given, struct sal_err *err)
{
	char dir[SAL_PATH_BYTES];
	int rc = sal_path_socket(out, size, out_given, err);

	if (rc < 0 || *out_given)
		return rc;
	rc = sal_path_runtime_dir(dir, sizeof(dir), err);
	if (rc >= 0)
		rc = sal_path_check_private(dir, err);
	return rc == -SAL_NOT_FOUND ? SAL_OK : rc;
}

/* Returns an exit code. The reason of a failure is in err. */
static int try_ask_fd(json_t *take_request, json_t **out_reply, int *out_fd, struct sal_err *err)
{
	char path[SAL_PATH_BYTES];
	bool given = false;
	int rc;

	*out_reply = NULL;
	*out_fd = -1;
	if (!take_request) {
		(void)sal_err_set(err, SAL_INVALID_ARGUMENT, "an argument is not UTF-8");
		return CLI_USAGE;
	}
	rc = find_socket(path, sizeof(path), &given, err);
	if (rc < 0) {
		json_decref(take_request);
		return CLI_PERMISSION;
	}
	rc = cli_admin_ask_fd(path, take_request, CLI_ANSWER_MS, out_reply, out_fd, err);
	json_decref(take_request);
	if (rc < 0)
		return explain(path, given, rc, err);
	rc = cli_refusal(out_reply, err);
	return rc < 0 ? (int)exit_of(rc) : CLI_OK;
}

static void drop_fd(int *fd)
{
	sal_close(fd);
}

int cli_try_ask(json_t *take_request, json_t **out_reply, struct sal_err *err)
{
	int fd, rc = try_ask_fd(take_request, out_reply, &fd, err);

	drop_fd(&fd); /* the caller did not ask for it */
	return rc;
}

int cli_ask_fd(json_t *take_request, json_t **out_reply, int *out_fd)
{
	struct sal_err err = { 0 };
	int rc = try_ask_fd(take_request, out_reply, out_fd, &err);

	if (rc == CLI_OK)
		return CLI_OK;
	drop_fd(out_fd);
	return cli_fail((enum cli_exit)rc, &err);
}

int cli_ask(json_t *take_request, json_t **out_reply)
{
	struct sal_err err = { 0 };
	int rc = cli_try_ask(take_request, out_reply, &err);

	return rc == CLI_OK ? CLI_OK : cli_fail((enum cli_exit)rc, &err);
}

int cli_ask_and_show(json_t *take_request, bool json, cli_show_fn *show, const void *ctx)
{
	json_t *reply;
	int rc = cli_ask(take_request, &reply);

	if (rc != CLI_OK)
		return rc;
	rc = json ? cli_json_print(reply) : show(reply, ctx);
	json_decref(reply);
	return rc;
}

/* --socket sets SALUS_SOCKET for this call. */
static int take_socket(const struct cli_command *command, const char *path)
{
	if (!path || !*path)
		return cli_usage_error(command, "--socket names no path");
	return setenv("SALUS_SOCKET", path, 1) == 0 ? CLI_OK : cli_no_memory();
}

int cli_parse_words(const struct cli_command *command, int argc, char **argv, struct cli_words *out)
{
	int i, rc = CLI_OK;

	*out = (struct cli_words){ .at = argv + 1 };
	for (i = 1; i < argc && rc == CLI_OK; i++) {
		if (strcmp(argv[i], "--json") == 0)
			out->json = true;
		else if (strcmp(argv[i], "--socket") == 0)
			rc = take_socket(command, ++i < argc ? argv[i] : NULL);
		else if (strncmp(argv[i], "--socket=", strlen("--socket=")) == 0)
			rc = take_socket(command, argv[i] + strlen("--socket="));
		else if (argv[i][0] == '-')
			rc = cli_unknown_option(command, argv[i]);
		else
			out->at[out->count++] = argv[i];
	}
	return rc;
}

int cli_expect_words(const struct cli_command *command, const struct cli_words *words, int least,
		     int most)
{
	if (words->count < least)
		return cli_usage_error(command, "JOB is missing: an id or a name of `salus ps`");
	if (words->count > most)
		return cli_usage_error(command, "unexpected argument \"%s\"", words->at[most]);
	return CLI_OK;
}

int cli_parse_json_flag(const struct cli_command *command, int argc, char **argv, bool *out_json)
{
	struct cli_words words;
	int rc = cli_parse_words(command, argc, argv, &words);

	*out_json = words.json;
	return rc == CLI_OK ? cli_expect_words(command, &words, 0, 0) : rc;
}

const char *cli_json_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

double cli_json_number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

uint64_t cli_json_count(const json_t *object, const char *key)
{
	double value = cli_json_number(object, key);

	return value >= 0 && value < 9e18 ? (uint64_t)value : 0;
}

uint64_t cli_seconds_to_ns(double seconds)
{
	return seconds > 0 && seconds < 9e9 ? (uint64_t)(seconds * 1e9) : 0;
}

int cli_json_print(const json_t *object)
{
	(void)json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	(void)putchar('\n');
	return cli_flush();
}

void cli_print_text(const char *text)
{
	char *clean = cli_screen_text(text, 0);

	(void)printf("%s\n", clean ? clean : "");
	free(clean);
}

int cli_no_memory(void)
{
	struct sal_err err = { 0 };

	(void)sal_err_set(&err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	return cli_fail(CLI_FAILED, &err);
}
