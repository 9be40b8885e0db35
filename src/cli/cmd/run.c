/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run - `salus run -- CMD...`: become CMD, in an environment that makes it a session of salusd.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/daemon/job_options.h"
#include "cli/daemon/job_place.h"
#include "cli/daemon/job_watch.h"

struct request {
	struct cli_job_options job;
	char **argv; /* of the command */
	bool help;
};

static const struct option long_options[] = {
	CLI_JOB_LONG_OPTIONS,
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

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
	int rc;

	q->help = option == 'h';
	if (q->help)
		return CLI_OK;
	rc = cli_job_options_take(&q->job, &cli_cmd_run, option, optarg);
	return rc < 0 ? refuse_option(option, argv) : rc;
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
	if (!q->job.env.name && !(outer && *outer))
		q->job.env.name = cli_job_name(q->argv);
	q->job.env.isolated = cli_job_is_isolated(q->argv);
	return CLI_OK;
}

static bool is_script(const char *name)
{
	size_t length = strlen(name);

	return length > 3 && strcmp(name + length - 3, ".py") == 0;
}

static int become(char **argv)
{
	struct cli_job_watch watch;
	struct sal_err err = { 0 };
	int why;

	(void)cli_job_watch_start(&watch, cli_job_name(argv));
	(void)execvp(argv[0], argv);
	why = errno;
	cli_job_watch_cancel(&watch);
	if (is_script(argv[0]) && (why == ENOENT || why == EACCES || why == ENOEXEC))
		(void)sal_err_set(&err, SAL_NOT_FOUND,
				  "%s is not a command; did you mean python %s?", argv[0], argv[0]);
	else
		(void)sal_err_set(&err, SAL_NOT_FOUND, "%s: %s", argv[0], strerror(why));
	return cli_fail(why == ENOENT ? CLI_RUN_NOT_FOUND : CLI_RUN_CANNOT, &err);
}

static int run_run(int argc, char **argv)
{
	struct cli_job_place place;
	struct sal_err err = { 0 };
	struct request q;
	int rc = parse(&q, argc, argv);

	if (rc != CLI_OK)
		return rc;
	if (q.help)
		return cli_help(&cli_cmd_run);
	rc = cli_job_place_init(&place, &q.job.env);
	if (rc != CLI_OK)
		return rc;
	rc = cli_job_env_set(&q.job.env, &err);
	cli_job_place_fini(&place);
	return rc < 0 ? cli_fail(CLI_RUN_FAILED, &err) : become(q.argv);
}

const struct cli_command cli_cmd_run = {
	.name = "run",
	.summary = "run a job on the shared device",
	.usage =
		"[OPTION...] -- CMD [ARG...]\n"
		"\n"
		"Runs an unmodified JAX or PyTorch/XLA program on the device of salusd. If SALUS_SOCKET\n"
		"is not set and no salusd of yours is running, starts one, which ends after 10 minutes\n"
		"without jobs.\n"
		"\n" CLI_JOB_OPTIONS_HELP "\n"
		"A job that has waited for 5 s says on stderr what it waits for. A job that ends\n"
		"without using the device says that, too. SALUS_QUIET=1 turns both off.\n"
		"\n"
		"Exits with the status of CMD. 125: salus failed; 126: CMD cannot be run; 127: there is\n"
		"no CMD; 69: SALUS_SOCKET is set, but no salusd answers there.\n",
	.run = run_run,
	.wraps = true,
};
