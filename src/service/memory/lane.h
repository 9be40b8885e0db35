/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane - the vendor's stream behind a lane of the engine. The first use of the lane opens the
 * stream.
 *
 * Threads: any thread may open a stream, without server->lock. The counters are under server->lock.
 */
#ifndef SAL_SERVICE_LANE_H
#define SAL_SERVICE_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "service/lock.h"

struct sal_err;
struct sal_stream;
struct svc_server;

struct svc_lane {
	pthread_mutex_t opening; /* held while the vendor opens the stream */
	_Atomic(struct sal_stream *) stream; /* owned; NULL: not open yet */
	uint64_t iterations;
	uint64_t busy_ns; /* device time of the iterations that ended in this lane */
};

/* Return the lane's stream, and open the stream first if necessary. Waits for the vendor. */
int svc_lane_open(struct svc_server *server, uint32_t lane, struct sal_stream **out_stream,
		  struct sal_err *err) SVC_UNLOCKED;

#endif
