/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_options - what a user may say about a job: the options that `salus run` and `salus env` share.
 */
#ifndef SAL_CLI_JOB_OPTIONS_H
#define SAL_CLI_JOB_OPTIONS_H

#include <getopt.h>

#include "base/units.h"
#include "cli/daemon/job_env.h"

struct cli_command;

enum {
	CLI_JOB_NAME = 1000,
	CLI_JOB_RESERVE,
	CLI_JOB_WEIGHT,
	CLI_JOB_PRIORITY,
	CLI_JOB_TIME,
	CLI_JOB_KIND,
	CLI_JOB_DEADLINE,
	CLI_JOB_DEVICES,
	CLI_JOB_OTHER, /* a command's own options start here */
};

/* clang-format off */
#define CLI_JOB_LONG_OPTIONS                                                            \
	{ "name", required_argument, NULL, CLI_JOB_NAME },                              \
	{ "reserve", required_argument, NULL, CLI_JOB_RESERVE },                        \
	{ "memory", required_argument, NULL, CLI_JOB_RESERVE }, /* its name before */   \
	{ "weight", required_argument, NULL, CLI_JOB_WEIGHT },                          \
	{ "priority", required_argument, NULL, CLI_JOB_PRIORITY },                      \
	{ "time", required_argument, NULL, CLI_JOB_TIME },                              \
	{ "kind", required_argument, NULL, CLI_JOB_KIND },                              \
	{ "deadline", required_argument, NULL, CLI_JOB_DEADLINE },                      \
	{ "devices", required_argument, NULL, CLI_JOB_DEVICES }

#define CLI_JOB_OPTIONS_HELP                                                                      \
	"  --name N       name of the job in `salus ps` (default: its script or command)\n"       \
	"  --reserve P,E  device memory to reserve: persistent bytes, kept between iterations,\n" \
	"                 and scratch during one, e.g. 2GiB,512MiB (default: salusd learns it)\n" \
	"  --weight W     share of the device under the fair policy (default 1)\n"                \
	"  --priority K   0 is the most urgent (default 20)\n"                                    \
	"  --time T       device time of the whole job, e.g. 20min; srtf uses it\n"               \
	"  --kind K       training or inference; mix and deadline use it, and find it by\n"       \
	"                 themselves if it is not given\n"                                        \
	"  --deadline T   each iteration must end so soon after its submission, e.g. 20ms;\n"     \
	"                 deadline uses it, and refuses what cannot be met\n"                     \
	"  --devices N    how many devices the job has, for sharding, pmap and shard_map; on\n"   \
	"                 XLA:CPU only, at most 64 (default: as jax_num_cpu_devices or XLA_FLAGS\n" \
	"                 say, else 1)\n"
/* clang-format on */

struct cli_job_options {
	struct cli_job_env env; /* its texts point into argv, and to reserve */
	char reserve[2 * SAL_UNITS_TEXT];
};

/*
 * Takes an option that getopt_long returned, with its argument. Returns an exit code; or -1 if it is
 * none of these options.
 */
int cli_job_options_take(struct cli_job_options *options, const struct cli_command *command,
			 int option, const char *text);

#endif
