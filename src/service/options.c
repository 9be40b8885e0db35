/* SPDX-License-Identifier: Apache-2.0 */
#include "service/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ini.h>

#include "base/array.h"
#include "base/log/log.h"
#include "base/sys/machine.h"
#include "base/nearest.h"
#include "base/units.h"
#include "compile/pool/pool.h"
#include "core/engine.h"
#include "service/limits.h"
#include "service/trace.h"

/* Each record takes 144 bytes. */
#define TRACE_RECORDS_MIN 64u
#define TRACE_RECORDS_MAX (1u << 26)

/*
 * Part of the machine's memory that the device gets by default. The rest is for the system, salusd
 * and its helpers.
 */
#define MEMORY_PERCENT 80

/* How many lanes there are if nobody says: a number, 0 or SAL_LANES_AUTO. */
#define DEFAULT_LANES SAL_LANES_AUTO

static int set_lanes(struct svc_setup *setup, const char *value)
{
	char *end;
	unsigned long lanes = strtoul(value, &end, 10);

	if (strcmp(value, "auto") == 0) {
		setup->options.lanes = SAL_LANES_AUTO;
		return SAL_OK;
	}
	if (*value < '0' || *value > '9' || *end || lanes > SAL_LANES_MAX)
		return sal_err_set(
			&setup->err, SAL_INVALID_ARGUMENT,
			"lanes is \"%s\", expected auto, or 0 (as many as the policy wants) to %d",
			value, SAL_LANES_MAX);
	setup->options.lanes = (uint32_t)lanes;
	return SAL_OK;
}

static int set_trace_records(struct svc_setup *setup, const char *value)
{
	char *end;
	unsigned long long records = strtoull(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || records < TRACE_RECORDS_MIN ||
	    records > TRACE_RECORDS_MAX)
		return sal_err_set(&setup->err, SAL_INVALID_ARGUMENT,
				   "trace-records is \"%s\", expected %u to %u", value,
				   TRACE_RECORDS_MIN, TRACE_RECORDS_MAX);
	setup->options.trace_records = TRACE_RECORDS_MIN;
	while (setup->options.trace_records < records)
		setup->options.trace_records *= 2;
	return SAL_OK;
}

static int set_policy(struct svc_setup *setup, const char *value)
{
	char names[SAL_POLICY_NAMES_BYTES];

	setup->policy_path = sal_loader_is_path(value) ? value : NULL;
	setup->options.policy = sal_policy_find(value);
	if (setup->options.policy || setup->policy_path)
		return SAL_OK;
	return sal_err_set(&setup->err, SAL_INVALID_ARGUMENT,
			   "there is no policy \"%.60s\"; there are %s", value,
			   sal_policy_names(", ", names, sizeof(names)));
}

/* Store the text only: the policy that knows the parameter may be named later. */
static int add_tune(struct svc_setup *setup, const char *value)
{
	struct svc_options *o = &setup->options;

	if (o->tune_count == SVC_TUNES_MAX || strlen(value) >= SVC_TUNE_BYTES)
		return sal_err_set(&setup->err, SAL_INVALID_ARGUMENT,
				   o->tune_count == SVC_TUNES_MAX ? "given more than %d times"
								  : "longer than %d bytes",
				   o->tune_count == SVC_TUNES_MAX ? SVC_TUNES_MAX
								  : SVC_TUNE_BYTES - 1);
	(void)snprintf(setup->tunes[o->tune_count], SVC_TUNE_BYTES, "%s", value);
	o->tunes[o->tune_count] = setup->tunes[o->tune_count];
	o->tune_count++;
	return SAL_OK;
}

static int add_plugin_option(struct svc_setup *setup, const char *value)
{
	struct svc_options *o = &setup->options;
	struct sal_plugin_option option;
	int rc = sal_plugin_option_parse(value, &option, &setup->err);

	if (rc < 0)
		return rc;
	if (o->plugin_option_count == SAL_PLUGIN_OPTIONS_MAX)
		return sal_err_set(&setup->err, SAL_INVALID_ARGUMENT, "given more than %d times",
				   SAL_PLUGIN_OPTIONS_MAX);
	(void)snprintf(setup->plugin_options[o->plugin_option_count], SAL_PLUGIN_OPTION_BYTES, "%s",
		       value);
	o->plugin_options[o->plugin_option_count] = setup->plugin_options[o->plugin_option_count];
	o->plugin_option_count++;
	return SAL_OK;
}

static int check_tunes(struct svc_setup *setup)
{
	const struct svc_options *o = &setup->options;
	struct sal_change change;
	uint32_t i;
	int rc = SAL_OK;

	for (i = 0; rc >= 0 && i < o->tune_count; i++)
		rc = sal_change_parse(o->policy, o->tunes[i], &change, &setup->err);
	return rc < 0 ? sal_err_set(&setup->err, SAL_INVALID_ARGUMENT, "--tune: %s",
				    setup->err.text)
		      : SAL_OK;
}

static int set_no_profiles(struct svc_setup *setup, const char *value)
{
	setup->options.no_profiles = strcmp(value, "yes") == 0;
	if (setup->options.no_profiles || strcmp(value, "no") == 0)
		return SAL_OK;
	return sal_err_set(&setup->err, SAL_INVALID_ARGUMENT,
			   "no-profiles is \"%s\": it can be yes or no", value);
}

static int set_arena(struct svc_setup *setup, const char *value)
{
	return svc_limits_set(&setup->options.limits, "job-arena", value, &setup->err);
}

static int set_limit(struct svc_setup *setup, const char *value)
{
	return svc_limits_set_pair(&setup->options.limits, value, &setup->err);
}

static int set_log_size(struct svc_setup *setup, const char *value)
{
	int rc = sal_bytes_parse(value, &setup->options.log_bytes, &setup->err);

	if (rc >= 0 && setup->options.log_bytes < SAL_LOG_SIZE_MIN)
		rc = sal_err_set(&setup->err, SAL_INVALID_ARGUMENT,
				 "log-size is \"%s\", expected at least 64KiB", value);
	return rc;
}

enum kind {
	TEXT, /* const char * */
	BYTES, /* uint64_t */
	DURATION, /* uint64_t, in ns */
	CUSTOM,
	FLAG /* like CUSTOM; on the command line it has no value and means yes */
};

struct setting {
	const char *name;
	const char *value; /* the name of the value in the help */
	const char *help;
	enum kind kind;
	size_t at; /* offset in svc_options; not for CUSTOM and FLAG */
	int (*set)(struct svc_setup *setup, const char *value); /* for CUSTOM and FLAG */
};

#define AT(field) offsetof(struct svc_options, field)

static const struct setting settings[] = {
	{ "socket", "PATH", "where jobs connect (default: in the user's runtime directory)", TEXT,
	  AT(socket_path), NULL },
	{ "plugin", "PATH", "the vendor's PJRT plugin (default: XLA:CPU), or `fake`", TEXT,
	  AT(plugin_path), NULL },
	{ "plugin-option", "NAME=VALUE", "for the plugin's clients, e.g. memory_fraction=0.5",
	  CUSTOM, 0, add_plugin_option },
	{ "policy", "NAME", "who goes first (default fair), or a file, ./mine.so; see below",
	  CUSTOM, 0, set_policy },
	{ "tune", "NAME=VALUE", "a knob, or a parameter of the policy; `salus policy` lists them",
	  CUSTOM, 0, add_tune },
	{ "memory", "SIZE",
	  "of the device (default: what it says; XLA:CPU: 80 % of what is allowed here)", BYTES,
	  AT(memory_bytes), NULL },
	{ "lanes", "N", "most lanes at once (default auto: as many as pay; 0: as the policy wants)",
	  CUSTOM, 0, set_lanes },
	{ "cache", "DIR", "compiled programs (default: the user's cache), or `none`", TEXT,
	  AT(cache_dir), NULL },
	{ "cache-size", "SIZE", "bound of that (default 4GiB)", BYTES, AT(cache_bytes), NULL },
	{ "compile-time", "TIME", "longest compilation of a program (default 15min)", DURATION,
	  AT(compile_time_ns), NULL },
	{ "compile-memory", "SIZE",
	  "most memory of a compiler process (default: half of what is allowed)", BYTES,
	  AT(compile_memory_bytes), NULL },
	{ "iteration-limit", "TIME", "end a job whose iteration takes longer (default: none)",
	  DURATION, AT(iteration_limit_ns), NULL },
	{ "limit", "NAME=VALUE", "of a job, a user or all; `salus limits` lists them", CUSTOM, 0,
	  set_limit },
	{ "arena", "SIZE", "the same as --limit job-arena=SIZE", CUSTOM, 0, set_arena },
	{ "no-profiles", NULL, "do not remember what jobs needed", FLAG, 0, set_no_profiles },
	{ "trace-records", "N", "events and decisions kept for `salus trace` (default 65536)",
	  CUSTOM, 0, set_trace_records },
	{ "idle-exit", "TIME", "end after that long without a job", DURATION, AT(idle_exit_ns),
	  NULL },
	{ "log", "FILE", "append the log there (default: stderr)", TEXT, AT(log_path), NULL },
	{ "log-size", "SIZE", "bound of that file; one older, FILE.1, is kept (default 16MiB)",
	  CUSTOM, 0, set_log_size },
};

#define SETTINGS SAL_COUNT(settings)

_Static_assert(SETTINGS <= SVC_SETTINGS_MAX, "room for the text of each setting");

static void print_policies(void)
{
	const struct sal_policy *const *p;

	(void)printf("\nPolicies:\n");
	for (p = sal_policies; *p; p++)
		(void)printf("  %-18s %s\n", sal_policy_name(*p), sal_policy_idea(*p));
}

static void print_usage(void)
{
	char words[40];
	size_t i;

	(void)printf("usage: salusd [OPTION...]\n\n"
		     "Owns the device and runs the iterations of all jobs on it.\n\n");
	for (i = 0; i < SETTINGS; i++) {
		(void)snprintf(words, sizeof(words), "--%s %s", settings[i].name,
			       settings[i].value ? settings[i].value : "");
		(void)printf("  %-18s %s\n", words, settings[i].help);
	}
	(void)printf("  %-18s %s\n  %s\n", "--config FILE",
		     "the same settings, and limits, as `name = value` lines", "--version, --help");
	print_policies();
}

/* The value must live as long as the setup. */
static int set(struct svc_setup *setup, const struct setting *s, const char *value)
{
	char *field = (char *)&setup->options + s->at;

	switch (s->kind) {
	case TEXT:
		*(const char **)(void *)field = value;
		return SAL_OK;
	case BYTES:
		return sal_bytes_parse(value, (uint64_t *)(void *)field, &setup->err);
	case DURATION:
		return sal_duration_parse(value, (uint64_t *)(void *)field, &setup->err);
	default:
		return s->set(setup, value);
	}
}

static int set_from_file(struct svc_setup *setup, const char *name, const char *value)
{
	size_t i;
	int rc;

	for (i = 0; i < SETTINGS && strcmp(settings[i].name, name) != 0; i++)
		;
	if (i == SETTINGS) {
		rc = svc_limits_set(&setup->options.limits, name, value, &setup->err);
		if (rc == -SAL_NOT_FOUND)
			rc = sal_err_set(&setup->err, SAL_INVALID_ARGUMENT, "no setting \"%s\"",
					 name);
		return rc;
	}
	free(setup->texts[i]);
	setup->texts[i] = strdup(value);
	if (!setup->texts[i])
		return sal_err_set(&setup->err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	return set(setup, &settings[i], setup->texts[i]);
}

static int on_setting(void *ctx, const char *section, const char *name, const char *value)
{
	(void)section;
	return set_from_file(ctx, name, value) >= 0;
}

static int read_config(struct svc_setup *setup, const char *path)
{
	int rc = ini_parse(path, on_setting, setup);

	if (rc == 0)
		return SAL_OK;
	if (rc < 0)
		(void)fprintf(stderr, "salusd: %s: cannot be read\n", path);
	else
		(void)fprintf(stderr, "salusd: %s:%d: %s\n", path, rc,
			      setup->err.code ? setup->err.text : "expected name = value");
	return -1;
}

enum {
	OPT_SETTING = 1000, /* plus the setting's index */
	OPT_CONFIG = 2000,
	OPT_HELP,
	OPT_VERSION
};

static void list_options(struct option out[SETTINGS + 4])
{
	size_t i;

	for (i = 0; i < SETTINGS; i++)
		out[i] =
			(struct option){ settings[i].name,
					 settings[i].kind == FLAG ? no_argument : required_argument,
					 NULL, OPT_SETTING + (int)i };
	out[i++] = (struct option){ "config", required_argument, NULL, OPT_CONFIG };
	out[i++] = (struct option){ "help", no_argument, NULL, OPT_HELP };
	out[i++] = (struct option){ "version", no_argument, NULL, OPT_VERSION };
	out[i] = (struct option){ NULL, 0, NULL, 0 };
}

/* Returns -1 to go on, or an exit code. */
static int take_option(struct svc_setup *setup, int option)
{
	const struct setting *s;

	if (option == OPT_HELP) {
		print_usage();
		return 0;
	}
	if (option == OPT_VERSION) {
		(void)printf("salusd %s\n", SALUS_VERSION);
		return 0;
	}
	if (option == OPT_CONFIG)
		return read_config(setup, optarg) < 0 ? SVC_EXIT_CONFIG : -1;
	s = &settings[option - OPT_SETTING];
	if (set(setup, s, optarg ? optarg : "yes") >= 0)
		return -1;
	(void)fprintf(stderr, "salusd: --%s: %s\n", s->name, setup->err.text);
	return SVC_EXIT_USAGE;
}

/* Returns -1 to go on, or an exit code. */
static int parse(struct svc_setup *setup, int argc, char **argv)
{
	struct option options[SETTINGS + 4];
	int option, code = -1;

	list_options(options);
	while (code < 0 && (option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (option == '?' || option == ':') {
			(void)sal_option_refuse(options, option, argv, &setup->err);
			(void)fprintf(stderr, "salusd: %s\nTry `salusd --help`.\n",
				      setup->err.text);
			return SVC_EXIT_USAGE;
		}
		code = take_option(setup, option);
	}
	if (code < 0 && optind < argc) {
		(void)fprintf(stderr, "salusd: unexpected argument \"%s\"\nTry `salusd --help`.\n",
			      argv[optind]);
		return SVC_EXIT_USAGE;
	}
	return code;
}

static void set_defaults(struct svc_setup *setup)
{
	struct svc_options *o = &setup->options;
	uint64_t allowed_bytes = sal_machine_memory();

	memset(setup, 0, sizeof(*setup));
	o->host_bytes = allowed_bytes / 100 * MEMORY_PERCENT;
	o->lanes = DEFAULT_LANES;
	o->trace_records = SVC_TRACE_ENTRIES;
	o->cache_bytes = UINT64_C(4) << 30;
	o->log_bytes = UINT64_C(16) << 20;
	o->compile_time_ns = SAL_COMPILE_TIME_NS;
	o->compile_memory_bytes = allowed_bytes / 2;
	o->policy = &sal_policy_fair;
	o->loader = &setup->loader;
	svc_limits_default(&o->limits, allowed_bytes);
	if (sal_path_cache_dir(setup->cache_dir, sizeof(setup->cache_dir), NULL) >= 0)
		o->cache_dir = setup->cache_dir;
}

/* Fill in the settings that were not given, and resolve values that stand for others. */
static int complete(struct svc_setup *setup)
{
	struct svc_options *o = &setup->options;
	int rc = SAL_OK;

	if (o->cache_dir && strcmp(o->cache_dir, "none") == 0)
		o->cache_dir = NULL;
	if (!o->socket_path) {
		bool given;

		rc = sal_path_socket(setup->socket_path, sizeof(setup->socket_path), &given,
				     &setup->err);
		o->socket_path = setup->socket_path;
	}
	if (rc >= 0)
		rc = sal_path_program("salus-compile", setup->helper_path,
				      sizeof(setup->helper_path), &setup->err);
	o->helper_path = setup->helper_path;
	if (rc >= 0 && setup->policy_path)
		rc = sal_loader_load(&setup->loader, setup->policy_path, &o->policy, &setup->err);
	if (rc >= 0)
		rc = check_tunes(setup);
	if (!o->plugin_path)
		o->plugin_path = getenv("SALUS_PLUGIN") ? getenv("SALUS_PLUGIN") : SAL_PJRT_PLUGIN;
	return rc;
}

int svc_setup_read(struct svc_setup *setup, int argc, char **argv)
{
	int code;

	set_defaults(setup);
	code = parse(setup, argc, argv);
	if (code >= 0)
		return code;
	if (complete(setup) >= 0)
		return -1;
	(void)fprintf(stderr, "salusd: %s\n", setup->err.text);
	return SVC_EXIT_CONFIG;
}

void svc_setup_fini(struct svc_setup *setup)
{
	size_t i;

	for (i = 0; i < SVC_SETTINGS_MAX; i++)
		free(setup->texts[i]);
	sal_loader_fini(&setup->loader);
}
