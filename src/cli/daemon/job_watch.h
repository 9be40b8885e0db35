/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_watch - says at the end of a job that it did not use the shared device.
 *
 * A script for another framework, or for another device, runs beside Salus without a word. The user
 * believes that it shares the device. So a small process waits for the end of the job. It is no
 * child of the job, and holds nothing of it but stderr.
 *
 * Whether the job used the device is noted in a file: it is empty until libsalus_pjrt.so, in any
 * process of the job, has opened a session. SALUS_RUN names the file.
 */
#ifndef SAL_CLI_JOB_WATCH_H
#define SAL_CLI_JOB_WATCH_H

#include <stdbool.h>

struct cli_job_watch {
	int pipe; /* to the watching process; closes by itself when this process becomes the job */
};

/*
 * Starts to watch this process, which is about to become the job, and sets SALUS_RUN. False, and
 * nothing happens: SALUS_QUIET is set, an outer `salus run` watches already, or it cannot be done.
 */
bool cli_job_watch_start(struct cli_job_watch *watch, const char *name);

/* This process did not become the job: nothing will be said. */
void cli_job_watch_cancel(struct cli_job_watch *watch);

#endif
