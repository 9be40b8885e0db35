/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env - `salus env`: the variables that `salus run` would set, for launchers that start jobs
 * themselves.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/daemon/job_options.h"
#include "cli/daemon/job_place.h"

enum {
	OPT_JSON = CLI_JOB_OTHER,
};

struct request {
	struct cli_job_options job;
	bool json, help;
};

static const struct option long_options[] = {
	CLI_JOB_LONG_OPTIONS,
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int parse(struct request *q, int argc, char **argv)
{
	int option, rc;

	memset(q, 0, sizeof(*q));
	optind = 1;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		q->json |= option == OPT_JSON;
		q->help |= option == 'h';
		if (option == OPT_JSON || option == 'h')
			continue;
		rc = cli_job_options_take(&q->job, &cli_cmd_env, option, optarg);
		if (rc < 0)
			rc = cli_option_error(&cli_cmd_env, long_options, option, argv);
		if (rc != CLI_OK)
			return rc;
	}
	if (argv[optind])
		return cli_usage_error(&cli_cmd_env,
				       "there is no argument \"%s\"; `salus run -- CMD` runs a "
				       "command",
				       argv[optind]);
	return CLI_OK;
}

/* For a shell: inside '...' only the quote itself is special. */
static void print_export(const char *name, const char *value)
{
	(void)printf("export %s='", name);
	for (; *value; value++)
		if (*value == '\'')
			(void)fputs("'\\''", stdout);
		else
			(void)putchar(*value);
	(void)puts("'");
}

static int print_exports(const struct cli_job_vars *vars)
{
	size_t i;

	for (i = 0; i < vars->count; i++)
		print_export(vars->at[i].name, vars->at[i].value);
	return cli_flush();
}

static int print_json(const struct cli_job_vars *vars)
{
	json_t *object = json_object();
	size_t i;
	int rc = CLI_OK;

	for (i = 0; object && i < vars->count && rc == CLI_OK; i++)
		if (json_object_set_new(object, vars->at[i].name, json_string(vars->at[i].value)) <
		    0)
			rc = cli_usage_error(&cli_cmd_env, "%s is not UTF-8, as JSON needs it",
					     vars->at[i].name);
	if (rc == CLI_OK)
		rc = object ? cli_json_print(object) : cli_no_memory();
	json_decref(object);
	return rc;
}

static int run_env(int argc, char **argv)
{
	struct cli_job_place place;
	struct cli_job_vars vars;
	struct sal_err err = { 0 };
	struct request q;
	int rc = parse(&q, argc, argv);

	if (rc != CLI_OK)
		return rc;
	if (q.help)
		return cli_help(&cli_cmd_env);
	rc = cli_job_place_init(&place, &q.job.env);
	if (rc != CLI_OK)
		return rc == CLI_RUN_FAILED ? CLI_FAILED : rc;
	if (cli_job_vars_init(&vars, &q.job.env, &err) < 0) {
		rc = cli_fail(CLI_FAILED, &err);
	} else {
		rc = q.json ? print_json(&vars) : print_exports(&vars);
		cli_job_vars_fini(&vars);
	}
	cli_job_place_fini(&place);
	return rc;
}

const struct cli_command cli_cmd_env = {
	.name = "env",
	.summary = "print the variables that make a process a job",
	.usage =
		"[OPTION...] [--json]\n"
		"\n"
		"Prints the variables that `salus run` sets, for launchers that start jobs\n"
		"themselves: eval \"$(salus env)\" in a shell, or --json. Starts a salusd of yours\n"
		"like `salus run`, if none answers.\n"
		"\n" CLI_JOB_OPTIONS_HELP "  --json         one JSON object: names and values\n"
		"\n"
		"PYTHONPATH and other lists contain the values that they have now. Without --name a\n"
		"job is called after its program.\n",
	.run = run_env,
};
