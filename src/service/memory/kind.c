/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/kind.h"

#include <stdlib.h>
#include <string.h>

#include "base/log/log.h"
#include "service/memory/stream.h"
#include "service/server.h"
#include "wire/facts.h"
#include "wire/messages.h"

void svc_kinds_init(struct svc_server *server)
{
	uint32_t i;

	for (i = 0; i < SVC_KINDS_MAX; i++) {
		server->kinds[i].server = server;
		server->kinds[i].work.data = &server->kinds[i];
	}
	server->kinds[0].state = SVC_KIND_OPEN;
	server->kinds[0].devices = 1;
}

void svc_kinds_fini(struct svc_server *server)
{
	uint32_t i;

	for (i = 0; i < SVC_KINDS_MAX; i++)
		free(server->kinds[i].facts);
}

uint32_t svc_kind_wish(const struct svc_server *server, const struct sal_hello *hello)
{
	uint32_t wish = hello->devices;

	if (wish == 0 && server->ops->facts(server->device)->is_host)
		wish = hello->host_devices;
	return wish > 0 ? wish : 1;
}

static uint32_t index_of(const struct svc_kind *k)
{
	return (uint32_t)(k - k->server->kinds);
}

/* In a thread of libuv. */
static void on_open(uv_work_t *work)
{
	struct svc_kind *k = work->data;
	struct svc_server *server = k->server;
	uint32_t first = index_of(k) * SVC_STREAMS_MAX;
	const struct sal_device_facts *facts;

	k->err = (struct sal_err){ 0 };
	if (svc_stream_open(server, first, &k->err) < 0 ||
	    svc_vendor(server)->describe(server->streams[first].device, &facts, &k->err) < 0)
		return;
	k->facts = sal_device_facts_pack(facts, &k->fact_size);
	if (!k->facts)
		(void)sal_err_set(&k->err, SAL_RESOURCE_EXHAUSTED, "out of memory");
}

static void close_streams(struct svc_kind *k)
{
	struct svc_server *server = k->server;

	svc_streams_close(server, index_of(k));
	sal_log_info("stream", "closed devices=%u", (unsigned)k->devices);
	free(k->facts);
	k->facts = NULL;
}

static void set_free(struct svc_kind *k)
{
	svc_lock(k->server);
	k->state = SVC_KIND_FREE;
	svc_unlock(k->server);
}

/* True: this was the last user, and the caller has to close the streams. */
static bool leave(struct svc_kind *k)
{
	bool is_last;

	svc_lock(k->server);
	SAL_ASSERT(k->users > 0);
	is_last = --k->users == 0;
	if (is_last)
		k->state = SVC_KIND_CLOSING;
	svc_unlock(k->server);
	return is_last;
}

void svc_kind_leave(struct svc_server *server, uint32_t kind)
{
	struct svc_kind *k = &server->kinds[kind];

	if (kind == 0 || !leave(k))
		return;
	close_streams(k);
	set_free(k);
}

static void on_close(uv_work_t *work)
{
	close_streams(work->data);
}

static void on_closed(uv_work_t *work, int status)
{
	struct svc_kind *k = work->data;

	(void)status;
	k->server->preparing--;
	set_free(k); /* not before: until now libuv uses k->work */
}

void svc_kind_leave_soon(struct svc_server *server, uint32_t kind)
{
	struct svc_kind *k = &server->kinds[kind];

	if (kind == 0 || !leave(k))
		return;
	server->preparing++;
	(void)uv_queue_work(&server->loop, &k->work, on_close, on_closed);
}

static void on_opened(uv_work_t *work, int status)
{
	struct svc_kind *k = work->data;
	struct svc_server *server = k->server;
	struct sal_err err = k->err;
	uint32_t kind = index_of(k);

	(void)status;
	server->preparing--;
	svc_lock(server);
	k->state = SVC_KIND_OPEN;
	svc_unlock(server);
	k->opened(server, kind, &err);
	svc_kind_leave_soon(server, kind);
}

static struct svc_kind *find(struct svc_server *server, uint32_t devices) SVC_LOCKED
{
	uint32_t i;

	for (i = 0; i < SVC_KINDS_MAX; i++) {
		struct svc_kind *k = &server->kinds[i];

		if ((k->state == SVC_KIND_OPENING || k->state == SVC_KIND_OPEN) &&
		    k->devices == devices)
			return k;
	}
	return NULL;
}

/* A free kind, which opens from now on. NULL: there is none. */
static struct svc_kind *reserve(struct svc_server *server, uint32_t devices) SVC_LOCKED
{
	uint32_t i;

	for (i = 1; i < SVC_KINDS_MAX; i++) {
		struct svc_kind *k = &server->kinds[i];

		if (k->state != SVC_KIND_FREE)
			continue;
		k->state = SVC_KIND_OPENING;
		k->devices = devices;
		k->users = 1;
		return k;
	}
	return NULL;
}

static int check(const struct svc_server *server, uint32_t devices, struct sal_err *err)
{
	if (devices > SAL_DEVICES_MAX)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "%u devices asked for, a job may have at most %d",
				   (unsigned)devices, SAL_DEVICES_MAX);
	if (devices > 1 && !server->ops->open_wide)
		return sal_err_set(err, SAL_UNIMPLEMENTED,
				   "%u devices asked for, but this salusd has one device, which "
				   "cannot be divided",
				   (unsigned)devices);
	return SAL_OK;
}

int svc_kind_find(struct svc_server *server, uint32_t devices, svc_kind_opened_fn *opened,
		  uint32_t *out_kind, struct sal_err *err)
{
	struct svc_kind *k;
	bool is_new;
	int rc = check(server, devices, err);

	*out_kind = 0;
	if (rc < 0)
		return rc;
	svc_lock(server);
	k = find(server, devices);
	is_new = !k;
	if (is_new)
		k = reserve(server, devices);
	rc = k && k->state == SVC_KIND_OPENING;
	if (k && rc == 0)
		k->users++;
	svc_unlock(server);
	if (!k)
		return sal_err_set(
			err, SAL_RESOURCE_EXHAUSTED,
			"%u devices asked for, but jobs with %d other numbers of devices "
			"are open already: try again later",
			(unsigned)devices, SVC_KINDS_MAX - 1);
	*out_kind = index_of(k);
	k->opened = opened;
	if (is_new) {
		server->preparing++;
		(void)uv_queue_work(&server->loop, &k->work, on_open, on_opened);
	}
	return rc;
}

int svc_kind_enter(struct svc_server *server, uint32_t devices, uint32_t *out_kind,
		   struct sal_err *err)
{
	struct svc_kind *k;

	svc_lock(server);
	k = find(server, devices);
	if (k && k->state == SVC_KIND_OPEN)
		k->users++;
	else
		k = NULL;
	svc_unlock(server);
	*out_kind = k ? index_of(k) : 0;
	return k ? SAL_OK
		 : sal_err_set(err, SAL_INTERNAL, "the streams of %u devices are not open",
			       (unsigned)devices);
}
