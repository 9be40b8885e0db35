/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/paging.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/container.h"
#include "base/log/log.h"
#include "core/engine.h"
#include "core/view.h"
#include "service/client/session.h"
#include "service/ledger.h"
#include "service/memory/again.h"
#include "service/memory/buffer.h"
#include "service/memory/memory.h"
#include "service/memory/stream.h"
#include "service/run/carrier.h"
#include "service/server.h"

#define READ_NAP_US 50
/* Smaller or fewer transfers say little about the speed of the link. */
#define RATE_BYTES_MIN (UINT64_C(1) << 20)
#define RATE_SAMPLES_MIN 4

static struct svc_transit *transit_of(struct svc_errand *errand)
{
	return SAL_CONTAINER_OF(errand, struct svc_transit, errand);
}

static struct svc_session *session_of(struct svc_transit *t)
{
	return SAL_CONTAINER_OF(t, struct svc_session, transit);
}

/* List all buffers of the session that have the device's memory, with a reference to each. */
static void list_buffers(struct svc_transit *t) SVC_LOCKED
{
	struct svc_session *s = session_of(t);
	struct svc_buffer *b;
	size_t n = 0;

	t->began_ns = svc_now_ns();
	TAILQ_FOREACH(b, &s->all, link)
		n++;
	t->list = calloc(n + 1, sizeof(struct svc_buffer *));
	if (!t->list) {
		t->code = sal_err_set(&t->err, SAL_RESOURCE_EXHAUSTED, "out of host memory");
		return;
	}
	TAILQ_FOREACH(b, &s->all, link)
		if ((b->device || b->saved) && !b->is_on_host)
			t->list[t->count++] = svc_buffer_ref(b);
}

static void drop_list(struct svc_transit *t) SVC_LOCKED
{
	size_t i;

	for (i = 0; i < t->count; i++)
		svc_buffer_unref(t->list[i]);
	free(t->list);
	t->list = NULL;
	t->count = 0;
}

/*
 * The contents that vendor->save has begun to copy take the place of the buffer's device memory. If
 * the copy fails, the buffer stays on the device. With stays_in_place, if the device allows, the
 * buffer keeps its address and loses only its pages. Then nobody may read the buffer until it is
 * restored.
 */
static int finish_save(struct svc_buffer *b, struct sal_saved *take_saved, bool stays_in_place,
		       struct sal_err *err)
{
	struct svc_server *server = b->session->server;
	const struct sal_device_ops *vendor = svc_vendor(server);
	struct sal_buffer *device = b->device;
	struct sal_saved *saved = take_saved;
	int rc = vendor->await_saved(saved, err);

	if (rc < 0) {
		vendor->free_saved(saved);
		return rc;
	}
	svc_lock(server);
	b->saved = saved;
	svc_unlock(server);
	if (stays_in_place && vendor->empty(device) >= 0)
		return SAL_OK;
	svc_lock(server);
	b->device = NULL;
	svc_unlock(server);
	vendor->free_buffer(device);
	return SAL_OK;
}

/* With stays_in_place, memory that cannot be given back is not copied either. */
static int begin_save(struct svc_buffer *b, bool stays_in_place, struct sal_saved **out_saved,
		      struct sal_err *err)
{
	const struct sal_device_ops *vendor = svc_vendor(b->session->server);

	if (stays_in_place && vendor->leave && vendor->leave(b->device, out_saved, NULL) >= 0)
		return SAL_OK;
	return vendor->save(b->device, out_saved, err);
}

/* Save the buffer's contents from the device to the host. */
static int save(struct svc_buffer *b, bool stays_in_place, struct sal_err *err)
{
	struct sal_saved *saved;
	int rc = begin_save(b, stays_in_place, &saved, err);

	return rc < 0 ? rc : finish_save(b, saved, stays_in_place, err);
}

/* Restore saved contents into a stream. */
static int restore(struct svc_buffer *b, uint32_t stream, struct sal_err *err)
{
	struct svc_server *server = b->session->server;
	const struct sal_device_ops *vendor = svc_vendor(server);
	struct sal_buffer *empty = b->device, *device = empty;
	struct svc_again again = { 0 };
	int rc;

	svc_told_await(server, b->bytes);
	do {
		if (empty && b->stream == stream)
			rc = vendor->refill(empty, b->saved, err);
		else
			rc = vendor->restore(svc_stream_chip(server, stream, b->chip), b->saved,
					     &device, err);
	} while (svc_again(&again, b->session, rc));
	if (rc >= 0)
		svc_told_count(server, (int64_t)b->bytes);
	svc_told_arrived(server, b->bytes);
	if (rc < 0)
		return rc;
	svc_lock(server);
	b->device = device;
	b->stream = stream;
	b->saved = NULL;
	svc_unlock(server);
	if (empty != device)
		vendor->free_buffer(empty);
	return SAL_OK;
}

static void note_end(struct svc_transit *t, const char *direction)
{
	const struct svc_session *s = session_of(t);

	if (t->code)
		sal_log_error("paging", "%s failed session=%" PRIu64 " name=%s: %s", direction,
			      s->id, s->name, t->err.text);
	sal_log_debug("paging", "%s session=%" PRIu64 " buffers=%zu us=%" PRIu64, direction, s->id,
		      t->count, (svc_now_ns() - t->began_ns) / 1000);
}

/*
 * The engine weighs a swap by the time that its copies take. On a device that is not the host, the
 * link decides, so measure it: the best of the last page-outs, because a busy machine makes some of
 * them slow. (A page-in returns before its copies end.) The engine learns of changes by a quarter or
 * more.
 */
static void learn_rate(struct svc_transit *t) SVC_LOCKED
{
	struct svc_session *s = session_of(t);
	struct svc_server *server = s->server;
	struct sal_tuning tuning = *sal_engine_tuning(server->engine);
	uint64_t took_ns = svc_now_ns() - t->began_ns, rate, known = tuning.page_bytes_per_s;

	if (!server->has_link || s->paged_bytes < RATE_BYTES_MIN || took_ns == 0 || known == 0)
		return;
	rate = (uint64_t)((double)s->paged_bytes / (double)took_ns * 1e9);
	server->page_rate -= server->page_rate / 8;
	if (server->page_rate < rate)
		server->page_rate = rate;
	rate = server->page_rate;
	if (++server->page_samples < RATE_SAMPLES_MIN || rate == 0 ||
	    (rate < known + known / 4 && rate > known - known / 4))
		return;
	tuning.page_bytes_per_s = rate;
	sal_log_info("paging", "copies %" PRIu64 " MB/s", rate / 1000000);
	sal_engine_set_tuning(server->engine, svc_now_ns(), &tuning);
}

void svc_paging_forget(struct svc_session *s)
{
	svc_limit_give(s, SVC_PAGED_BYTES, s->paged_bytes);
	s->paged_bytes = 0;
}

static bool out_begin(struct svc_errand *errand) SVC_LOCKED
{
	struct svc_transit *t = transit_of(errand);
	struct svc_session *s = session_of(t);
	int rc = svc_limit_take(s, SVC_PAGED_BYTES, s->charged_bytes, &t->err);

	list_buffers(t);
	if (rc < 0)
		t->code = rc;
	else
		s->paged_bytes = s->charged_bytes;
	return true;
}

/* The page-out failed: restore the saved buffers where possible. */
static void take_back(struct svc_transit *t)
{
	size_t i;

	for (i = 0; i < t->count; i++)
		if (t->list[i]->saved)
			(void)restore(t->list[i], t->list[i]->stream, NULL);
}

/*
 * Start all copies, then wait for them: so a device that is not the host copies one buffer while we
 * keep the books of another.
 */
static void save_all(struct svc_transit *t)
{
	struct sal_saved **saved = calloc(t->count + 1, sizeof(struct sal_saved *));
	size_t i;
	int rc;

	if (!saved) {
		t->code = sal_err_set(&t->err, SAL_RESOURCE_EXHAUSTED, "out of host memory");
		return;
	}
	for (i = 0; i < t->count && t->code == 0; i++)
		if (svc_buffer_is_resident(t->list[i]))
			t->code = begin_save(t->list[i], true, &saved[i], &t->err);
	for (i = 0; i < t->count; i++) {
		rc = saved[i] ? finish_save(t->list[i], saved[i], true, t->code ? NULL : &t->err)
			      : SAL_OK;
		if (rc < 0 && t->code == 0)
			t->code = rc;
	}
	free(saved);
}

static void out_call(struct svc_errand *errand)
{
	struct svc_transit *t = transit_of(errand);

	/* A buffer that the vendor still reads must keep its pages. Only this session waits. */
	while (atomic_load(&session_of(t)->reads) > 0)
		(void)usleep(READ_NAP_US);
	if (t->code == 0)
		save_all(t);
	if (t->code < 0)
		take_back(t);
	note_end(t, "out");
}

static void out_settle(struct svc_errand *errand) SVC_LOCKED
{
	struct svc_transit *t = transit_of(errand);
	struct svc_session *s = session_of(t);

	if (t->code < 0) {
		svc_paging_forget(s);
		sal_engine_page_out_failed(s->server->engine, svc_now_ns(), s->core);
	} else {
		s->paged_out = (struct svc_paged){ t->began_ns, svc_now_ns() };
		sal_engine_paged_out(s->server->engine, svc_now_ns(), s->core);
		learn_rate(t);
	}
	drop_list(t);
	svc_memory_settle(s);
}

static bool in_begin(struct svc_errand *errand) SVC_LOCKED
{
	struct svc_transit *t = transit_of(errand);

	t->stream = svc_stream_home(session_of(t));
	list_buffers(t);
	return true;
}

/* The page-in failed: save the restored buffers again where possible. */
static void give_back(struct svc_transit *t)
{
	size_t i;

	for (i = 0; i < t->count; i++)
		if (svc_buffer_is_resident(t->list[i]))
			(void)save(t->list[i], true, NULL);
}

static void in_call(struct svc_errand *errand)
{
	struct svc_transit *t = transit_of(errand);
	size_t i;

	if (t->code == 0)
		t->code = svc_stream_open(session_of(t)->server, t->stream, &t->err);
	for (i = 0; i < t->count && t->code >= 0; i++)
		if (t->list[i]->saved)
			t->code = restore(t->list[i], t->stream, &t->err);
	if (t->code < 0)
		give_back(t);
	note_end(t, "in");
}

static void in_settle(struct svc_errand *errand) SVC_LOCKED
{
	struct svc_transit *t = transit_of(errand);
	struct svc_session *s = session_of(t);

	if (t->code < 0) {
		sal_engine_page_in_failed(s->server->engine, svc_now_ns(), s->core);
	} else {
		svc_paging_forget(s);
		s->paged_in = (struct svc_paged){ t->began_ns, svc_now_ns() };
		sal_engine_paged_in(s->server->engine, svc_now_ns(), s->core);
	}
	drop_list(t);
	svc_memory_settle(s);
}

static void depart(struct svc_session *s, const struct svc_errand *phases) SVC_LOCKED
{
	s->transit = (struct svc_transit){ .errand = *phases };
	svc_errand_post(s, &s->transit.errand);
}

void svc_page_out(struct svc_session *s)
{
	static const struct svc_errand out = { .begin = out_begin,
					       .call = out_call,
					       .settle = out_settle };

	depart(s, &out);
}

void svc_page_in(struct svc_session *s)
{
	static const struct svc_errand in = { .begin = in_begin,
					      .call = in_call,
					      .settle = in_settle };

	depart(s, &in);
}

/*
 * The stream adopts the buffer, without a copy. False: the buffer is where it was. While the vendor
 * reads a buffer of the session, no buffer is adopted, because an iteration may overwrite it. The
 * same holds for a pinned buffer: the iteration that pins it has not ended.
 */
static bool adopt(struct svc_buffer *b, uint32_t stream)
{
	struct svc_server *server = b->session->server;
	struct sal_buffer *device;

	if (b->pins > 0 || atomic_load(&b->session->reads) > 0 ||
	    svc_vendor(server)->adopt(svc_stream_chip(server, stream, b->chip), b->device, &device,
				      NULL) < 0)
		return false;
	svc_lock(server);
	b->device = device;
	b->stream = stream;
	svc_unlock(server);
	return true;
}

int svc_buffer_bring(struct svc_buffer *b, uint32_t stream, struct sal_err *err)
{
	int rc = SAL_OK;

	if (svc_buffer_is_resident(b) && b->stream != stream && !adopt(b, stream))
		rc = save(b, false, err);
	if (rc >= 0 && b->saved)
		rc = restore(b, stream, err);
	return rc;
}
