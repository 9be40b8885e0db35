/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_env - the environment that makes an unmodified job a session of salusd.
 *
 *     JAX          JAX_PLATFORMS, and PJRT_NAMES_AND_LIBRARY_PATHS, from which JAX loads the library
 *     PyTorch/XLA  PJRT_DEVICE
 *     both         PYTHONPATH: the folder of Python modules through which both find us (python/)
 *     our library  SALUS_...
 *
 * What the user has set stays: our entries come first in lists, and other entries stay behind them.
 */
#ifndef SAL_CLI_JOB_ENV_H
#define SAL_CLI_JOB_ENV_H

#include <stdbool.h>
#include <stddef.h>

struct sal_err;

struct cli_job_env {
	/* As the user wrote them, checked; NULL leaves the variable as it is. */
	const char *name, *reserve, *weight, *priority, *time, *kind, *deadline, *devices;
	const char *socket; /* SALUS_SOCKET */
	const char *plugin; /* absolute path of libsalus_pjrt.so */
	const char *modules; /* absolute path of the Python modules; NULL: they are not installed */
	const char *platform; /* the platform of the plugin, e.g. "cpu" */
	bool isolated; /* the job is a Python that ignores PYTHONPATH */
};

#define CLI_JOB_VARS_MAX 16

/* Variables to set, in the order in which people read them. */
struct cli_job_vars {
	size_t count;
	struct {
		const char *name;
		char *value; /* owned */
	} at[CLI_JOB_VARS_MAX];
};

/* The name of a job: its script (`python -u a/train.py`: train.py), or its command. */
const char *cli_job_name(char *const *argv);

/* Is the command a Python with -E or -I? */
bool cli_job_is_isolated(char *const *argv);

/* The variables for a job, from env and from the environment of this process. */
int cli_job_vars_init(struct cli_job_vars *vars, const struct cli_job_env *env,
		      struct sal_err *err);
void cli_job_vars_fini(struct cli_job_vars *vars);

/* Sets the variables of this process, for the command it is about to become. */
int cli_job_env_set(const struct cli_job_env *env, struct sal_err *err);

#endif
