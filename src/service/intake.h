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

/* A buffer under the client's id; NULL if the id is taken or there is no memory. */
struct svc_buffer *svc_new_buffer(struct svc_session *s, uint64_t id, uint64_t bytes);
/* The request fails: what it names is not there. */
void svc_no_such(struct svc_session *s, uint64_t request, const char *what, uint64_t id);

/* One record each; false: it broke the rules. */
enum svc_taken svc_take_upload(struct svc_session *s, const struct sal_msg_upload *m);
bool svc_take_download(struct svc_session *s, const struct sal_msg_download *m);
enum svc_taken svc_take_copy(struct svc_session *s, const struct sal_msg_copy *m);
bool svc_take_await(struct svc_session *s, const struct sal_msg_await *m);

#endif
