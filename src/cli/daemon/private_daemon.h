/* SPDX-License-Identifier: Apache-2.0 */
/*
 * private_daemon - a salusd of the user's own, which the first job starts.
 *
 * If several processes want one at the same time, one of them starts it under a lock, and the
 * others wait; see private_daemon.c. The daemon outlives the process that started it. It ends after
 * a while without jobs.
 */
#ifndef SAL_CLI_PRIVATE_DAEMON_H
#define SAL_CLI_PRIVATE_DAEMON_H

#include <jansson.h>
#include <sys/types.h>

struct sal_err;

struct cli_private_daemon {
	const char *program; /* salusd, absolute */
	const char *socket;
	const char *lock; /* a file in a directory that is ours alone */
	const char *log;
	int wait_ms; /* longest time that a start may take */
	off_t log_from; /* out: offset in the log of this start; -1: nothing was started */
};

/*
 * Makes sure that a daemon answers. The caller owns *out_ping, the answer. -SAL_UNAVAILABLE: the
 * daemon ended before it answered; -SAL_DEADLINE_EXCEEDED: it did neither in time, and was stopped.
 */
int cli_private_daemon_ensure(struct cli_private_daemon *d, json_t **out_ping, struct sal_err *err);

#endif
