/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon_env - the environment of a salusd that `salus run` starts.
 *
 * Such a salusd outlives the job that started it, and serves other jobs. So it gets the variables
 * that it needs to find its files and its device. It gets nothing that belongs to the job: no
 * secrets, no code to load, no compiler flags.
 */
#ifndef SAL_CLI_DAEMON_ENV_H
#define SAL_CLI_DAEMON_ENV_H

/*
 * The variables of `from` that pass, with a NULL at the end. The caller frees the array; the texts
 * belong to from. NULL: no memory.
 */
char **cli_daemon_env(char *const *from);

#endif
