/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer - records about arrays: to the device, from it, within it, and whether they are there.
 *
 * What a record says of a buffer that is yet to be computed waits for that buffer; what there is no memory for
 * now is left to be taken later.
 */
#include "service/intake.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lane.h"

/* Downloads up to this wait for the iteration's end, and are then copied on the spot: that is sooner than a thread
 * of the vendor's would. */
#define SMALL_DOWNLOAD 65536

/* --- uploads ------------------------------------------------------------------------------------------ */

/* Bytes of the arena that the vendor uses in place. */
struct lease {
	struct svc_session *session; /* owned reference */
	struct sal_place_in_arena place;
};

static void on_released(void *ctx, int code, const char *message)
{
	struct lease *lease = ctx;

	(void)code;
	(void)message;
	svc_outbox_released(&lease->session->outbox, &lease->place);
	svc_session_unref(lease->session);
	free(lease);
}

static bool size_adds_up(const struct sal_msg_upload *m, const int64_t *dims)
{
	uint64_t bytes = sal_type_bytes(m->type);
	uint32_t i;

	if (bytes == 0)
		return false;
	for (i = 0; i < m->rank; i++)
		if (dims[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)dims[i], &bytes))
			return false;
	return bytes == m->size;
}

struct svc_buffer *svc_new_buffer(struct svc_session *s, uint64_t id, uint64_t bytes)
{
	struct svc_buffer *b = svc_buffer_create(s, bytes);

	if (b && !svc_idmap_add(&s->buffers, id, b)) {
		svc_buffer_unref(b);
		return NULL;
	}
	return b;
}

/* Where its new buffers go: its lane, once that is open; they follow it when they are used. */
static uint32_t home_lane(const struct svc_session *s)
{
	uint32_t lane = s->core->lane ? s->core->lane->index : 0;

	return s->server->lanes[lane].stream ? lane : 0;
}

/* No room for it, ever: the buffer fails, with the numbers. */
static void refuse_buffer(struct svc_session *s, struct svc_buffer *b)
{
	char text[1000];

	svc_memory_explain(s, &s->refusal, text, sizeof(text));
	svc_buffer_fail(b, SAL_RESOURCE_EXHAUSTED, text);
}

static void upload_to_device(struct svc_session *s, const struct sal_msg_upload *m,
			     struct svc_buffer *b, const void *data)
{
	const int64_t *dims = (const int64_t *)(m + 1);
	struct sal_array array = { .type = m->type, .rank = m->rank, .dims = dims };
	const struct sal_device_ops *ops = s->server->ops;
	struct sal_buffer *device = NULL;
	struct sal_err err = { 0 };
	struct lease *lease = NULL;
	uint32_t lane = home_lane(s);
	int rc;

	if (m->from.size > 0) {
		lease = malloc(sizeof(*lease));
		if (!lease) {
			svc_buffer_fail(b, SAL_RESOURCE_EXHAUSTED, "salusd: out of host memory");
			svc_outbox_released(&s->outbox, &m->from);
			return;
		}
		*lease = (struct lease){ svc_session_ref(s), m->from };
	}
	rc = ops->upload(s->server->lanes[lane].stream, &array, data,
			 lease ? SAL_UPLOAD_ALIAS : SAL_UPLOAD_COPY, lease ? on_released : NULL,
			 lease, &device, &err);
	if (rc < 0) {
		if (lease)
			on_released(lease, 0, NULL);
		svc_buffer_fail(b, err.code, err.text);
	} else {
		svc_buffer_set(b, device, lane);
	}
}

enum svc_taken svc_take_upload(struct svc_session *s, const struct sal_msg_upload *m)
{
	const int64_t *dims = (const int64_t *)(m + 1);
	const void *data = dims + m->rank;
	enum svc_answer answer;
	struct svc_buffer *b;

	if (m->from.size > 0)
		data = svc_session_place(s, &m->from);
	if (!data || !size_adds_up(m, dims) || svc_idmap_find(&s->buffers, m->id))
		return SVC_BROKEN;
	answer = svc_memory_ask(s, m->size);
	if (answer == SVC_LATER)
		return SVC_TAKE_LATER;
	b = svc_new_buffer(s, m->id, m->size);
	if (!b)
		return SVC_BROKEN;
	if (answer == SVC_YES) {
		upload_to_device(s, m, b, data);
	} else {
		refuse_buffer(s, b);
		if (m->from.size > 0)
			svc_outbox_released(&s->outbox, &m->from);
	}
	return SVC_TAKEN;
}

/* --- downloads ---------------------------------------------------------------------------------------- */

struct download {
	struct svc_waiter waiter;
	struct svc_session *session; /* owned reference */
	struct svc_buffer *buffer; /* owned reference, until it has started */
	uint64_t request, size;
	bool waited; /* for its buffer's iteration */
	void *into; /* in the arena; NULL: in the record */
	void *bytes; /* owned; then here, once it has started */
	struct svc_errand errand;
};

static void download_end(struct download *d, int code, const char *text)
{
	if (code)
		svc_outbox_done(&d->session->outbox, d->request, code, text,
				strnlen(text, SAL_INLINE_MAX));
	else
		svc_outbox_done(&d->session->outbox, d->request, 0, d->into ? NULL : d->bytes,
				d->into ? 0 : (size_t)d->size);
	svc_session_unref(d->session);
	free(d->bytes);
	free(d);
}

static void download_start(struct svc_waiter *w);

static void on_downloaded(void *ctx, int code, const char *message)
{
	struct download *d = ctx;

	(void)atomic_fetch_sub(&d->session->readers, 1);
	download_end(ctx, code, message ? message : "");
}

/* On the carrier: of a buffer that is paged out, once it is. */
static void run_read_saved(struct svc_errand *errand)
{
	struct download *d =
		(struct download *)((char *)errand - offsetof(struct download, errand));
	struct svc_server *server = d->session->server;
	struct svc_buffer *b = d->buffer;
	struct sal_err err = { 0 };
	int rc = 0;

	if (b->saved) {
		struct sal_text saved = server->ops->saved_bytes(b->saved);

		if (saved.size != d->size)
			rc = sal_err_set(&err, SAL_INVALID_ARGUMENT, "a buffer of another size");
		else if (d->size > 0)
			memcpy(d->into ? d->into : d->bytes, saved.at, saved.size);
	}
	(void)pthread_mutex_lock(&server->lock);
	if (!b->saved) { /* it has come back */
		d->waited = false;
		download_start(&d->waiter);
	} else {
		svc_buffer_unref(b);
		download_end(d, rc < 0 ? err.code : 0, err.text);
	}
	(void)pthread_mutex_unlock(&server->lock);
}

static int download_from_device(struct download *d, struct sal_err *err)
{
	int rc;

	(void)atomic_fetch_add(&d->session->readers, 1);
	rc = d->session->server->ops->download(d->buffer->device, d->into ? d->into : d->bytes,
					       (size_t)d->size, on_downloaded, d, err);
	if (rc < 0)
		(void)atomic_fetch_sub(&d->session->readers, 1);
	return rc;
}

static void download_start(struct svc_waiter *w)
{
	struct download *d = (struct download *)w;
	struct svc_buffer *b = d->buffer;
	struct sal_err err = { 0 };

	if (b->producer && d->size <= SMALL_DOWNLOAD) {
		w->reads = b;
		STAILQ_INSERT_TAIL(&b->producer->readers, w, link);
		return;
	}
	d->session->waiting_count -= d->waited;
	if (!d->into && !d->bytes)
		d->bytes = malloc((size_t)d->size + 1);
	if ((b->saved || (b->device && d->session->leaving)) && (d->into || d->bytes)) {
		d->errand.run = run_read_saved;
		svc_carrier_post(d->session->server, &d->errand);
		return;
	}
	if (!b->device)
		download_end(d, b->code, b->text ? b->text : "");
	else if (!d->into && !d->bytes)
		download_end(d, SAL_RESOURCE_EXHAUSTED, "salusd: out of host memory");
	else if (download_from_device(d, &err) < 0)
		download_end(d, err.code, err.text);
	svc_buffer_unref(b);
}

static void when_started(struct svc_buffer *b, struct svc_waiter *w)
{
	if (svc_buffer_is_pending(b))
		STAILQ_INSERT_TAIL(&b->waiters, w, link);
	else
		w->go(w);
}

void svc_no_such(struct svc_session *s, uint64_t request, const char *what, uint64_t id)
{
	char text[80];
	int n = snprintf(text, sizeof(text), "salusd: there is no %s %" PRIu64, what, id);

	svc_outbox_done(&s->outbox, request, SAL_INVALID_ARGUMENT, text, (size_t)n);
}

bool svc_take_download(struct svc_session *s, const struct sal_msg_download *m)
{
	struct svc_buffer *b = svc_idmap_find(&s->buffers, m->id);
	void *into = NULL;
	struct download *d;

	if (m->into.size > 0) {
		into = svc_session_place(s, &m->into);
		if (!into)
			return false;
	}
	if (!b) {
		svc_no_such(s, m->request, "buffer", m->id);
		return true;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return false;
	d->waiter.go = download_start;
	d->session = svc_session_ref(s);
	d->buffer = svc_buffer_ref(b);
	d->request = m->request;
	d->size = m->size;
	d->into = into;
	d->waited = svc_buffer_is_pending(b);
	s->waiting_count += d->waited;
	when_started(b, &d->waiter);
	return true;
}

/* --- copies -------------------------------------------------------------------------------- */

struct copy {
	struct svc_waiter waiter;
	struct svc_buffer *from, *to; /* owned references */
	bool waited;
};

/* It has its memory now, or never will. */
static void copy_redeem(const struct copy *c)
{
	c->from->session->promised_bytes -= c->to->bytes;
}

static void on_copied(void *ctx, int code, const char *message)
{
	struct svc_session *s = ctx;

	(void)code;
	(void)message;
	(void)atomic_fetch_sub(&s->readers, 1);
	svc_session_unref(s);
}

static int copy_on_device(struct svc_buffer *from, struct sal_buffer **out_device,
			  struct sal_err *err)
{
	const struct sal_device_ops *ops = from->session->server->ops;
	int rc = ops->copy(from->device, out_device, err);

	if (rc < 0)
		return rc;
	(void)atomic_fetch_add(&from->session->readers, 1);
	if (ops->when_ready(*out_device, on_copied, svc_session_ref(from->session), NULL) < 0)
		on_copied(from->session, 0, NULL);
	return SAL_OK;
}

static void copy_start(struct svc_waiter *w)
{
	struct copy *c = (struct copy *)w;
	struct sal_buffer *device = NULL;
	struct sal_err err = { 0 };

	c->from->session->waiting_count -= c->waited;
	copy_redeem(c);
	if (!svc_buffer_is_there(c->from))
		svc_buffer_fail(c->to, c->from->code ? c->from->code : SAL_INTERNAL, c->from->text);
	else if (copy_on_device(c->from, &device, &err) < 0)
		svc_buffer_fail(c->to, err.code, err.text);
	else
		svc_buffer_set(c->to, device, c->from->lane);
	svc_buffer_unref(c->from);
	svc_buffer_unref(c->to);
	free(c);
}

enum svc_taken svc_take_copy(struct svc_session *s, const struct sal_msg_copy *m)
{
	struct svc_buffer *from = svc_idmap_find(&s->buffers, m->from);
	uint64_t bytes = from ? from->bytes : 0;
	enum svc_answer answer;
	struct svc_buffer *to;
	struct copy *c;

	if (svc_idmap_find(&s->buffers, m->to))
		return SVC_BROKEN;
	answer = svc_memory_ask(s, bytes);
	if (answer == SVC_LATER)
		return SVC_TAKE_LATER;
	to = svc_new_buffer(s, m->to, bytes);
	if (!to)
		return SVC_BROKEN;
	if (!from) {
		svc_buffer_fail(to, SAL_INVALID_ARGUMENT,
				"copied from a buffer that does not exist");
		return SVC_TAKEN;
	}
	if (answer == SVC_NO) {
		refuse_buffer(s, to);
		return SVC_TAKEN;
	}
	c = malloc(sizeof(*c));
	if (!c)
		return SVC_BROKEN;
	s->promised_bytes += bytes;
	*c = (struct copy){ { .go = copy_start },
			    svc_buffer_ref(from),
			    svc_buffer_ref(to),
			    svc_buffer_is_pending(from) };
	s->waiting_count += c->waited;
	when_started(from, &c->waiter);
	return SVC_TAKEN;
}

/* --- awaiting ------------------------------------------------------------------------------------------- */

struct await {
	struct svc_waiter waiter;
	struct svc_session *session; /* owned reference */
	struct svc_buffer *buffer; /* owned reference, until it has started */
	uint64_t request;
	bool waited;
};

static void await_end(void *ctx, int code, const char *message)
{
	struct await *a = ctx;
	const char *text = message ? message : "";

	svc_outbox_done(&a->session->outbox, a->request, code, code ? text : NULL,
			code ? strnlen(text, SAL_INLINE_MAX) : 0);
	svc_session_unref(a->session);
	free(a);
}

static void await_start(struct svc_waiter *w)
{
	struct await *a = (struct await *)w;
	struct svc_buffer *b = a->buffer;
	struct sal_err err = { 0 };

	a->session->waiting_count -= a->waited;
	if (b->code)
		await_end(a, b->code, b->text);
	else if (b->saved)
		await_end(a, 0, NULL);
	else if (a->session->server->ops->when_ready(b->device, await_end, a, &err) < 0)
		await_end(a, err.code, err.text);
	svc_buffer_unref(b);
}

bool svc_take_await(struct svc_session *s, const struct sal_msg_await *m)
{
	struct svc_buffer *b = svc_idmap_find(&s->buffers, m->id);
	struct await *a;

	if (!b) {
		svc_no_such(s, m->request, "buffer", m->id);
		return true;
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return false;
	a->waiter.go = await_start;
	a->session = svc_session_ref(s);
	a->buffer = svc_buffer_ref(b);
	a->request = m->request;
	a->waited = svc_buffer_is_pending(b);
	s->waiting_count += a->waited;
	when_started(b, &a->waiter);
	return true;
}
