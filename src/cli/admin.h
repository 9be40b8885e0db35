/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin - one question to salusd and its answer: a line of JSON each way, then the daemon closes.
 *
 * Nothing here waits longer than it is told to, whatever the daemon does.
 */
#ifndef SAL_CLI_ADMIN_H
#define SAL_CLI_ADMIN_H

#include <jansson.h>

#include "base/err.h"

/* For a daemon that is up: it answers at once, or something is wrong with it. */
#define CLI_ANSWER_MS 5000

/*
 * Sends the request to the socket at path. The caller owns *out_reply, an object with an "ok" that may
 * be false. -SAL_UNAVAILABLE: nobody listens; -SAL_DEADLINE_EXCEEDED: somebody does, but does not
 * answer; -SAL_PERMISSION_DENIED: not for us; -SAL_DATA_LOSS: what came is no answer.
 */
int cli_admin_ask(const char *path, const json_t *request, int wait_ms, json_t **out_reply,
		  struct sal_err *err);

/* The same, for an answer that comes with a descriptor: *out_fd, the caller's to close, or -1. */
int cli_admin_ask_fd(const char *path, const json_t *request, int wait_ms, json_t **out_reply,
		     int *out_fd, struct sal_err *err);

#endif
