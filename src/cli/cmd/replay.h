/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay - `salus sim --replay FILE`: does the core decide again what it decided in the daemon?
 */
#ifndef SAL_CLI_REPLAY_H
#define SAL_CLI_REPLAY_H

#include <stdbool.h>

/* Says what came of it; CLI_OK if the decisions are the same, CLI_FAILED if not. */
int cli_replay(const char *path, bool json);

#endif
