/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options - what salusd is told: on its command line, in its configuration file, and by default.
 *
 * The table in options.c has one row for each setting, with its help. A new setting is one more
 * row. Limits have a table of their own, in limits.c; each can be given by `--limit NAME=VALUE` or
 * as a line of the file.
 *
 * Owns: the text behind the values. Threads: the main thread, before there are others.
 */
#ifndef SAL_SERVICE_OPTIONS_H
#define SAL_SERVICE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "link/paths.h"
#include "service/limits.h"

struct sal_policy;

/* Exit codes, after sysexits(3). */
enum svc_exit {
	SVC_EXIT_USAGE = 64,
	SVC_EXIT_TRY_LATER = 75,
	SVC_EXIT_PERMISSION = 77,
	SVC_EXIT_CONFIG = 78
};

/* How often --tune may be given. */
#define SVC_TUNES_MAX 16

struct svc_options {
	const char *socket_path;
	const char *plugin_path; /* or "fake" */
	const char *helper_path;
	const char *cache_dir; /* NULL: none */
	const char *log_path; /* NULL: stderr */
	uint64_t memory_bytes, cache_bytes, log_bytes, idle_exit_ns;
	uint64_t compile_time_ns, compile_memory_bytes; /* of one program; of one helper */
	uint64_t iteration_limit_ns; /* a session whose iteration takes longer is ended; 0: none */
	uint32_t lanes, trace_records;
	bool no_profiles; /* jobs are not remembered */
	struct svc_limits limits;
	const struct sal_policy *policy;
	const char *tunes[SVC_TUNES_MAX]; /* `name=value` each, known to the policy */
	uint32_t tune_count;
};

#define SVC_SETTINGS_MAX 32
#define SVC_TUNE_BYTES 64

/* What was asked for, and room for the text behind it. */
struct svc_setup {
	struct svc_options options;
	char socket_path[SAL_PATH_BYTES], helper_path[SAL_PATH_BYTES], cache_dir[SAL_PATH_BYTES];
	char *texts[SVC_SETTINGS_MAX]; /* owned; values from the configuration file */
	char tunes[SVC_TUNES_MAX][SVC_TUNE_BYTES];
	struct sal_err err;
};

/*
 * Read the command line and fill in the defaults. Returns -1 to go on, or an exit code once
 * everything there is to say is said on stdout or stderr.
 */
int svc_setup_read(struct svc_setup *setup, int argc, char **argv);
void svc_setup_fini(struct svc_setup *setup);

#endif
