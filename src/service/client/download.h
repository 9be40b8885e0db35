/* SPDX-License-Identifier: Apache-2.0 */
/*
 * download - records that wait for arrays: downloads, awaits and exposes. An await only waits until an
 * array is computed. The answer to an expose says in which block of the heap the array is, so that
 * the client can read it there: see svc_client_grow.
 *
 * A record about a pending buffer waits for the buffer. Other records become errands of the session
 * at once. The vendor sees these errands in the order of the records.
 *
 * Threads: the worker, under server->lock.
 */
#ifndef SAL_SERVICE_DOWNLOAD_H
#define SAL_SERVICE_DOWNLOAD_H

#include "service/client/intake.h"

struct sal_msg_await;
struct sal_msg_download;
struct sal_msg_expose;

enum svc_taken svc_take_download(struct svc_session *s,
				 const struct sal_msg_download *m) SVC_LOCKED;
enum svc_taken svc_take_await(struct svc_session *s, const struct sal_msg_await *m) SVC_LOCKED;
enum svc_taken svc_take_expose(struct svc_session *s, const struct sal_msg_expose *m) SVC_LOCKED;

#endif
