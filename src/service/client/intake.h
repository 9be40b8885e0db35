/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake - carries out the records of a client.
 *
 * The record is salusd's own copy, and its shape is valid. The intake checks its ids and places. A
 * client breaks the rules with memory outside its arena, an id that is taken, or sizes that do not
 * add up. salusd disconnects such a client. A client that names an object that does not exist gets
 * an error, as from any plugin.
 *
 *     intake.c    all kinds of records; programs, executions, deletes
 *     upload.c    arrays to the device, and copies within it
 *     download.c  arrays from the device, and waiting for them
 *     call.c      calls of a program, and nested executions
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
	SVC_TAKE_LATER, /* there is no memory for the record now: park the record */
	SVC_BROKEN, /* the client broke the rules */
	SVC_NO_MEMORY, /* salusd itself is out of memory */
	SVC_OVER /* the client exceeds a limit again and again */
};

/* Copying this many bytes takes little time. */
#define SVC_BRIEF_BYTES (UINT64_C(1) << 20)

/*
 * Carry out one record of the client. May release the lock. If the session is killed meanwhile, it
 * may be gone afterwards.
 */
enum svc_taken svc_intake(struct svc_session *s, const struct sal_header *record) SVC_LOCKED;

/*
 * For upload.c and download.c. Make a buffer under the client's id. Beyond a limit, the new buffer
 * has already failed.
 */
enum svc_taken svc_new_buffer(struct svc_session *s, uint64_t id, uint64_t bytes,
			      struct svc_buffer **out_buffer) SVC_LOCKED;
/* Fail the request: no object has this id. */
void svc_not_found(struct svc_session *s, uint64_t request, const char *what, uint64_t id);

#endif
