/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_place - where a job will run: the daemon, and the files that lead the job there.
 */
#ifndef SAL_CLI_JOB_PLACE_H
#define SAL_CLI_JOB_PLACE_H

#include <jansson.h>

#include "cli/daemon/job_env.h"
#include "link/paths.h"

struct cli_job_place {
	char socket[SAL_PATH_BYTES];
	char plugin[SAL_PATH_BYTES];
	char modules[SAL_PATH_BYTES];
	json_t *ping; /* owned: the daemon's answer */
};

/*
 * Finds the daemon that SALUS_SOCKET names, or the user's own, which it starts if none answers. Then
 * points env to what it found; env must not outlive place. If that fails, says why on stderr.
 * Returns an exit code: CLI_OK, CLI_UNREACHABLE or CLI_RUN_FAILED.
 */
int cli_job_place_init(struct cli_job_place *place, struct cli_job_env *env);
void cli_job_place_fini(struct cli_job_place *place);

#endif
