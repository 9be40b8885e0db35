/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay - `salus sim --replay FILE`: whether the core decides the same as in the daemon.
 */
#ifndef SAL_CLI_REPLAY_H
#define SAL_CLI_REPLAY_H

#include <stdbool.h>

struct sal_policy;

/* Prints the outcome. `policies` are from files, ended by NULL. CLI_OK: the decisions are the same; CLI_FAILED: they differ. */
int cli_replay(const char *path, const struct sal_policy *const *policies, bool json);

#endif
