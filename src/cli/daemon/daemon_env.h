/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon_env - the environment of a salusd that `salus run` starts.
 *
 * Such a salusd outlives the job that happened to come first, and serves others. So it gets what it needs to find its
 * files and its device, and nothing that is the job's: no secrets, no code to load, no flags of the compiler.
 */
#ifndef SAL_CLI_DAEMON_ENV_H
#define SAL_CLI_DAEMON_ENV_H

/* Those of `from` that pass, NULL at the end. The array is the caller's to free, the texts stay from's. NULL: no memory. */
char **cli_daemon_env(char *const *from);

#endif
