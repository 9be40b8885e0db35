/* SPDX-License-Identifier: Apache-2.0 */
#include "service/client/upload.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "core/view.h"
#include "service/client/intake.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/idmap.h"
#include "service/memory/again.h"
#include "service/memory/buffer.h"
#include "service/memory/host.h"
#include "service/memory/memory.h"
#include "service/run/attend.h"
#include "service/run/carrier.h"
#include "service/server.h"

/*
 * An array on its way to the device. The bytes are in `data`, or in the arena, where the vendor
 * reads them in place.
 */
struct upload {
	struct svc_errand errand;
	struct svc_session *session; /* owned reference, if the bytes are in the arena */
	struct svc_buffer *buffer; /* owned reference, until the errand is settled */
	struct sal_place_in_arena from; /* size 0: the bytes are in data */
	const void *at;
	uint32_t stream;
	struct sal_array array;
	struct sal_buffer *device;
	int code;
	struct sal_err err;
	_Atomic int refs; /* of the errand, and of the vendor while it uses the arena */
	int64_t dims[SAL_RANK_MAX];
	unsigned char data[];
};

static void upload_unref(struct upload *u)
{
	if (atomic_fetch_sub(&u->refs, 1) > 1)
		return;
	svc_session_unref(u->session);
	free(u);
}

static void on_released(void *ctx, int code, const char *message)
{
	struct upload *u = ctx;

	(void)code;
	(void)message;
	(void)atomic_fetch_sub(&u->session->server->arena_bytes, u->from.size);
	svc_outbox_released(&u->session->outbox, &u->from);
	upload_unref(u);
}

static bool size_adds_up(const struct sal_msg_upload *m, const int64_t *dims)
{
	uint64_t bytes = sal_type_bytes(m->type);
	bool is_empty = false;
	uint32_t i;

	if (bytes == 0)
		return false;
	for (i = 0; i < m->rank; i++) {
		if (dims[i] < 0)
			return false;
		is_empty |= dims[i] == 0;
		if (dims[i] > 0 && __builtin_mul_overflow(bytes, (uint64_t)dims[i], &bytes))
			return false;
	}
	return (is_empty ? 0 : bytes) == m->size;
}

/* New buffers go to the session's stream, if it is open. Buffers change streams when used. */
static uint32_t open_stream(struct svc_session *s) SVC_LOCKED
{
	uint32_t stream = svc_stream_home(s);

	return atomic_load(&s->server->streams[stream].device) ? stream : svc_stream_first(s);
}

/* In which memory of its device the client wants the buffer. */
static uint32_t memory_of(const struct svc_session *s, const struct sal_header *h)
{
	return s->names_memories ? h->memory : 0;
}

/* The device's memory that a buffer on its way will take. */
static uint64_t promise_of(const struct svc_buffer *b)
{
	return b->is_on_host ? 0 : svc_buffer_charge(b);
}

/* There is never room for a buffer: the text has the numbers. */
static void explain_refusal(struct svc_session *s, struct sal_err *err) SVC_LOCKED
{
	char text[1000];

	svc_memory_explain(s, &s->refusal, text, sizeof(text));
	(void)sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "%s", text);
}

static void upload_call(struct svc_errand *errand)
{
	struct upload *u = (struct upload *)errand;
	struct svc_server *server = u->session->server;
	struct sal_stream *chip = svc_stream_chip(server, u->stream, u->buffer->chip);
	bool is_aliased = u->from.size > 0;
	struct svc_again again = { 0 };

	if (is_aliased) {
		(void)atomic_fetch_add(&u->refs, 1);
		(void)atomic_fetch_add(&server->arena_bytes, u->from.size);
	}
	svc_told_await(server, u->buffer->bytes);
	do
		u->code = svc_vendor(server)->upload(
			chip, &u->array, u->at, is_aliased ? SAL_UPLOAD_ALIAS : SAL_UPLOAD_COPY,
			is_aliased ? on_released : NULL, u, &u->device, &u->err);
	while (svc_again(&again, u->session, u->code));
	if (u->code < 0 && is_aliased)
		on_released(u, 0, NULL);
}

static void upload_settle(struct svc_errand *errand) SVC_LOCKED
{
	struct upload *u = (struct upload *)errand;
	struct svc_session *s = u->session;

	s->promised_bytes -= promise_of(u->buffer);
	svc_waiting_end(s);
	if (u->code < 0)
		svc_buffer_fail(u->buffer, u->err.code, u->err.text);
	else
		svc_buffer_set(u->buffer, u->device, u->stream);
	svc_told_arrived(s->server, u->buffer->bytes);
	svc_buffer_unref(u->buffer);
	svc_memory_settle(s);
	upload_unref(u);
}

/* There is room for the buffer: post the errand that uploads the bytes. */
static enum svc_taken upload_post(struct svc_session *s, const struct sal_msg_upload *m,
				  struct svc_buffer *b) SVC_LOCKED
{
	const int64_t *dims = (const int64_t *)(m + 1);
	size_t tail = m->from.size > 0 ? 0 : (size_t)m->size;
	struct upload *u = malloc(sizeof(*u) + tail + 1);

	if (!u)
		return SVC_NO_MEMORY;
	memset(u, 0, sizeof(*u));
	u->errand.call = upload_call;
	u->errand.settle = upload_settle;
	u->errand.is_brief = m->from.size > 0 || m->size <= SVC_BRIEF_BYTES;
	u->session = svc_session_ref(s);
	u->buffer = svc_buffer_ref(b);
	u->from = m->from;
	u->at = m->from.size > 0 ? svc_session_place(s, &m->from) : u->data;
	u->stream = open_stream(s);
	memcpy(u->dims, dims, m->rank * sizeof(*dims));
	u->array = (struct sal_array){
		.type = m->type,
		.rank = m->rank,
		.dims = u->dims,
		.memory = memory_of(s, &m->header),
	};
	if (tail > 0)
		memcpy(u->data, dims + m->rank, tail);
	atomic_init(&u->refs, 1);
	s->promised_bytes += promise_of(b);
	svc_waiting_begin(s);
	svc_errand_post(s, &u->errand);
	svc_buffer_come(b);
	return SVC_TAKEN;
}

enum svc_taken svc_take_upload(struct svc_session *s, const struct sal_msg_upload *m)
{
	const int64_t *dims = (const int64_t *)(m + 1);
	struct sal_err err = { 0 };
	bool is_on_host = svc_host_is(s->server, memory_of(s, &m->header));
	enum svc_answer answer;
	struct svc_buffer *b;
	enum svc_taken taken;

	if ((m->from.size > 0 && !svc_session_place(s, &m->from)) || !size_adds_up(m, dims) ||
	    svc_idmap_find(&s->buffers, m->id) || m->header.device >= s->devices ||
	    !svc_host_knows(s->server, memory_of(s, &m->header)))
		return SVC_BROKEN;
	answer = is_on_host ? SVC_YES : svc_memory_ask(s, svc_bytes_charge(m->size));
	if (answer == SVC_LATER)
		return SVC_TAKE_LATER;
	taken = svc_new_buffer(s, m->id, m->size, &b);
	if (taken != SVC_TAKEN)
		return taken;
	b->chip = m->header.device;
	if (is_on_host)
		svc_host_enter(b);
	if (answer == SVC_YES && b->code == 0)
		return upload_post(s, m, b);
	if (b->code == 0) {
		explain_refusal(s, &err);
		svc_buffer_fail(b, err.code, err.text);
	}
	if (m->from.size > 0)
		svc_outbox_released(&s->outbox, &m->from);
	return SVC_TAKEN;
}

struct copy {
	struct svc_waiter waiter;
	struct svc_errand errand;
	struct svc_buffer *from, *to; /* owned references */
	struct sal_buffer *device;
	uint32_t memory; /* of the target's chip */
	bool has_room; /* the session's promised bytes contain the copy */
	struct sal_err err; /* from the start: there is no room */
};

static struct copy *copy_of(struct svc_errand *errand)
{
	return SAL_CONTAINER_OF(errand, struct copy, errand);
}

static void on_copied(void *ctx, int code, const char *message)
{
	struct svc_session *s = ctx;

	(void)code;
	(void)message;
	(void)atomic_fetch_sub(&s->reads, 1);
	svc_session_unref(s);
}

static int copy_on_device(struct copy *c)
{
	const struct svc_server *server = c->from->session->server;
	const struct sal_device_ops *vendor = svc_vendor(server);

	if (c->to->chip == c->from->chip)
		return vendor->copy(c->from->device, c->memory, &c->device, &c->err);
	return vendor->copy_to(c->from->device,
			       svc_stream_chip(server, c->from->stream, c->to->chip), c->memory,
			       &c->device, &c->err);
}

static void copy_call(struct svc_errand *errand)
{
	struct copy *c = copy_of(errand);
	struct svc_session *s = c->from->session;
	const struct sal_device_ops *vendor = svc_vendor(s->server);
	struct svc_again again = { 0 };
	int rc;

	svc_told_await(s->server, c->to->bytes);
	if (c->from->code || (c->has_room && !svc_buffer_is_resident(c->from)))
		(void)sal_err_set(&c->err, c->from->code ? c->from->code : SAL_INTERNAL, "%s",
				  c->from->text ? c->from->text : "its source is paged out");
	if (c->err.code)
		return;
	do
		rc = copy_on_device(c);
	while (svc_again(&again, s, rc));
	if (rc < 0)
		return;
	c->err = (struct sal_err){ 0 };
	(void)atomic_fetch_add(&s->reads, 1);
	if (vendor->when_ready(c->device, on_copied, svc_session_ref(s), NULL) < 0)
		on_copied(s, 0, NULL);
}

static void copy_settle(struct svc_errand *errand) SVC_LOCKED
{
	struct copy *c = copy_of(errand);
	struct svc_session *s = c->from->session;

	if (c->has_room)
		s->promised_bytes -= promise_of(c->to);
	svc_waiting_end(s);
	if (c->err.code)
		svc_buffer_fail(c->to, c->err.code, c->err.text);
	else
		svc_buffer_set(c->to, c->device, c->from->stream);
	svc_told_arrived(s->server, c->to->bytes);
	svc_buffer_unref(c->from);
	svc_buffer_unref(c->to);
	free(c);
	svc_memory_settle(s);
}

static void copy_start(struct svc_waiter *w) SVC_LOCKED
{
	struct copy *c = (struct copy *)w;

	svc_errand_post(c->from->session, &c->errand);
	svc_buffer_come(c->to);
}

/*
 * A copy without room waits for its source, too: if the source fails, the user has to know that
 * reason.
 */
static enum svc_taken copy_post(struct svc_session *s, const struct sal_msg_copy *m,
				struct svc_buffer *from, struct svc_buffer *to,
				bool has_room) SVC_LOCKED
{
	struct copy *c = calloc(1, sizeof(*c));

	if (!c)
		return SVC_NO_MEMORY;
	c->waiter.go = copy_start;
	c->errand = (struct svc_errand){ .call = copy_call,
					 .settle = copy_settle,
					 .is_brief = from->bytes <= SVC_BRIEF_BYTES };
	c->from = svc_buffer_ref(from);
	c->to = svc_buffer_ref(to);
	c->memory = memory_of(s, &m->header);
	c->has_room = has_room;
	if (has_room)
		s->promised_bytes += promise_of(to);
	else
		explain_refusal(s, &c->err);
	svc_waiting_begin(s);
	svc_buffer_wait(from, &c->waiter);
	return SVC_TAKEN;
}

enum svc_taken svc_take_copy(struct svc_session *s, const struct sal_msg_copy *m)
{
	struct svc_buffer *from = svc_idmap_find(&s->buffers, m->from);
	uint64_t bytes = from ? from->bytes : 0;
	bool is_on_host = svc_host_is(s->server, memory_of(s, &m->header));
	enum svc_answer answer;
	struct svc_buffer *to;
	enum svc_taken taken;

	if (svc_idmap_find(&s->buffers, m->to) || m->header.device >= s->devices ||
	    !svc_host_knows(s->server, memory_of(s, &m->header)))
		return SVC_BROKEN;
	if (from && from->code)
		answer = SVC_NO; /* it needs no room */
	else
		answer = svc_memory_ask(s, is_on_host ? 0 : svc_bytes_charge(bytes));
	if (answer == SVC_LATER)
		return SVC_TAKE_LATER;
	taken = svc_new_buffer(s, m->to, bytes, &to);
	if (taken != SVC_TAKEN)
		return taken;
	to->chip = m->header.device;
	if (is_on_host)
		svc_host_enter(to);
	if (to->code)
		return taken;
	if (!from)
		svc_buffer_fail(to, SAL_INVALID_ARGUMENT,
				"copied from a buffer that does not exist");
	else if (from->code)
		svc_buffer_fail(to, from->code, from->text);
	else
		return copy_post(s, m, from, to, answer == SVC_YES);
	return SVC_TAKEN;
}
