/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upload - records that make arrays on the device: uploads, and copies of other arrays.
 *
 * If there is not enough memory for a record now, the record is parked. Other records become
 * errands of the session. The vendor sees these errands in the order of the records.
 *
 * Threads: the worker, under server->lock.
 */
#ifndef SAL_SERVICE_UPLOAD_H
#define SAL_SERVICE_UPLOAD_H

#include "service/client/intake.h"

struct sal_msg_copy;
struct sal_msg_upload;

enum svc_taken svc_take_upload(struct svc_session *s, const struct sal_msg_upload *m) SVC_LOCKED;
enum svc_taken svc_take_copy(struct svc_session *s, const struct sal_msg_copy *m) SVC_LOCKED;

#endif
