/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake - what the files that take a client's records share.
 *
 *     intake.c    which record it is; programs, executions, deletes
 *     transfer.c  arrays: uploads, downloads, copies, awaits
 *
 * Threads: the worker, under server->lock.
 */
#ifndef SAL_SERVICE_INTAKE_H
#define SAL_SERVICE_INTAKE_H

#include "service/service.h"

/* A buffer under the client's id. It may have failed already, for a limit. */
enum svc_taken svc_new_buffer(struct svc_session *s, uint64_t id, uint64_t bytes,
			      struct svc_buffer **out_buffer) SVC_LOCKED;
/* The request fails: there is nothing under that id. */
void svc_not_found(struct svc_session *s, uint64_t request, const char *what, uint64_t id);

/* One record each. */
enum svc_taken svc_take_upload(struct svc_session *s, const struct sal_msg_upload *m) SVC_LOCKED;
enum svc_taken svc_take_download(struct svc_session *s,
				 const struct sal_msg_download *m) SVC_LOCKED;
enum svc_taken svc_take_copy(struct svc_session *s, const struct sal_msg_copy *m) SVC_LOCKED;
enum svc_taken svc_take_await(struct svc_session *s, const struct sal_msg_await *m) SVC_LOCKED;

#endif
