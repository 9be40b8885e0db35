/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream - the vendor's streams behind the lanes of the engine. The first use opens a stream.
 *
 * Streams stand in rows: one for each tier of the device (one for all tiers, if streams can change
 * their tier), each kind of sessions (kind.h) and each depth of nesting. A nested iteration runs while another one of its session has not ended, and a
 * vendor may run the iterations of a stream in order. Buffers and programs remember their stream by
 * its index.
 *
 * A row belongs to a lane: iterations of a lane run one at a time, in the stream of their tier. So a
 * session that changes lanes loads its programs again. On a host device streams are cheap, and a
 * row belongs to a session: there a change of lanes costs nothing. If many sessions are open, one
 * that is idle for a while gives its row away. It then loads its programs again.
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
#include "service/real/told.h"

struct sal_err;
struct svc_server;
struct svc_session;

/* Iterations that Python callbacks start may nest this deep: see client/call.h. */
#define SVC_NESTING_MAX 3
/* Rows; so many lanes can run at once. */
#define SVC_ROWS_MAX SAL_LANES_MAX
/* Of one kind. */
#define SVC_STREAMS_MAX ((SVC_NESTING_MAX + 1) * SAL_TIERS * SVC_ROWS_MAX)

struct svc_stream {
	pthread_mutex_t opening; /* held while the vendor opens the stream */
	_Atomic(struct sal_stream *) device; /* owned; NULL: not open yet */
	struct svc_told told;
	_Atomic uint32_t reporters; /* its threads that may hold the lock: see svc_stream_set_tier */
};

/* A row of a session. On a device whose rows belong to lanes, none has an owner. */
struct svc_row {
	struct svc_session *owner; /* borrowed; NULL: free */
	uint64_t used_ns; /* when its owner last started an iteration */
};

/* What happened in a lane so far, in all its streams. */
struct svc_lane {
	uint64_t iterations;
	uint64_t busy_ns; /* device time of the iterations that ended */
	uint64_t grow_bytes; /* by which its last iterations grew their sessions: see real.c */
};

void svc_streams_init(struct svc_server *server);
/* Close all streams. */
void svc_streams_fini(struct svc_server *server) SVC_UNLOCKED;
/* Close all streams of a kind that no session uses. */
void svc_streams_close(struct svc_server *server, uint32_t kind) SVC_UNLOCKED;

/* The index of the session's stream for this lane and tier. */
uint32_t svc_stream_index(struct svc_session *s, uint32_t lane, uint32_t tier) SVC_LOCKED;
/* The session has ended: others may have its row. */
void svc_stream_leave(struct svc_session *s) SVC_LOCKED;
/* The stream for iterations that are nested in those of this stream. UINT32_MAX: too deep. */
uint32_t svc_stream_nested(uint32_t stream);
/* The index of the first stream of the session's kind, which is always open. */
uint32_t svc_stream_first(const struct svc_session *s);
/* The chip of an open stream with this number, as the device's operations take it. */
struct sal_stream *svc_stream_chip(const struct svc_server *server, uint32_t stream,
				   uint32_t chip) SVC_UNLOCKED;
/* The index of the stream in which the session's next iteration will probably run. */
uint32_t svc_stream_home(struct svc_session *s) SVC_LOCKED;
/*
 * The next iteration of the stream has this tier, if streams can change theirs. Waits until no
 * thread of the stream holds the server's lock, which a low priority would make last. Not for a
 * thread of the stream itself.
 */
void svc_stream_set_tier(struct svc_server *server, uint32_t stream, uint32_t tier) SVC_UNLOCKED;
/* Open the stream if it is not open yet. Waits for the vendor. */
int svc_stream_open(struct svc_server *server, uint32_t stream, struct sal_err *err) SVC_UNLOCKED;

#endif
