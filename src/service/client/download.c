/* SPDX-License-Identifier: Apache-2.0 */
#include "service/client/download.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "heap/heap.h"
#include "service/client/intake.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/idmap.h"
#include "service/memory/buffer.h"
#include "service/run/attend.h"
#include "service/run/carrier.h"
#include "service/run/dispatch.h"
#include "service/server.h"

/*
 * Downloads up to this size wait for the iteration's end. Then the thread that carries the session
 * copies them. A vendor's thread would be slower.
 */
#define SMALL_BYTES_MAX 65536
/* The vendor gets so many downloads of a session at once. Others wait for the iteration's end. */
#define READS_MAX 64

struct download {
	struct svc_waiter waiter;
	struct svc_errand errand;
	_Atomic int refs; /* the errand's, and the answer's */
	struct svc_session *session; /* owned reference */
	struct svc_buffer *buffer; /* owned reference, until the errand is settled */
	uint64_t request, size;
	void *into; /* in the arena; NULL: the bytes go into the completion */
	void *bytes; /* owned; the bytes, if `into` is NULL */
	int code; /* of the answer */
	char *text; /* owned; of a failure */
};

static struct download *download_of(struct svc_errand *errand)
{
	return SAL_CONTAINER_OF(errand, struct download, errand);
}

/*
 * The client gets its answer when the errand has dropped the buffer, too. Then the memory of a
 * buffer that the client deletes after the answer counts as being freed at once, and the client's
 * next request waits for it.
 */
static void download_unref(struct download *d)
{
	if (atomic_fetch_sub(&d->refs, 1) > 1)
		return;
	if (d->code)
		svc_outbox_done(&d->session->outbox, d->request, d->code, d->text ? d->text : "",
				d->text ? strlen(d->text) : 0);
	else
		svc_outbox_done(&d->session->outbox, d->request, 0, d->into ? NULL : d->bytes,
				d->into ? 0 : (size_t)d->size);
	svc_session_unref(d->session);
	free(d->bytes);
	free(d->text);
	free(d);
}

static void download_answer(struct download *d, int code, const char *text)
{
	d->code = code;
	if (code)
		d->text = strndup(text, SAL_TEXT_MAX);
	download_unref(d);
}

static void download_settle(struct svc_errand *errand) SVC_LOCKED
{
	struct download *d = download_of(errand);

	svc_waiting_end(d->session);
	svc_buffer_unref(d->buffer);
	download_unref(d);
}

static void on_downloaded(void *ctx, int code, const char *message)
{
	struct download *d = ctx;

	(void)atomic_fetch_sub(&d->session->reads, 1);
	download_answer(d, code, message ? message : "");
}

/* A failed buffer has no bytes: answer with the reason. */
static bool download_begin(struct svc_errand *errand) SVC_LOCKED
{
	struct download *d = download_of(errand);
	const struct svc_buffer *b = d->buffer;

	if (b->device || b->saved)
		return true;
	download_answer(d, b->code ? b->code : SAL_INTERNAL, b->text ? b->text : "");
	/* The answer dropped its own reference, not this one. */
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
	download_settle(errand);
	return false;
}

static int read_saved(struct download *d, struct sal_err *err)
{
	struct sal_text saved = svc_vendor(d->session->server)->saved_bytes(d->buffer->saved);

	if (saved.size != d->size)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "a buffer of another size");
	if (d->size > 0)
		memcpy(d->into ? d->into : d->bytes, saved.at, saved.size);
	return SAL_OK;
}

static int read_device(struct download *d, struct sal_err *err)
{
	int rc;

	(void)atomic_fetch_add(&d->session->reads, 1);
	rc = svc_vendor(d->session->server)
		     ->download(d->buffer->device, d->into ? d->into : d->bytes, (size_t)d->size,
				on_downloaded, d, err);
	if (rc < 0)
		(void)atomic_fetch_sub(&d->session->reads, 1);
	return rc;
}

static void download_call(struct svc_errand *errand)
{
	struct download *d = download_of(errand);
	bool is_saved = d->buffer->saved != NULL;
	struct sal_err err = { 0 };
	int rc;

	if (!d->into)
		d->bytes = malloc((size_t)d->size + 1);
	if (!d->into && !d->bytes)
		rc = sal_err_set(&err, SAL_RESOURCE_EXHAUSTED, "salusd: out of host memory");
	else
		rc = is_saved ? read_saved(d, &err) : read_device(d, &err);
	if (rc < 0)
		download_answer(d, err.code, err.text);
	else if (is_saved)
		download_answer(d, 0, NULL);
}

/* The buffer is not pending any more. */
static void download_start(struct svc_waiter *w) SVC_LOCKED
{
	struct download *d = (struct download *)w;
	struct svc_execution *producer = d->buffer->producer;

	if (producer &&
	    (d->size <= SMALL_BYTES_MAX || atomic_load(&d->session->reads) >= READS_MAX)) {
		STAILQ_INSERT_TAIL(&producer->waiters, w, link);
		return;
	}
	svc_errand_post(d->session, &d->errand);
}

enum svc_taken svc_take_download(struct svc_session *s, const struct sal_msg_download *m)
{
	struct svc_buffer *b = svc_idmap_find(&s->buffers, m->id);
	struct download *d;

	if (m->into.size > 0 && !svc_session_place(s, &m->into))
		return SVC_BROKEN;
	if (!b) {
		svc_not_found(s, m->request, "buffer", m->id);
		return SVC_TAKEN;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return SVC_NO_MEMORY;
	d->waiter.go = download_start;
	d->errand = (struct svc_errand){ .begin = download_begin,
					 .call = download_call,
					 .settle = download_settle,
					 .is_brief = m->size <= SVC_BRIEF_BYTES };
	atomic_init(&d->refs, 2);
	d->session = svc_session_ref(s);
	d->buffer = svc_buffer_ref(b);
	d->request = m->request;
	d->size = m->size;
	d->into = m->into.size > 0 ? svc_session_place(s, &m->into) : NULL;
	svc_waiting_begin(s);
	svc_buffer_wait(b, &d->waiter);
	return SVC_TAKEN;
}

struct await {
	struct svc_waiter waiter;
	struct svc_errand errand;
	_Atomic int refs; /* the errand's, and the answer's */
	struct svc_session *session; /* owned reference */
	struct svc_buffer *buffer; /* owned reference, until the errand is settled */
	uint64_t request;
	int code; /* of the answer */
	char *text; /* owned; of a failure */
};

static struct await *await_of(struct svc_errand *errand)
{
	return SAL_CONTAINER_OF(errand, struct await, errand);
}

/* The answer comes when the errand has dropped the buffer, as that of a download. */
static void await_unref(struct await *a)
{
	if (atomic_fetch_sub(&a->refs, 1) > 1)
		return;
	svc_outbox_done(&a->session->outbox, a->request, a->code, a->text,
			a->text ? strlen(a->text) : 0);
	svc_session_unref(a->session);
	free(a->text);
	free(a);
}

static void await_answer(void *ctx, int code, const char *message)
{
	struct await *a = ctx;

	a->code = code;
	if (code)
		a->text = strndup(message ? message : "", SAL_TEXT_MAX);
	await_unref(a);
}

static void await_settle(struct svc_errand *errand) SVC_LOCKED
{
	struct await *a = await_of(errand);

	svc_waiting_end(a->session);
	svc_buffer_unref(a->buffer);
	await_unref(a);
}

static bool await_begin(struct svc_errand *errand) SVC_LOCKED
{
	struct await *a = await_of(errand);
	const struct svc_buffer *b = a->buffer;

	if (svc_buffer_is_resident(b))
		return true;
	await_answer(a, b->saved ? 0 : b->code, b->text);
	/* The answer dropped its own reference, not this one. */
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
	await_settle(errand);
	return false;
}

static void await_call(struct svc_errand *errand)
{
	struct await *a = await_of(errand);
	struct sal_err err = { 0 };

	if (svc_vendor(a->session->server)->when_ready(a->buffer->device, await_answer, a, &err) <
	    0)
		await_answer(a, err.code, err.text);
}

static void await_start(struct svc_waiter *w) SVC_LOCKED
{
	struct await *a = (struct await *)w;
	struct svc_execution *producer = a->buffer->producer;

	if (producer)
		STAILQ_INSERT_TAIL(&producer->waiters, w, link);
	else
		svc_errand_post(a->session, &a->errand);
}

enum svc_taken svc_take_await(struct svc_session *s, const struct sal_msg_await *m)
{
	struct svc_buffer *b = svc_idmap_find(&s->buffers, m->id);
	struct await *a;

	if (!b) {
		svc_not_found(s, m->request, "buffer", m->id);
		return SVC_TAKEN;
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return SVC_NO_MEMORY;
	a->waiter.go = await_start;
	a->errand = (struct svc_errand){
		.begin = await_begin, .call = await_call, .settle = await_settle, .is_brief = true
	};
	atomic_init(&a->refs, 2);
	a->session = svc_session_ref(s);
	a->buffer = svc_buffer_ref(b);
	a->request = m->request;
	svc_waiting_begin(s);
	svc_buffer_wait(b, &a->waiter);
	return SVC_TAKEN;
}

struct expose {
	struct svc_waiter waiter;
	struct svc_errand errand;
	struct svc_session *session; /* owned reference */
	struct svc_buffer *buffer; /* owned reference, until the errand is settled */
	uint64_t request;
	struct sal_exposed_place place; /* the answer */
};

static struct expose *expose_of(struct svc_errand *errand)
{
	return SAL_CONTAINER_OF(errand, struct expose, errand);
}

static void see(void *bytes, size_t size, void *ctx)
{
	struct expose *x = ctx;
	struct sal_heap_exposed found;

	if (sal_heap_expose(bytes, x->session->real.meter, &found) && found.bytes >= size)
		x->place = (struct sal_exposed_place){ found.number, found.bytes };
}

static void expose_settle(struct svc_errand *errand) SVC_LOCKED
{
	struct expose *x = expose_of(errand);
	const struct svc_buffer *b = x->buffer;
	int code = b->device || b->saved ? 0 : b->code ? b->code : SAL_INTERNAL;
	const char *text = b->text ? b->text : "";

	if (code)
		svc_outbox_done(&x->session->outbox, x->request, code, text,
				strnlen(text, SAL_TEXT_MAX));
	else
		svc_outbox_done(&x->session->outbox, x->request, 0, &x->place, sizeof(x->place));
	svc_waiting_end(x->session);
	svc_buffer_unref(x->buffer);
	svc_session_unref(x->session);
	free(x);
}

/* A failed buffer has no bytes. A paged-out one is read from its copy. */
static bool expose_begin(struct svc_errand *errand) SVC_LOCKED
{
	if (svc_buffer_is_resident(expose_of(errand)->buffer))
		return true;
	expose_settle(errand);
	return false;
}

static void expose_call(struct svc_errand *errand)
{
	struct expose *x = expose_of(errand);
	const struct sal_device_ops *ops = svc_vendor(x->session->server);

	if (ops->reach)
		(void)ops->reach(x->buffer->device, see, x);
}

static void expose_start(struct svc_waiter *w) SVC_LOCKED
{
	struct expose *x = (struct expose *)w;
	struct svc_execution *producer = x->buffer->producer;

	if (producer)
		STAILQ_INSERT_TAIL(&producer->waiters, w, link);
	else
		svc_errand_post(x->session, &x->errand);
}

enum svc_taken svc_take_expose(struct svc_session *s, const struct sal_msg_expose *m)
{
	struct svc_buffer *b = svc_idmap_find(&s->buffers, m->id);
	struct expose *x;

	if (!b) {
		svc_not_found(s, m->request, "buffer", m->id);
		return SVC_TAKEN;
	}
	x = calloc(1, sizeof(*x));
	if (!x)
		return SVC_NO_MEMORY;
	x->waiter.go = expose_start;
	x->errand = (struct svc_errand){ .begin = expose_begin,
					 .call = expose_call,
					 .settle = expose_settle,
					 .is_brief = true };
	x->session = svc_session_ref(s);
	x->buffer = svc_buffer_ref(b);
	x->request = m->request;
	svc_waiting_begin(s);
	svc_buffer_wait(b, &x->waiter);
	return SVC_TAKEN;
}
