/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_env - the environment that makes an unmodified job a session of salusd.
 */
#ifndef SAL_CLI_JOB_ENV_H
#define SAL_CLI_JOB_ENV_H

struct sal_err;

struct cli_job_env {
	const char *name; /* SALUS_JOB_NAME */
	/* As the user wrote them, checked; NULL leaves the variable as it is. */
	const char *reserve, *weight, *priority, *time, *kind, *deadline;
	const char *socket; /* SALUS_SOCKET */
	const char *plugin; /* absolute path of libsalus_pjrt.so */
	const char *platform; /* the platform of the plugin, e.g. "cpu" */
};

/* The name of a job: its script (`python -u a/train.py`: train.py), or its command. */
const char *cli_job_name(char *const *argv);

/* Sets the variables of this process, for the command it is about to become. */
int cli_job_env_set(const struct cli_job_env *env, struct sal_err *err);

#endif
