/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run - `salus run -- CMD...`: become CMD, in an environment that makes it a session of salusd.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/admin.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/daemon/job_env.h"
#include "cli/daemon/log_tail.h"
#include "cli/daemon/private_daemon.h"
#include "link/paths.h"
#include "wire/messages.h"

#define START_MS 60000

struct request {
	struct cli_job_env env;
	char reserve[2 * SAL_UNITS_TEXT]; /* what env.reserve points to */
	char **argv; /* of the command */
	bool help;
};

enum {
	OPT_NAME = 1000,
	OPT_RESERVE,
	OPT_WEIGHT,
	OPT_PRIORITY,
	OPT_TIME,
	OPT_KIND,
	OPT_DEADLINE,
};

static const struct option long_options[] = {
	{ "name", required_argument, NULL, OPT_NAME },
	{ "reserve", required_argument, NULL, OPT_RESERVE },
	{ "memory", required_argument, NULL, OPT_RESERVE }, /* its name before */
	{ "weight", required_argument, NULL, OPT_WEIGHT },
	{ "priority", required_argument, NULL, OPT_PRIORITY },
	{ "time", required_argument, NULL, OPT_TIME },
	{ "kind", required_argument, NULL, OPT_KIND },
	{ "deadline", required_argument, NULL, OPT_DEADLINE },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int parse_name(struct request *q, const char *text)
{
	const char *c;

	if (!*text || strlen(text) >= SAL_NAME_BYTES)
		return cli_usage_error(&cli_cmd_run, "--name has %zu bytes, expected 1 to %d",
				       strlen(text), SAL_NAME_BYTES - 1);
	for (c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == '\x7f')
			return cli_usage_error(&cli_cmd_run, "--name has a control character");
	q->env.name = text;
	return CLI_OK;
}

/* "P,E", two sizes. */
static int parse_reserve(struct request *q, const char *text)
{
	const char *comma = strchr(text, ',');
	uint64_t persist_bytes, ephem_bytes;
	struct sal_err err = { 0 };
	char first[64];

	if (!comma || comma - text >= (ptrdiff_t)sizeof(first))
		return cli_usage_error(&cli_cmd_run,
				       "--reserve is \"%s\", expected persistent,ephemeral such as "
				       "2GiB,512MiB",
				       text);
	memcpy(first, text, (size_t)(comma - text));
	first[comma - text] = '\0';
	if (sal_bytes_parse(first, &persist_bytes, &err) < 0 ||
	    sal_bytes_parse(comma + 1, &ephem_bytes, &err) < 0)
		return cli_usage_error(&cli_cmd_run, "--reserve: %s", err.text);
	(void)snprintf(q->reserve, sizeof(q->reserve), "%" PRIu64 "B,%" PRIu64 "B", persist_bytes,
		       ephem_bytes);
	q->env.reserve = q->reserve;
	return CLI_OK;
}

/* A decimal number within bounds, without sign, exponent or blank. */
static bool is_number(const char *text, const char *allowed, double least, double most)
{
	char *end;
	double value = strtod(text, &end);

	return *text && text[strspn(text, allowed)] == '\0' && *end == '\0' && value >= least &&
	       value <= most;
}

static int parse_weight(struct request *q, const char *text)
{
	if (!is_number(text, "0123456789.", 0.001, 1e6))
		return cli_usage_error(&cli_cmd_run,
				       "--weight is \"%s\", expected 0.001 to 1000000", text);
	q->env.weight = text;
	return CLI_OK;
}

static int parse_priority(struct request *q, const char *text)
{
	if (!is_number(text, "0123456789", 0, 1e6))
		return cli_usage_error(
			&cli_cmd_run,
			"--priority is \"%s\", expected a whole number from 0 (first) "
			"to 1000000",
			text);
	q->env.priority = text;
	return CLI_OK;
}

/* A time above 0. */
static int parse_duration(const char *option, const char *text, const char **out_text)
{
	struct sal_err err = { 0 };
	uint64_t ns;

	if (sal_duration_parse(text, &ns, &err) < 0)
		return cli_usage_error(&cli_cmd_run, "%s: %s", option, err.text);
	if (ns == 0)
		return cli_usage_error(&cli_cmd_run, "%s: 0 is no time; leave it out", option);
	*out_text = text;
	return CLI_OK;
}

static int parse_kind(struct request *q, const char *text)
{
	if (strcmp(text, "training") != 0 && strcmp(text, "inference") != 0)
		return cli_usage_error(&cli_cmd_run,
				       "--kind is \"%s\", expected training or inference", text);
	q->env.kind = text;
	return CLI_OK;
}

/* The policy ranks all jobs, so no job brings its own. */
static int refuse_option(int option, char **argv)
{
	const char *word = argv[optind - 1];

	if (option == '?' && strncmp(word, "--policy", strlen("--policy")) == 0)
		return cli_usage_error(
			&cli_cmd_run, "there is no option --policy: one policy ranks all jobs, and "
				      "`salus policy NAME` chooses it");
	return cli_option_error(&cli_cmd_run, long_options, option, argv);
}

static int parse_option(struct request *q, int option, char **argv)
{
	switch (option) {
	case OPT_NAME:
		return parse_name(q, optarg);
	case OPT_RESERVE:
		return parse_reserve(q, optarg);
	case OPT_WEIGHT:
		return parse_weight(q, optarg);
	case OPT_PRIORITY:
		return parse_priority(q, optarg);
	case OPT_TIME:
		return parse_duration("--time", optarg, &q->env.time);
	case OPT_DEADLINE:
		return parse_duration("--deadline", optarg, &q->env.deadline);
	case OPT_KIND:
		return parse_kind(q, optarg);
	case 'h':
		q->help = true;
		return CLI_OK;
	default:
		return refuse_option(option, argv);
	}
}

static int parse(struct request *q, int argc, char **argv)
{
	const char *outer = getenv("SALUS_JOB_NAME");
	int option, rc;

	memset(q, 0, sizeof(*q));
	optind = 1;
	/* "+": options after the command's name belong to the command. */
	while ((option = getopt_long(argc, argv, "+:h", long_options, NULL)) != -1) {
		rc = parse_option(q, option, argv);
		if (rc != CLI_OK || q->help)
			return rc;
	}
	q->argv = argv + optind;
	if (!q->argv[0] || !*q->argv[0])
		return cli_usage_error(&cli_cmd_run, "CMD is missing: the command to run");
	if (!q->env.name && !(outer && *outer))
		q->env.name = cli_job_name(q->argv);
	return CLI_OK;
}

/* The daemon that SALUS_SOCKET names. Salus does not start it: whoever set the variable does. */
static int find_given(const char *socket, json_t **out_ping)
{
	json_t *request = json_pack("{s:s}", "op", "ping");
	struct sal_err err = { 0 };
	int rc = cli_admin_ask(socket, request, CLI_ANSWER_MS, out_ping, &err);

	json_decref(request);
	if (rc < 0)
		return cli_unreachable(socket, true, rc, &err);
	rc = cli_refusal(out_ping, &err);
	return rc < 0 ? cli_fail(CLI_UNREACHABLE, &err) : CLI_OK;
}

/* The user's own daemon. Starts it if it does not answer. */
static int find_private(const char *socket, json_t **out_ping)
{
	char dir[SAL_PATH_BYTES], lock[SAL_PATH_BYTES + 16], log[SAL_PATH_BYTES];
	char program[SAL_PATH_BYTES];
	struct cli_private_daemon d = { .socket = socket, .wait_ms = START_MS, .log_from = -1 };
	struct sal_err err = { 0 };
	int rc = sal_path_runtime_dir(dir, sizeof(dir), &err);

	if (rc >= 0)
		rc = sal_path_make_private(dir, &err);
	if (rc >= 0)
		rc = sal_path_log(log, sizeof(log), &err);
	if (rc >= 0)
		rc = sal_path_program("salusd", program, sizeof(program), &err);
	if (rc >= 0) {
		(void)snprintf(lock, sizeof(lock), "%s/start.lock", dir);
		d.program = program;
		d.lock = lock;
		d.log = log;
		rc = cli_private_daemon_ensure(&d, out_ping, &err);
	}
	if (rc >= 0)
		return CLI_OK;
	(void)cli_fail(CLI_RUN_FAILED, &err);
	if (d.log_from >= 0)
		cli_log_tail(stderr, log, d.log_from);
	return CLI_RUN_FAILED;
}

static int find_daemon(char *socket, size_t size, json_t **out_ping)
{
	struct sal_err err = { 0 };
	bool given;

	*out_ping = NULL;
	if (sal_path_socket(socket, size, &given, &err) < 0)
		return cli_fail(CLI_RUN_FAILED, &err);
	return given ? find_given(socket, out_ping) : find_private(socket, out_ping);
}

static bool is_script(const char *name)
{
	size_t length = strlen(name);

	return length > 3 && strcmp(name + length - 3, ".py") == 0;
}

static int become(char **argv)
{
	struct sal_err err = { 0 };
	int why;

	(void)execvp(argv[0], argv);
	why = errno;
	if (is_script(argv[0]) && (why == ENOENT || why == EACCES || why == ENOEXEC))
		(void)sal_err_set(&err, SAL_NOT_FOUND,
				  "%s is not a command; did you mean python %s?", argv[0], argv[0]);
	else
		(void)sal_err_set(&err, SAL_NOT_FOUND, "%s: %s", argv[0], strerror(why));
	return cli_fail(why == ENOENT ? CLI_RUN_NOT_FOUND : CLI_RUN_CANNOT, &err);
}

static int run_run(int argc, char **argv)
{
	char socket[SAL_PATH_BYTES], plugin[SAL_PATH_BYTES];
	struct sal_err err = { 0 };
	struct request q;
	json_t *ping;
	int rc = parse(&q, argc, argv);

	if (rc != CLI_OK)
		return rc;
	if (q.help)
		return cli_help(&cli_cmd_run);
	if (sal_path_plugin(plugin, sizeof(plugin), &err) < 0)
		return cli_fail(CLI_RUN_FAILED, &err);
	rc = find_daemon(socket, sizeof(socket), &ping);
	if (rc != CLI_OK)
		return rc;
	q.env.socket = socket;
	q.env.plugin = plugin;
	q.env.platform = cli_json_text(ping, "platform");
	rc = cli_job_env_set(&q.env, &err);
	json_decref(ping);
	return rc < 0 ? cli_fail(CLI_RUN_FAILED, &err) : become(q.argv);
}

const struct cli_command cli_cmd_run = {
	.name = "run",
	.summary = "run a job on the shared device",
	.usage =
		"[OPTION...] -- CMD [ARG...]\n"
		"\n"
		"Runs an unmodified JAX program on the device of salusd. If SALUS_SOCKET is not set\n"
		"and no salusd of yours is running, starts one, which ends after 10 minutes without\n"
		"jobs.\n"
		"\n"
		"  --name N       name of the job in `salus ps` (default: its script or command)\n"
		"  --reserve P,E  device memory to reserve: persistent bytes, kept between iterations,\n"
		"                 and scratch during one, e.g. 2GiB,512MiB (default: salusd learns it)\n"
		"  --weight W     share of the device under the fair policy (default 1)\n"
		"  --priority K   0 is the most urgent (default 20)\n"
		"  --time T       device time of the whole job, e.g. 20min; srtf uses it\n"
		"  --kind K       training or inference; mix and deadline use it, and find it by\n"
		"                 themselves if it is not given\n"
		"  --deadline T   each iteration must end so soon after its submission, e.g. 20ms;\n"
		"                 deadline uses it, and refuses what cannot be met\n"
		"\n"
		"A job that has waited for 5 s says on stderr what it waits for; SALUS_QUIET=1 turns\n"
		"that off.\n"
		"\n"
		"Exits with the status of CMD. 125: salus failed; 126: CMD cannot be run; 127: there is\n"
		"no CMD; 69: SALUS_SOCKET is set, but no salusd answers there.\n",
	.run = run_run,
	.wraps = true,
};
