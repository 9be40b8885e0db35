/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake - what each record of a client means.
 *
 * The record is our own copy and its shape is valid; the ids and places in it are not checked yet.
 * A client that names memory outside its arena, an id that is taken, or sizes that do not add up
 * has broken the rules and is disconnected. A client that uses what does not exist gets an error,
 * as from any plugin.
 *
 *     intake.c    which record it is; programs, executions, deletes
 *     upload.c    arrays to the device, and copies within it
 *     download.c  arrays from the device, and waiting for them
 *
 * Threads: the worker, under server->lock.
 */
#ifndef SAL_SERVICE_INTAKE_H
#define SAL_SERVICE_INTAKE_H

#include <stdint.h>

#include "service/lock.h"

struct sal_header;
struct svc_buffer;
struct svc_session;

enum svc_taken {
	SVC_TAKEN,
	SVC_TAKE_LATER, /* there is no memory for it now: park it */
	SVC_BROKEN, /* it broke the rules */
	SVC_NO_MEMORY, /* salusd itself has none: nobody's fault */
	SVC_OVER /* over a limit, again and again */
};

/* Copying up to this takes little time. */
#define SVC_BRIEF_BYTES (UINT64_C(1) << 20)

/*
 * One record of the client. May release the lock; a session that was killed meanwhile may be gone
 * then.
 */
enum svc_taken svc_intake(struct svc_session *s, const struct sal_header *record) SVC_LOCKED;

/*
 * For upload.c and download.c. A buffer under the client's id. It may have failed already, for a
 * limit.
 */
enum svc_taken svc_new_buffer(struct svc_session *s, uint64_t id, uint64_t bytes,
			      struct svc_buffer **out_buffer) SVC_LOCKED;
/* The request fails: there is nothing under that id. */
void svc_not_found(struct svc_session *s, uint64_t request, const char *what, uint64_t id);

#endif
