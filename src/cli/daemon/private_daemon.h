/* SPDX-License-Identifier: Apache-2.0 */
/*
 * private_daemon - a salusd of the user's own, started when the first job needs it.
 *
 * Of any number of processes that want one at the same time, one starts it, under a lock, and the
 * others wait for that; see private_daemon.c. It outlives whoever started it, and ends by itself after
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
	int wait_ms; /* most that a start may take */
	off_t log_from; /* out: where in the log this start begins; -1: did not come to that */
};

/*
 * Makes sure that a daemon answers. The caller owns *out_ping, the answer. -SAL_UNAVAILABLE: it ended
 * before it answered; -SAL_DEADLINE_EXCEEDED: it did neither in time, and was stopped.
 */
int cli_private_daemon_ensure(struct cli_private_daemon *d, json_t **out_ping, struct sal_err *err);

#endif
