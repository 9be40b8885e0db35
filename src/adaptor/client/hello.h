/* SPDX-License-Identifier: Apache-2.0 */
/* hello - the first message to the daemon, filled in from the environment of the job. */
#ifndef SAL_ADAPTOR_CLIENT_HELLO_H
#define SAL_ADAPTOR_CLIENT_HELLO_H

#include "base/err.h"
#include "wire/messages.h"

/*
 * Reads SALUS_JOB_NAME, SALUS_MEMORY, SALUS_WEIGHT, SALUS_PRIORITY, SALUS_TIME and SALUS_KIND. A
 * value that makes no sense is an error.
 */
int adp_hello_fill(struct sal_hello *hello, struct sal_err *err);

/* Tells `salus run` that this job has a session: writes to the file that SALUS_RUN names. */
void adp_hello_note(void);

#endif
