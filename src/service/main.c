/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main - salusd: the one process that owns the device.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ini.h>

#include "base/log.h"
#include "base/units.h"
#include "link/paths.h"
#include "service/service.h"

/* Exit codes, after sysexits(3). */
enum {
	EXIT_USAGE = 64,
	EXIT_TRY_LATER = 75,
	EXIT_CONFIG = 78
};

#define FILES_WANTED 65536u

/* Each takes 128 bytes. */
#define TRACE_LEAST 64u
#define TRACE_MOST (1u << 26)

/* What was asked for, and room for the text behind it. */
struct setup {
	struct svc_options options;
	char socket_path[SAL_PATH_BYTES], helper_path[SAL_PATH_BYTES], cache_dir[SAL_PATH_BYTES];
	char text[16][SAL_PATH_BYTES]; /* values from the configuration file */
	size_t texts;
	struct sal_err err;
};

static const char usage[] =
	"usage: salusd [OPTION...]\n"
	"\n"
	"Owns the device and runs the iterations of all jobs on it.\n"
	"\n"
	"  --socket PATH      where jobs connect (default: in the user's runtime directory)\n"
	"  --plugin PATH      the vendor's PJRT plugin (default: XLA:CPU), or `fake`\n"
	"  --policy NAME      fifo srtf pack fair rr priority las mix (default fair)\n"
	"  --memory SIZE      of the device (default: the machine's)\n"
	"  --lanes N          most lanes at once (default: as many as the policy wants)\n"
	"  --cache DIR        compiled programs (default: the user's cache), or `none`\n"
	"  --cache-size SIZE  bound of that (default 4GiB)\n"
	"  --arena SIZE       most shared memory for one job's transfers: --limit job-arena=SIZE\n"
	"  --limit NAME=VALUE a limit of jobs, users or all; `salus limits` lists them\n"
	"  --no-profiles      do not remember what jobs needed\n"
	"  --trace-records N  events and decisions kept for `salus trace` (default 65536)\n"
	"  --idle-exit TIME   end after that long without a job\n"
	"  --log FILE         append the log there (default: stderr)\n"
	"  --config FILE      the same settings as `name = value` lines\n"
	"  --version, --help\n";

static uint64_t machine_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int set_lanes(struct setup *setup, const char *value)
{
	char *end;
	unsigned long lanes = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || lanes > SAL_LANES_MAX)
		return sal_err_set(
			&setup->err, SAL_INVALID_ARGUMENT,
			"lanes is \"%s\", expected 0 (as many as the policy wants) to %d", value,
			SAL_LANES_MAX);
	setup->options.lanes = (uint32_t)lanes;
	return SAL_OK;
}

static int set_trace_records(struct setup *setup, const char *value)
{
	char *end;
	unsigned long long records = strtoull(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || records < TRACE_LEAST || records > TRACE_MOST)
		return sal_err_set(&setup->err, SAL_INVALID_ARGUMENT,
				   "trace-records is \"%s\", expected %u to %u", value, TRACE_LEAST,
				   TRACE_MOST);
	setup->options.trace_records = TRACE_LEAST;
	while (setup->options.trace_records < records)
		setup->options.trace_records *= 2;
	return SAL_OK;
}

static int set_policy(struct setup *setup, const char *value)
{
	setup->options.policy = sal_policy_find(value);
	if (setup->options.policy)
		return SAL_OK;
	return sal_err_set(
		&setup->err, SAL_INVALID_ARGUMENT,
		"no policy \"%s\"; there are fifo, srtf, pack, fair, rr, priority, las and mix",
		value);
}

static int set_no_profiles(struct setup *setup, const char *value)
{
	setup->options.no_profiles = strcmp(value, "yes") == 0;
	if (setup->options.no_profiles || strcmp(value, "no") == 0)
		return SAL_OK;
	return sal_err_set(&setup->err, SAL_INVALID_ARGUMENT,
			   "no-profiles is \"%s\": it can be yes or no", value);
}

static int set_limit(struct setup *setup, const char *name, const char *value)
{
	int rc = svc_limits_set(&setup->options.limits, name, value, &setup->err);

	if (rc == -SAL_NOT_FOUND)
		rc = sal_err_set(&setup->err, SAL_INVALID_ARGUMENT, "no setting \"%s\"", name);
	return rc;
}

/* One setting by name, from the command line or the file. The value must stay. */
static int set(struct setup *setup, const char *name, const char *value)
{
	struct svc_options *o = &setup->options;

	if (strcmp(name, "socket") == 0)
		o->socket_path = value;
	else if (strcmp(name, "plugin") == 0)
		o->plugin_path = value;
	else if (strcmp(name, "cache") == 0)
		o->cache_dir = strcmp(value, "none") == 0 ? NULL : value;
	else if (strcmp(name, "log") == 0)
		o->log_path = value;
	else if (strcmp(name, "policy") == 0)
		return set_policy(setup, value);
	else if (strcmp(name, "lanes") == 0)
		return set_lanes(setup, value);
	else if (strcmp(name, "trace-records") == 0)
		return set_trace_records(setup, value);
	else if (strcmp(name, "no-profiles") == 0)
		return set_no_profiles(setup, value);
	else if (strcmp(name, "memory") == 0)
		return sal_bytes_parse(value, &o->memory_bytes, &setup->err);
	else if (strcmp(name, "cache-size") == 0)
		return sal_bytes_parse(value, &o->cache_bytes, &setup->err);
	else if (strcmp(name, "arena") == 0)
		return svc_limits_set(&o->limits, "job-arena", value, &setup->err);
	else if (strcmp(name, "limit") == 0)
		return svc_limits_set_pair(&o->limits, value, &setup->err);
	else if (strcmp(name, "idle-exit") == 0)
		return sal_duration_parse(value, &o->idle_exit_ns, &setup->err);
	else
		return set_limit(setup, name, value);
	return SAL_OK;
}

static int on_setting(void *ctx, const char *section, const char *name, const char *value)
{
	struct setup *setup = ctx;
	char *text;

	(void)section;
	if (setup->texts == 16)
		return 0;
	text = setup->text[setup->texts++];
	(void)snprintf(text, SAL_PATH_BYTES, "%s", value);
	return set(setup, name, text) >= 0;
}

static int read_config(struct setup *setup, const char *path)
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

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, 's' },
	{ "plugin", required_argument, NULL, 's' },
	{ "policy", required_argument, NULL, 's' },
	{ "memory", required_argument, NULL, 's' },
	{ "lanes", required_argument, NULL, 's' },
	{ "cache", required_argument, NULL, 's' },
	{ "cache-size", required_argument, NULL, 's' },
	{ "arena", required_argument, NULL, 's' },
	{ "limit", required_argument, NULL, 's' },
	{ "idle-exit", required_argument, NULL, 's' },
	{ "log", required_argument, NULL, 's' },
	{ "trace-records", required_argument, NULL, 's' },
	{ "config", required_argument, NULL, 'c' },
	{ "no-profiles", no_argument, NULL, 's' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'v' },
	{ NULL, 0, NULL, 0 },
};

/* Returns -1 to go on, or an exit code. */
static int parse(struct setup *setup, int argc, char **argv)
{
	int option, index = 0;

	while ((option = getopt_long(argc, argv, "", long_options, &index)) != -1) {
		if (option == 'h') {
			(void)fputs(usage, stdout);
			return 0;
		}
		if (option == 'v') {
			(void)printf("salusd %s\n", SALUS_VERSION);
			return 0;
		}
		if (option == 'c' && read_config(setup, optarg) < 0)
			return EXIT_CONFIG;
		if (option == 's' &&
		    set(setup, long_options[index].name, optarg ? optarg : "yes") < 0) {
			(void)fprintf(stderr, "salusd: --%s: %s\n", long_options[index].name,
				      setup->err.text);
			return EXIT_USAGE;
		}
		if (option == '?') {
			(void)fputs("Try `salusd --help`.\n", stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		(void)fprintf(stderr, "salusd: what is \"%s\"?\nTry `salusd --help`.\n",
			      argv[optind]);
		return EXIT_USAGE;
	}
	return -1;
}

static int fill_defaults(struct setup *setup)
{
	struct svc_options *o = &setup->options;
	int rc = SAL_OK;

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
	if (!o->plugin_path)
		o->plugin_path = getenv("SALUS_PLUGIN") ? getenv("SALUS_PLUGIN") : SAL_PJRT_PLUGIN;
	return rc;
}

static int open_log(const char *path)
{
	const char *level = getenv("SALUS_LOG");
	int fd = STDERR_FILENO;

	if (path) {
		fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0) {
			(void)fprintf(stderr, "salusd: %s: %s\n", path, strerror(errno));
			return -1;
		}
	}
	if (path) { /* what the vendor prints belongs there, too */
		(void)dup2(fd, STDOUT_FILENO);
		(void)dup2(fd, STDERR_FILENO);
	}
	sal_log_open(fd, level && strcmp(level, "debug") == 0 ? SAL_LOG_DEBUG : SAL_LOG_INFO);
	return 0;
}

/* To where errors went before the log took over. */
static void complain(int terminal, const char *text)
{
	if (terminal >= 0)
		(void)dprintf(terminal, "salusd: %s\n", text);
}

/* Whoever starts us may be content with few files; a session has five. */
static void allow_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= FILES_WANTED)
		return;
	limit.rlim_cur = limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	static struct setup setup;
	static struct svc_server server;
	struct svc_options *o = &setup.options;
	int code, rc, terminal;

	o->memory_bytes = machine_bytes();
	o->trace_records = SVC_TRACE_ENTRIES;
	svc_limits_default(&o->limits, machine_bytes());
	o->cache_bytes = UINT64_C(4) << 30;
	o->policy = &sal_policy_fair;
	if (sal_path_cache_dir(setup.cache_dir, sizeof(setup.cache_dir), NULL) >= 0)
		o->cache_dir = setup.cache_dir;
	code = parse(&setup, argc, argv);
	if (code >= 0)
		return code;
	if (fill_defaults(&setup) < 0) {
		(void)fprintf(stderr, "salusd: %s\n", setup.err.text);
		return EXIT_CONFIG;
	}
	terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (open_log(o->log_path) < 0)
		return EXIT_CONFIG;
	(void)signal(SIGPIPE, SIG_IGN);
	allow_files();
	(void)setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0); /* the vendor's chatter; helpers inherit it */
	rc = svc_server_open(&server, o, &setup.err);
	if (rc >= 0) {
		sal_log_info("server", "ready socket=%s plugin=%s policy=%s", o->socket_path,
			     o->plugin_path, o->policy->name);
		svc_server_run(&server);
	} else {
		sal_log_error("server", "%s", setup.err.text);
		complain(terminal, setup.err.text);
	}
	svc_server_close(&server);
	if (rc >= 0)
		return 0;
	return rc == -SAL_ALREADY_EXISTS ? EXIT_TRY_LATER : 1;
}
