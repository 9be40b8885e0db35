/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paging - errands that move a session's memory: out to the host, back in, and into the stream where
 * the session runs.
 *
 * While such an errand is under way, no other iteration of the session starts: the engine waits for
 * the end of the paging, and an iteration whose arguments are being fetched counts as running. Only
 * the thread that carries the session moves its buffers. Other threads may drop their references
 * meanwhile.
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
 * A page-out or a page-in; part of a session. Once the errand is posted, only the thread that
 * carries the session uses this.
 */
struct svc_transit {
	struct svc_errand errand;
	struct svc_buffer **list; /* owned array of owned references */
	size_t count;
	uint32_t stream;
	uint64_t began_ns;
	int code; /* negative: paging failed */
	struct sal_err err;
};

/* When a page-out or a page-in began and ended; 0: there was none. */
struct svc_paged {
	uint64_t from_ns, until_ns;
};

/* Post the errand that the engine decided: move the buffers, then report to the engine. */
void svc_page_out(struct svc_session *s) SVC_LOCKED;
void svc_page_in(struct svc_session *s) SVC_LOCKED;
/* No buffer of the session is in host memory any more: give the paged bytes back. */
void svc_paging_forget(struct svc_session *s) SVC_LOCKED;
/*
 * Bring the buffer into this stream, from the host or from another stream. For the thread that carries
 * the session.
 */
int svc_buffer_bring(struct svc_buffer *b, uint32_t stream, struct sal_err *err) SVC_UNLOCKED;

#endif
