/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/stream.h"

#include "base/log/log.h"
#include "core/view.h"
#include "service/client/session.h"
#include "service/server.h"

void svc_streams_init(struct svc_server *server)
{
	uint32_t i;

	for (i = 0; i < SVC_KINDS_MAX * SVC_STREAMS_MAX; i++)
		(void)pthread_mutex_init(&server->streams[i].opening, NULL);
}

void svc_streams_close(struct svc_server *server, uint32_t kind)
{
	struct svc_stream *streams = server->streams + (size_t)kind * SVC_STREAMS_MAX;
	uint32_t i;

	for (i = 0; i < SVC_STREAMS_MAX && server->ops; i++)
		svc_vendor(server)->close_stream(atomic_exchange(&streams[i].device, NULL));
}

void svc_streams_fini(struct svc_server *server)
{
	uint32_t i;

	for (i = 0; i < SVC_KINDS_MAX; i++)
		svc_streams_close(server, i);
	for (i = 0; i < SVC_KINDS_MAX * SVC_STREAMS_MAX; i++)
		(void)pthread_mutex_destroy(&server->streams[i].opening);
}

uint32_t svc_stream_index(const struct svc_session *s, uint32_t lane, uint32_t tier)
{
	return svc_stream_first(s) + lane + (s->server->has_tiers ? tier : 0) * SAL_LANES_MAX;
}

uint32_t svc_stream_first(const struct svc_session *s)
{
	return s->kind * SVC_STREAMS_MAX;
}

struct sal_stream *svc_stream_chip(const struct svc_server *server, uint32_t stream, uint32_t chip)
{
	struct sal_stream *device = server->streams[stream].device;

	return chip == 0 ? device : svc_vendor(server)->chip(device, chip);
}

uint32_t svc_stream_nested(uint32_t stream)
{
	uint32_t nested = stream + SAL_TIERS * SAL_LANES_MAX;

	return nested / SVC_STREAMS_MAX == stream / SVC_STREAMS_MAX ? nested : UINT32_MAX;
}

uint32_t svc_stream_home(const struct svc_session *s)
{
	uint32_t lane = sal_session_lane(s->core);

	return svc_stream_index(s, lane == SAL_NO_LANE ? 0 : lane, s->tier);
}

static int open_device(struct svc_server *server, uint32_t stream, struct sal_stream **out_device,
		       struct sal_err *err)
{
	uint32_t tier = stream / SAL_LANES_MAX % SAL_TIERS;
	uint32_t devices = server->kinds[stream / SVC_STREAMS_MAX].devices;
	int rc;

	if (devices == 1)
		rc = svc_vendor(server)->open_stream(server->device, tier, out_device, err);
	else
		rc = svc_vendor(server)->open_wide(server->device, tier, devices, out_device, err);
	if (rc >= 0)
		sal_log_info("stream", "opened lane=%u tier=%u depth=%u devices=%u",
			     (unsigned)(stream % SAL_LANES_MAX), (unsigned)tier,
			     (unsigned)(stream % SVC_STREAMS_MAX / (SAL_TIERS * SAL_LANES_MAX)),
			     (unsigned)devices);
	return rc;
}

int svc_stream_open(struct svc_server *server, uint32_t stream, struct sal_err *err)
{
	struct svc_stream *s = &server->streams[stream];
	struct sal_stream *device;
	int rc = SAL_OK;

	if (atomic_load(&s->device))
		return SAL_OK;
	/* Only threads that need this stream wait here. */
	(void)pthread_mutex_lock(&s->opening);
	if (!atomic_load(&s->device)) {
		rc = open_device(server, stream, &device, err);
		if (rc >= 0)
			atomic_store(&s->device, device);
	}
	(void)pthread_mutex_unlock(&s->opening);
	return rc;
}
