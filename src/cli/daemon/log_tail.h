/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_tail - the end of a log file, which says why a daemon did not start.
 */
#ifndef SAL_CLI_LOG_TAIL_H
#define SAL_CLI_LOG_TAIL_H

#include <stdio.h>
#include <sys/types.h>

/* Prints the path of the log and its last lines, from that offset on. */
void cli_log_tail(FILE *out, const char *path, off_t from);

#endif
