/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options - the settings of salusd: command line, configuration file, and defaults.
 *
 * The table in options.c has one row for each setting, with its help. A new setting needs one more
 * row. Limits have their own table, in limits.c. `--limit NAME=VALUE` or a line of the file sets a
 * limit.
 *
 * Owns: the text behind the values. Threads: the main thread, before other threads start.
 */
#ifndef SAL_SERVICE_OPTIONS_H
#define SAL_SERVICE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "device/option.h"
#include "link/paths.h"
#include "loader/loader.h"
#include "service/limits.h"

struct sal_policy;

/* Exit codes, after sysexits(3). */
enum svc_exit {
	SVC_EXIT_USAGE = 64,
	SVC_EXIT_TRY_LATER = 75,
	SVC_EXIT_PERMISSION = 77,
	SVC_EXIT_CONFIG = 78
};

/* How many times --tune may be given. */
#define SVC_TUNES_MAX 16

struct svc_options {
	const char *socket_path;
	const char *plugin_path; /* or "fake" */
	const char *plugin_options[SAL_PLUGIN_OPTIONS_MAX + 1]; /* ends with NULL */
	uint32_t plugin_option_count;
	const char *helper_path;
	const char *cache_dir; /* NULL: none */
	const char *log_path; /* NULL: stderr */
	uint64_t memory_bytes; /* of the device; 0: not given, see svc_server_open */
	uint64_t host_bytes; /* that a device may have which is the host */
	uint64_t cache_bytes, log_bytes, idle_exit_ns;
	uint64_t compile_time_ns, compile_memory_bytes; /* for one program; for one helper */
	uint64_t iteration_limit_ns; /* a longer iteration ends its session; 0: no limit */
	uint32_t lanes, trace_records;
	bool no_profiles; /* salusd does not remember jobs */
	struct svc_limits limits;
	const struct sal_policy *policy;
	struct sal_loader *loader; /* borrowed: setup; policies from files; main thread */
	const char *tunes[SVC_TUNES_MAX]; /* `name=value` each, known to the policy */
	uint32_t tune_count;
};

#define SVC_SETTINGS_MAX 32
#define SVC_TUNE_BYTES 64

/* The settings, and room for the text behind them. */
struct svc_setup {
	struct svc_options options;
	char socket_path[SAL_PATH_BYTES], helper_path[SAL_PATH_BYTES], cache_dir[SAL_PATH_BYTES];
	struct sal_loader loader;
	const char *policy_path; /* borrowed: argv or texts; NULL: the policy is built in */
	char *texts[SVC_SETTINGS_MAX]; /* owned; values from the configuration file */
	char tunes[SVC_TUNES_MAX][SVC_TUNE_BYTES];
	char plugin_options[SAL_PLUGIN_OPTIONS_MAX][SAL_PLUGIN_OPTION_BYTES];
	struct sal_err err;
};

/*
 * Read the command line and the configuration file, and fill in the defaults. Returns -1 to
 * continue, or an exit code. With an exit code, all messages are already printed.
 */
int svc_setup_read(struct svc_setup *setup, int argc, char **argv);
void svc_setup_fini(struct svc_setup *setup);

#endif
