/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin - one question to salusd and its answer: a line of JSON each way. Then the daemon closes
 * the connection.
 *
 * No function here waits longer than its deadline, whatever the daemon does.
 */
#ifndef SAL_CLI_ADMIN_H
#define SAL_CLI_ADMIN_H

#include <jansson.h>

#include "base/err.h"

/* A daemon that works answers at once. */
#define CLI_ANSWER_MS 5000

/*
 * Sends the request to the socket at path. The caller owns *out_reply, an object with the key "ok",
 * which may be false. -SAL_UNAVAILABLE: no daemon listens; -SAL_DEADLINE_EXCEEDED: a daemon listens
 * but does not answer; -SAL_PERMISSION_DENIED: this user may not connect; -SAL_DATA_LOSS: the
 * answer makes no sense.
 */
int cli_admin_ask(const char *path, const json_t *request, int wait_ms, json_t **out_reply,
		  struct sal_err *err);

/* The same for an answer with a descriptor. The caller closes *out_fd; -1: none came. */
int cli_admin_ask_fd(const char *path, const json_t *request, int wait_ms, json_t **out_reply,
		     int *out_fd, struct sal_err *err);

#endif
