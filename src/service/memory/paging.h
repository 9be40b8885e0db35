/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paging - errands that move a session's memory: out to the host, back in, and into the lane where
 * it runs.
 *
 * While such an errand is under way the session does not run: the engine waits for the report of
 * its paging, and an iteration whose arguments are being fetched counts as running. Only the thread
 * that carries the session moves its buffers. Other threads may drop their references meanwhile.
 */
#ifndef SAL_SERVICE_PAGING_H
#define SAL_SERVICE_PAGING_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "service/lock.h"
#include "service/run/carrier.h"

struct svc_buffer;
struct svc_session;

/*
 * A page-out or a page-in; part of a session. Only the thread that carries the session uses it once
 * it is posted.
 */
struct svc_transit {
	struct svc_errand errand;
	struct svc_buffer **list; /* owned array of owned references */
	size_t count;
	uint32_t lane;
	uint64_t began_ns;
	int code; /* negative: it failed */
	struct sal_err err;
};

/* The engine decided it: copy the session's buffers, then report to the engine. */
void svc_page_out(struct svc_session *s) SVC_LOCKED;
void svc_page_in(struct svc_session *s) SVC_LOCKED;
/* Nothing of the session is in host memory any more: give its limit of paged bytes back. */
void svc_paging_forget(struct svc_session *s) SVC_LOCKED;
/*
 * Bring the buffer into that lane, from the host or from another lane. By the thread that carries
 * the session.
 */
int svc_buffer_bring(struct svc_buffer *b, uint32_t lane, struct sal_err *err) SVC_UNLOCKED;

#endif
