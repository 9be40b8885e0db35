/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim - `salus sim`: run a workload under one or more policies, in virtual time.
 *
 * Everything is computed before anything is written, so a bad workload leaves no files behind.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/cmd/replay.h"
#include "cli/save.h"
#include "loader/loader.h"
#include "sim/chrome.h"
#include "sim/picture.h"
#include "sim/report.h"
#include "sim/sim.h"

#define POLICIES_MAX 32
#define TUNES_MAX 16

struct request {
	const char *workload_path;
	const char *replay_path;
	const char *svg_path;
	const char *chrome_path;
	const struct sal_policy *policies[POLICIES_MAX + 1]; /* ended by NULL */
	size_t policy_count;
	struct sal_loader loader; /* policies from files */
	bool names_built_in; /* one of the policies is built in */
	const char *tunes[TUNES_MAX];
	struct sim_options options;
	bool with_jobs, json, static_partition, list_policies;
};

enum {
	OPT_WORKLOAD = 1000,
	OPT_REPLAY,
	OPT_POLICY,
	OPT_MEMORY,
	OPT_LANES,
	OPT_PAGE_BANDWIDTH,
	OPT_NO_PAGING,
	OPT_SWITCH,
	OPT_JSON,
	OPT_JOBS,
	OPT_SVG,
	OPT_CHROME,
	OPT_STATIC,
	OPT_CHECK,
	OPT_POLICIES,
	OPT_TUNE,
};

static const struct option long_options[] = {
	{ "workload", required_argument, NULL, OPT_WORKLOAD },
	{ "trace", required_argument, NULL, OPT_WORKLOAD }, /* its name before */
	{ "replay", required_argument, NULL, OPT_REPLAY },
	{ "policy", required_argument, NULL, OPT_POLICY },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "lanes", required_argument, NULL, OPT_LANES },
	{ "page-bandwidth", required_argument, NULL, OPT_PAGE_BANDWIDTH },
	{ "no-paging", no_argument, NULL, OPT_NO_PAGING },
	{ "switch", required_argument, NULL, OPT_SWITCH },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "jobs", no_argument, NULL, OPT_JOBS },
	{ "svg", required_argument, NULL, OPT_SVG },
	{ "chrome", required_argument, NULL, OPT_CHROME },
	{ "static", no_argument, NULL, OPT_STATIC },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "policies", no_argument, NULL, OPT_POLICIES },
	{ "tune", required_argument, NULL, OPT_TUNE },
	{ NULL, 0, NULL, 0 },
};

/* A policy of the list, or a file. */
static int find_policy(struct request *q, const char *name, const struct sal_policy **out)
{
	char names[SAL_POLICY_NAMES_BYTES];
	struct sal_err err = { 0 };
	int rc;

	if (sal_loader_is_path(name)) {
		rc = sal_loader_load(&q->loader, name, out, &err);
		if (rc < 0)
			return cli_fail(rc == -SAL_NOT_FOUND ? CLI_NO_INPUT : CLI_BAD_DATA, &err);
		return CLI_OK;
	}
	*out = sal_policy_find(name);
	q->names_built_in = true;
	if (!*out)
		return cli_usage_error(&cli_cmd_sim, "there is no policy \"%s\"; there are %s",
				       name, sal_policy_names(", ", names, sizeof(names)));
	return CLI_OK;
}

static int parse_policies(struct request *q, char *list)
{
	char *name;

	while ((name = strsep(&list, ","))) {
		const struct sal_policy *policy;
		int rc = find_policy(q, name, &policy);

		if (rc != CLI_OK)
			return rc;
		if (q->policy_count == POLICIES_MAX)
			return cli_usage_error(&cli_cmd_sim, "more than %d policies", POLICIES_MAX);
		q->policies[q->policy_count++] = policy;
	}
	return CLI_OK;
}

static int parse_lanes(struct request *q, const char *text)
{
	char *end;
	unsigned long lanes = strtoul(text, &end, 10);

	if (strcmp(text, "auto") == 0) {
		q->options.tuning.lanes = SAL_LANES_AUTO;
		return CLI_OK;
	}
	if (*end || end == text || lanes < 1 || lanes > SAL_LANES_MAX || *text == '-')
		return cli_usage_error(&cli_cmd_sim, "--lanes is \"%s\", expected auto or 1 to %d",
				       text, SAL_LANES_MAX);
	q->options.tuning.lanes = (uint32_t)lanes;
	return CLI_OK;
}

/* One option with a unit. */
static int parse_quantity(struct request *q, int option, const char *text)
{
	struct sal_tuning *tuning = &q->options.tuning;
	struct sal_err err = { 0 };
	const char *name;
	int rc;

	if (option == OPT_MEMORY) {
		name = "--memory";
		rc = sal_bytes_parse(text, &q->options.capacity_bytes, &err);
		if (rc >= 0 && q->options.capacity_bytes == 0)
			rc = sal_err_set(&err, SAL_INVALID_ARGUMENT, "0 is no size");
	} else if (option == OPT_PAGE_BANDWIDTH) {
		name = "--page-bandwidth";
		rc = sal_rate_parse(text, &tuning->page_bytes_per_s, &err);
		if (rc >= 0 && tuning->page_bytes_per_s == 0)
			rc = sal_err_set(&err, SAL_INVALID_ARGUMENT,
					 "0 is no rate; --no-paging turns paging off");
	} else {
		name = "--switch";
		rc = sal_duration_parse(text, &q->options.switch_ns, &err);
	}
	return rc < 0 ? cli_usage_error(&cli_cmd_sim, "%s: %s", name, err.text) : CLI_OK;
}

static int add_tune(struct request *q, const char *pair)
{
	if (q->options.tune_count == TUNES_MAX)
		return cli_usage_error(&cli_cmd_sim, "more than %d times --tune", TUNES_MAX);
	q->tunes[q->options.tune_count++] = pair;
	q->options.tunes = q->tunes;
	return CLI_OK;
}

/* Each must make sense under one of the policies at least. */
static int check_tunes(const struct request *q)
{
	struct sal_err err = { 0 };
	size_t i, k;

	for (i = 0; i < q->options.tune_count; i++) {
		struct sal_change change;
		int rc = -SAL_NOT_FOUND;

		for (k = 0; rc == -SAL_NOT_FOUND && k < q->policy_count; k++)
			rc = sal_change_parse(q->policies[k], q->tunes[i], &change, &err);
		if (rc < 0 && q->policy_count > 0)
			return cli_usage_error(&cli_cmd_sim, "--tune: %s", err.text);
	}
	return CLI_OK;
}

/* An option without a value; false if it is another one. */
static bool set_flag(struct request *q, int option)
{
	switch (option) {
	case OPT_NO_PAGING:
		q->options.tuning.page_bytes_per_s = 0;
		return true;
	case OPT_JSON:
		return q->json = true;
	case OPT_JOBS:
		return q->with_jobs = true;
	case OPT_STATIC:
		return q->static_partition = true;
	case OPT_POLICIES:
		return q->list_policies = true;
	case OPT_CHECK:
		return q->options.check = true;
	default:
		return false;
	}
}

static int parse_option(struct request *q, int option, char **argv)
{
	if (set_flag(q, option))
		return CLI_OK;
	switch (option) {
	case OPT_WORKLOAD:
		q->workload_path = optarg;
		return CLI_OK;
	case OPT_REPLAY:
		q->replay_path = optarg;
		return CLI_OK;
	case OPT_POLICY:
		return parse_policies(q, optarg);
	case OPT_LANES:
		return parse_lanes(q, optarg);
	case OPT_MEMORY:
	case OPT_PAGE_BANDWIDTH:
	case OPT_SWITCH:
		return parse_quantity(q, option, optarg);
	case OPT_SVG:
		q->svg_path = optarg;
		q->options.keep_spans = true;
		return CLI_OK;
	case OPT_CHROME:
		q->chrome_path = optarg;
		q->options.keep_records = true;
		return CLI_OK;
	case OPT_TUNE:
		return add_tune(q, optarg);
	default:
		return cli_option_error(&cli_cmd_sim, long_options, option, argv);
	}
}

static int parse(struct request *q, int argc, char **argv)
{
	int option, rc;

	memset(q, 0, sizeof(*q));
	sal_tuning_default(&q->options.tuning);
	q->options.tuning.tiers = 1;
	optind = 1;
	while ((option = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
		rc = parse_option(q, option, argv);
		if (rc != CLI_OK)
			return rc;
	}
	if (optind < argc)
		return cli_usage_error(&cli_cmd_sim, "unexpected argument \"%s\"", argv[optind]);
	if (q->replay_path && (q->workload_path || q->names_built_in || q->options.capacity_bytes))
		return cli_usage_error(&cli_cmd_sim, "--replay FILE brings its own %s",
				       q->workload_path	   ? "jobs"
				       : q->names_built_in ? "policy"
							   : "memory");
	if (q->replay_path || q->list_policies)
		return CLI_OK;
	if (!q->workload_path)
		return cli_usage_error(&cli_cmd_sim, "--workload FILE.csv is missing");
	if (q->options.capacity_bytes == 0)
		return cli_usage_error(&cli_cmd_sim, "--memory SIZE is missing");
	if (q->policy_count == 0 && !q->static_partition)
		return cli_usage_error(&cli_cmd_sim, "--policy NAME[,NAME...] is missing");
	if (q->static_partition && (q->svg_path || q->chrome_path) && q->policy_count == 0)
		return cli_usage_error(&cli_cmd_sim,
				       "--static draws no picture and writes no trace");
	return check_tunes(q);
}

/* Results to be written. */
struct drawing {
	const struct sim_result *results;
	size_t count;
};

static int write_svg(FILE *out, const void *what, struct sal_err *err)
{
	const struct drawing *d = what;

	return sim_svg_write(out, d->results, d->count, err);
}

static int write_chrome(FILE *out, const void *what, struct sal_err *err)
{
	const struct drawing *d = what;

	return sim_chrome_write(out, d->results, d->count, err);
}

/*
 * What went wrong. A run in which no job could run is a failure, so that a script notices a wrong
 * --memory.
 */
static int tell_troubles(const struct sim_result *results, size_t count)
{
	struct sal_words why = { 0 }, ejected = { 0 };
	bool is_any_done = sim_report_refusals(results, count, &why);

	sim_report_ejections(results, count, &ejected);
	if (why.used > 0)
		(void)fprintf(stderr, "salus sim: %s\n", why.at);
	if (ejected.used > 0)
		(void)fprintf(stderr, "salus sim: %s\n", ejected.at);
	return is_any_done ? CLI_OK : CLI_FAILED;
}

static int write_all(const struct request *q, const struct sim_result *results, size_t count)
{
	/* Static partitioning, if asked for, comes last. */
	struct drawing drawn = { .results = results, .count = q->policy_count };
	struct sal_err err = { 0 };
	int rc = SAL_OK;

	if (q->svg_path)
		rc = cli_save(q->svg_path, write_svg, &drawn, &err);
	if (rc >= 0 && q->chrome_path)
		rc = cli_save(q->chrome_path, write_chrome, &drawn, &err);
	if (rc < 0)
		return cli_fail(CLI_CANNOT_CREATE, &err);
	if (q->json)
		rc = sim_report_json(stdout, results, count, q->with_jobs, &err);
	else
		rc = sim_report_text(stdout, results, count, q->with_jobs, &err);
	if (rc >= 0 && fflush(stdout) != 0)
		rc = sal_err_set(&err, SAL_UNAVAILABLE, "cannot write the report: %s",
				 strerror(errno));
	return rc < 0 ? cli_fail(CLI_FAILED, &err) : tell_troubles(results, count);
}

static int simulate(const struct request *q, const struct sim_workload *workload)
{
	struct sim_result results[POLICIES_MAX + 1];
	struct sal_err err = { 0 };
	size_t count = 0, i;
	int rc = SAL_OK, code;

	for (i = 0; rc >= 0 && i < q->policy_count; i++) {
		rc = sim_run(workload, q->policies[i], &q->options, &results[count], &err);
		count += rc >= 0;
	}
	if (rc >= 0 && q->static_partition) {
		rc = sim_run_static(workload, &q->options, &results[count], &err);
		count += rc >= 0;
	}
	code = rc < 0 ? cli_fail(CLI_FAILED, &err) : write_all(q, results, count);
	while (count > 0)
		sim_result_fini(&results[--count]);
	return code;
}

static void print_policies(void)
{
	const struct sal_policy *const *p;

	for (p = sal_policies; *p; p++)
		(void)printf("  %-22s %s\n", (*p)->name, (*p)->idea);
}

static void print_params(const struct sal_param *list)
{
	char value[SAL_UNITS_TEXT], words[64];

	for (; list && list->name; list++) {
		(void)snprintf(words, sizeof(words), "%s=%s", list->name,
			       sal_param_format(list, list->standard, value, sizeof(value)));
		(void)printf("  %-22s %s\n", words, list->about);
	}
}

/* The policies, and what can be tuned, with the defaults. */
static void print_more_help(void)
{
	const struct sal_policy *const *p;

	print_policies();
	(void)printf("\nTo tune, under every policy:\n");
	print_params(sal_knobs);
	for (p = sal_policies; *p; p++) {
		if (!(*p)->params)
			continue;
		(void)printf("\nTo tune, under %s:\n", (*p)->name);
		print_params((*p)->params);
	}
}

static int run_request(const struct request *q)
{
	struct sim_workload workload;
	struct sal_err err = { 0 };
	int rc;

	if (q->list_policies)
		return print_policies(), cli_flush();
	if (q->replay_path)
		return cli_replay(q->replay_path, q->policies, q->json);
	rc = sim_workload_read(q->workload_path, &workload, &err);
	if (rc < 0) /* file:line: what, for editors to follow */
		return (void)fprintf(stderr, "%s\n", err.text),
		       rc == -SAL_NOT_FOUND ? CLI_NO_INPUT : CLI_BAD_DATA;
	rc = simulate(q, &workload);
	sim_workload_fini(&workload);
	return rc;
}

static int run_sim(int argc, char **argv)
{
	struct request q;
	int rc = parse(&q, argc, argv);

	if (rc == CLI_OK)
		rc = run_request(&q);
	sal_loader_fini(&q.loader);
	return rc;
}

const struct cli_command cli_cmd_sim = {
	.name = "sim",
	.summary = "run a workload under one or more policies, in virtual time",
	.usage =
		"--workload FILE.csv --policy NAME[,NAME...] --memory SIZE [OPTION...]\n"
		"       salus sim --replay FILE [--policy FILE.so] [--json]\n"
		"       salus sim --policies\n"
		"\n"
		"Runs the scheduling core of salusd on a virtual clock, iteration by iteration.\n"
		"\n"
		"  --workload FILE.csv    jobs: columns job, submit_s, duration_s or iterations + iter_ms;\n"
		"                         optional persistent_mib, ephemeral_mib, util, weight,\n"
		"                         priority, kind, requests_per_s, deadline_ms\n"
		"  --replay FILE          repeat what `salus trace` wrote: does the core decide the same?\n"
		"  --policy NAME,...      who goes first; see below; with a '/', a shared object\n"
		"                         with a policy of your own, e.g. ./mine.so\n"
		"  --memory SIZE          memory of the device, e.g. 15.6GiB\n"
		"  --lanes N|auto         at most N lanes at once, or as many as pay\n"
		"                         (default: what the policy wants)\n"
		"  --page-bandwidth RATE  between device and host (default 12GB/s)\n"
		"  --no-paging            sessions stay on the device until they end\n"
		"  --switch TIME          device time lost when a lane changes jobs (default 0)\n"
		"  --tune NAME=VALUE      a knob, or a parameter of a policy; see below\n"
		"  --static               also simulate a fixed slice per job, on as many devices as it takes\n"
		"  --jobs                 print a row for each job, too\n"
		"  --json                 print one JSON object instead of tables\n"
		"  --svg FILE             draw jobs, lanes and memory over time\n"
		"  --chrome FILE          write every decision, for Perfetto or chrome://tracing\n"
		"  --check                verify the core's invariants after every event (slow)\n"
		"  --policies             list the policies, one a line, and end\n"
		"\n"
		"Policies:\n",
	.more_help = print_more_help,
	.run = run_sim,
};
