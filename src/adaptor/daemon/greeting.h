/* SPDX-License-Identifier: Apache-2.0 */
/* greeting - hello and welcome: the first messages of a connection, checked. */
#ifndef SAL_ADAPTOR_DAEMON_GREETING_H
#define SAL_ADAPTOR_DAEMON_GREETING_H

#include "base/err.h"
#include "base/facts.h"
#include "wire/messages.h"

struct adp_greeting {
	struct sal_welcome welcome; /* its sizes are checked */
	/* Owned descriptors; -1: taken. */
	int rings, daemon_bell, bell, segment;
	void *facts; /* owned; welcome.fact_bytes of the device */
};

/*
 * Says hello and waits for the welcome. Always call adp_greeting_fini after it: what is not taken
 * is freed.
 */
int adp_greet(int socket, const struct sal_hello *hello, struct adp_greeting *out,
	      struct sal_err *err);
void adp_greeting_fini(struct adp_greeting *g);

#endif
