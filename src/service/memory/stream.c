/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/stream.h"

#include <time.h>

#include "base/log/log.h"
#include "core/view.h"
#include "heap/meter.h"
#include "service/client/session.h"
#include "service/server.h"

/*
 * Each stream has threads and memory of the vendor. So if more rows than these are in use, a session
 * that is idle for so long keeps its row only if nobody else needs one.
 */
#define ROWS_FEW 16
#define IDLE_NS UINT64_C(1000000000)
/* How long an iteration waits for reports of its stream before it runs in the tier of the last one. */
#define REPORT_NAP_NS 20000L
#define REPORT_NAPS_MAX 100

void svc_streams_init(struct svc_server *server)
{
	uint32_t i;

	for (i = 0; i < SVC_KINDS_MAX * SVC_STREAMS_MAX; i++)
		(void)pthread_mutex_init(&server->streams[i].opening, NULL);
}

void svc_streams_close(struct svc_server *server, uint32_t kind)
{
	struct svc_stream *streams = server->streams + (size_t)kind * (size_t)(SVC_STREAMS_MAX);
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

static bool is_idle(const struct svc_session *s)
{
	return TAILQ_EMPTY(&s->executions);
}

/*
 * The row to give to another session: a free one, or that of an idle session. A session between two
 * iterations is idle for a moment: it loses its row only if none is free. -1: there is none.
 */
static int find_row(const struct svc_server *server, uint64_t now_ns)
{
	int free_row = -1, oldest = -1;
	uint32_t i;

	for (i = 0; i < SVC_ROWS_MAX; i++) {
		const struct svc_row *row = &server->rows[i];

		if (!row->owner && free_row < 0)
			free_row = (int)i;
		if (row->owner && is_idle(row->owner) &&
		    (oldest < 0 || row->used_ns < server->rows[oldest].used_ns))
			oldest = (int)i;
	}
	if (free_row < 0)
		return oldest;
	return free_row < ROWS_FEW || oldest < 0 || now_ns - server->rows[oldest].used_ns < IDLE_NS
		       ? free_row
		       : oldest;
}

void svc_stream_leave(struct svc_session *s)
{
	if (s->row)
		s->row->owner = NULL;
	s->row = NULL;
}

/* The session's row. If all rows are in use, the lane's: then two sessions share it for a while. */
static uint32_t row_of(struct svc_session *s, uint32_t lane) SVC_LOCKED
{
	struct svc_server *server = s->server;
	uint64_t now_ns;
	int index;

	if (!server->rows_are_cheap || s->state == SVC_CLOSED)
		return lane;
	now_ns = svc_now_ns();
	if (!s->row) {
		index = find_row(server, now_ns);
		if (index < 0)
			return lane;
		s->row = &server->rows[index];
		if (s->row->owner)
			s->row->owner->row = NULL;
		s->row->owner = s;
	}
	s->row->used_ns = now_ns;
	return (uint32_t)(s->row - server->rows);
}

uint32_t svc_stream_index(struct svc_session *s, uint32_t lane, uint32_t tier)
{
	bool has_own = s->server->has_tiers && !s->server->tiers_change;

	return svc_stream_first(s) + row_of(s, lane) + (has_own ? tier : 0) * SVC_ROWS_MAX;
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
	uint32_t nested = stream + SAL_TIERS * SVC_ROWS_MAX;

	return nested / SVC_STREAMS_MAX == stream / SVC_STREAMS_MAX ? nested : UINT32_MAX;
}

uint32_t svc_stream_home(struct svc_session *s)
{
	uint32_t lane = sal_session_lane(s->core);

	return svc_stream_index(s, lane == SAL_NO_LANE ? 0 : lane, s->tier);
}

static int open_device(struct svc_server *server, uint32_t stream, struct sal_stream **out_device,
		       struct sal_err *err)
{
	uint32_t tier = stream / SVC_ROWS_MAX % SAL_TIERS;
	uint32_t devices = server->kinds[stream / SVC_STREAMS_MAX].devices;
	int rc;

	if (devices == 1)
		rc = svc_vendor(server)->open_stream(server->device, tier, out_device, err);
	else
		rc = svc_vendor(server)->open_wide(server->device, tier, devices, out_device, err);
	if (rc >= 0)
		sal_log_info("stream", "opened row=%u tier=%u depth=%u devices=%u",
			     (unsigned)(stream % SVC_ROWS_MAX), (unsigned)tier,
			     (unsigned)(stream % SVC_STREAMS_MAX / (SAL_TIERS * SVC_ROWS_MAX)),
			     (unsigned)devices);
	return rc;
}

void svc_stream_set_tier(struct svc_server *server, uint32_t stream, uint32_t tier)
{
	struct svc_stream *s = &server->streams[stream];
	uint32_t naps;

	if (!server->tiers_change)
		return;
	for (naps = 0; tier > 0 && atomic_load(&s->reporters) > 0; naps++) {
		if (naps == REPORT_NAPS_MAX)
			return;
		(void)nanosleep(&(struct timespec){ .tv_nsec = REPORT_NAP_NS }, NULL);
	}
	(void)svc_vendor(server)->set_tier(s->device, tier);
}

int svc_stream_open(struct svc_server *server, uint32_t stream, struct sal_err *err)
{
	struct svc_stream *s = &server->streams[stream];
	struct sal_stream *device;
	struct sal_payer before;
	int rc = SAL_OK;

	if (atomic_load(&s->device))
		return SAL_OK;
	/* A stream outlives its session: no session pays for the vendor's client. */
	before = sal_payer_set(sal_payer_for(SAL_NO_METER, false));
	/* Only threads that need this stream wait here. */
	(void)pthread_mutex_lock(&s->opening);
	if (!atomic_load(&s->device)) {
		rc = open_device(server, stream, &device, err);
		if (rc >= 0)
			atomic_store(&s->device, device);
	}
	(void)pthread_mutex_unlock(&s->opening);
	(void)sal_payer_set(before);
	return rc;
}
