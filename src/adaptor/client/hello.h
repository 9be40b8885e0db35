/* SPDX-License-Identifier: Apache-2.0 */
/* hello - the first message to the daemon, filled in from the environment of the job. */
#ifndef SAL_ADAPTOR_CLIENT_HELLO_H
#define SAL_ADAPTOR_CLIENT_HELLO_H

#include <stddef.h>

#include "adaptor/function.h"
#include "base/err.h"
#include "wire/messages.h"

/*
 * Reads SALUS_JOB_NAME, SALUS_MEMORY, SALUS_WEIGHT, SALUS_PRIORITY, SALUS_TIME, SALUS_KIND and
 * SALUS_DEADLINE, and the number of devices (devices.h). A value that makes no sense is an error.
 * In a kernel of Jupyter, the notebook is part of the name: JPY_SESSION_NAME.
 */
int adp_hello_fill(struct sal_hello *hello, const PJRT_NamedValue *options, size_t option_count,
		   struct sal_err *err);

/* Tells `salus run` that this job has a session: writes to the file that SALUS_RUN names. */
void adp_hello_note(void);

#endif
