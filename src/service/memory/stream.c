/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/stream.h"

#include "base/log/log.h"
#include "core/view.h"
#include "service/client/session.h"
#include "service/server.h"

void svc_streams_init(struct svc_server *server)
{
	uint32_t i;

	for (i = 0; i < SVC_STREAMS_MAX; i++)
		(void)pthread_mutex_init(&server->streams[i].opening, NULL);
}

void svc_streams_fini(struct svc_server *server)
{
	uint32_t i;

	for (i = 0; i < SVC_STREAMS_MAX; i++) {
		if (server->ops)
			svc_vendor(server)->close_stream(server->streams[i].device);
		(void)pthread_mutex_destroy(&server->streams[i].opening);
	}
}

uint32_t svc_stream_index(const struct svc_server *server, uint32_t lane, uint32_t tier)
{
	return lane + (server->has_tiers ? tier : 0) * SAL_LANES_MAX;
}

uint32_t svc_stream_nested(uint32_t stream)
{
	uint32_t nested = stream + SAL_TIERS * SAL_LANES_MAX;

	return nested < SVC_STREAMS_MAX ? nested : UINT32_MAX;
}

uint32_t svc_stream_home(const struct svc_session *s)
{
	uint32_t lane = sal_session_lane(s->core);

	return svc_stream_index(s->server, lane == SAL_NO_LANE ? 0 : lane, s->tier);
}

int svc_stream_open(struct svc_server *server, uint32_t stream, struct sal_err *err)
{
	struct svc_stream *s = &server->streams[stream];
	uint32_t tier = stream / SAL_LANES_MAX % SAL_TIERS;
	struct sal_stream *device;
	int rc = SAL_OK;

	if (atomic_load(&s->device))
		return SAL_OK;
	/* Only threads that need this stream wait here. */
	(void)pthread_mutex_lock(&s->opening);
	if (!atomic_load(&s->device)) {
		rc = svc_vendor(server)->open_stream(server->device, tier, &device, err);
		if (rc >= 0) {
			atomic_store(&s->device, device);
			sal_log_info("stream", "opened lane=%u tier=%u depth=%u",
				     (unsigned)(stream % SAL_LANES_MAX), (unsigned)tier,
				     (unsigned)(stream / (SAL_TIERS * SAL_LANES_MAX)));
		}
	}
	(void)pthread_mutex_unlock(&s->opening);
	return rc;
}
