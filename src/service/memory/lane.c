/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/lane.h"

#include "base/log/log.h"
#include "service/server.h"

int svc_lane_open(struct svc_server *server, uint32_t lane, struct sal_stream **out_stream,
		  struct sal_err *err)
{
	struct svc_lane *l = &server->lanes[lane];
	struct sal_stream *stream = atomic_load(&l->stream);
	int rc = SAL_OK;

	if (!stream) {
		/* Only threads that need this lane wait here. */
		(void)pthread_mutex_lock(&l->opening);
		stream = atomic_load(&l->stream);
		if (!stream) {
			rc = svc_vendor(server)->open_stream(server->device, &stream, err);
			if (rc >= 0) {
				atomic_store(&l->stream, stream);
				sal_log_info("lane", "opened index=%u", (unsigned)lane);
			}
		}
		(void)pthread_mutex_unlock(&l->opening);
	}
	*out_stream = stream;
	return rc;
}
