/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream - the vendor's streams behind the lanes of the engine. The first use opens a stream.
 *
 * A lane has one stream for each tier of the device and each kind of sessions (kind.h). Iterations
 * of a lane run one at a time, in the stream of their tier and kind. Nested iterations run while
 * another one of their lane has not ended. Since a vendor may run the iterations of a stream in
 * order, each depth of nesting has streams of its own. Buffers and programs remember their stream by
 * its index.
 *
 * Threads: any thread may open a stream, without server->lock. The counters of a lane are under
 * server->lock.
 */
#ifndef SAL_SERVICE_STREAM_H
#define SAL_SERVICE_STREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "core/tuning.h"
#include "device/device.h"
#include "service/lock.h"

struct sal_err;
struct svc_server;
struct svc_session;

/* Iterations that Python callbacks start may nest this deep: see client/call.h. */
#define SVC_NESTING_MAX 3
/* Of one kind. */
#define SVC_STREAMS_MAX ((SVC_NESTING_MAX + 1) * SAL_TIERS * SAL_LANES_MAX)

struct svc_stream {
	pthread_mutex_t opening; /* held while the vendor opens the stream */
	_Atomic(struct sal_stream *) device; /* owned; NULL: not open yet */
};

/* What happened in a lane so far, in all its streams. */
struct svc_lane {
	uint64_t iterations;
	uint64_t busy_ns; /* device time of the iterations that ended */
};

void svc_streams_init(struct svc_server *server);
/* Close all streams. */
void svc_streams_fini(struct svc_server *server) SVC_UNLOCKED;
/* Close all streams of a kind that no session uses. */
void svc_streams_close(struct svc_server *server, uint32_t kind) SVC_UNLOCKED;

/* The index of the session's stream for this lane and tier. */
uint32_t svc_stream_index(const struct svc_session *s, uint32_t lane, uint32_t tier);
/* The stream for iterations that are nested in those of this stream. UINT32_MAX: too deep. */
uint32_t svc_stream_nested(uint32_t stream);
/* The index of the first stream of the session's kind, which is always open. */
uint32_t svc_stream_first(const struct svc_session *s);
/* The chip of an open stream with this number, as the device's operations take it. */
struct sal_stream *svc_stream_chip(const struct svc_server *server, uint32_t stream,
				   uint32_t chip) SVC_UNLOCKED;
/* The index of the stream in which the session's next iteration will probably run. */
uint32_t svc_stream_home(const struct svc_session *s) SVC_LOCKED;
/* Open the stream if it is not open yet. Waits for the vendor. */
int svc_stream_open(struct svc_server *server, uint32_t stream, struct sal_err *err) SVC_UNLOCKED;

#endif
