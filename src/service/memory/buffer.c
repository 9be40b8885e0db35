/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "service/client/session.h"
#include "service/ledger.h"
#include "service/memory/freeing.h"
#include "service/memory/host.h"
#include "service/memory/memory.h"
#include "service/real/real.h"
#include "service/server.h"

struct svc_buffer *svc_buffer_create(struct svc_session *s, uint64_t bytes)
{
	struct svc_buffer *b = calloc(1, sizeof(*b));
	struct sal_err err = { 0 };

	if (!b)
		return NULL;
	b->refs = 1;
	b->session = s;
	b->bytes = bytes;
	TAILQ_INSERT_TAIL(&s->all, b, link);
	STAILQ_INIT(&b->waiters);
	if (svc_limit_take(s, SVC_BUFFERS, 1, &err) < 0) {
		b->is_beyond = true;
		s->beyond_count++;
		svc_buffer_fail(b, err.code, err.text);
	}
	return b;
}

struct svc_buffer *svc_buffer_ref(struct svc_buffer *b)
{
	b->refs++;
	return b;
}

static void count(struct svc_buffer *b) SVC_LOCKED
{
	struct svc_session *s = b->session;

	b->counted = true;
	svc_real_count(s, b->bytes, true);
	if (b->is_on_host)
		return;
	s->live_bytes += b->bytes;
	s->charged_bytes += svc_buffer_charge(b);
	svc_told_count(s->server, (int64_t)b->bytes);
	if (s->live_bytes > s->peak_bytes)
		s->peak_bytes = s->live_bytes;
	svc_memory_publish(s);
}

static void uncount(struct svc_buffer *b) SVC_LOCKED
{
	svc_host_leave(b);
	if (!b->counted)
		return;
	b->counted = false;
	svc_real_count(b->session, b->bytes, false);
	if (b->is_on_host)
		return;
	b->session->live_bytes -= b->bytes;
	b->session->charged_bytes -= svc_buffer_charge(b);
	svc_memory_publish(b->session);
}

void svc_buffer_donate(struct svc_buffer *b)
{
	if (b->counted && !b->is_on_host)
		svc_told_count(b->session->server, -(int64_t)b->bytes);
	uncount(b);
}

void svc_buffer_destroy(struct svc_buffer *b)
{
	uncount(b);
	if (b->is_beyond)
		b->session->beyond_count--;
	else
		svc_limit_give(b->session, SVC_BUFFERS, 1);
	free(b->text);
	free(b);
}

void svc_buffer_unref(struct svc_buffer *b)
{
	struct svc_session *s;

	if (!b || --b->refs > 0)
		return;
	s = b->session;
	svc_assert_locked(s->server);
	TAILQ_REMOVE(&s->all, b, link);
	if (!b->device && !b->saved) {
		svc_buffer_destroy(b);
		return;
	}
	svc_host_leave(b); /* its owner may use the limit again */
	TAILQ_INSERT_TAIL(&s->trash, b, link);
	s->freeing_bytes += svc_buffer_held(b);
	svc_freeing_post(s);
}

/*
 * All waiters continue. Each holds its own reference. A waiter that continues may settle another
 * buffer, whose waiters then continue, too. They join the queue, so that the calls do not nest.
 */
static void release_waiters(struct svc_buffer *b)
{
	struct svc_server *server = b->session->server;
	struct svc_waiter *w;

	STAILQ_CONCAT(&server->ready, &b->waiters);
	if (server->releasing)
		return;
	server->releasing = true;
	while ((w = STAILQ_FIRST(&server->ready))) {
		STAILQ_REMOVE_HEAD(&server->ready, link);
		w->go(w);
	}
	server->releasing = false;
}

void svc_buffer_wait(struct svc_buffer *b, struct svc_waiter *w)
{
	if (svc_buffer_is_pending(b))
		STAILQ_INSERT_TAIL(&b->waiters, w, link);
	else
		w->go(w);
}

void svc_buffer_set(struct svc_buffer *b, struct sal_buffer *take_device, uint32_t stream)
{
	svc_assert_locked(b->session->server);
	SAL_ASSERT(!b->device && !b->saved);
	b->device = take_device;
	b->stream = stream;
	count(b);
	release_waiters(b);
}

void svc_buffer_come(struct svc_buffer *b)
{
	svc_assert_locked(b->session->server);
	b->is_coming = true;
	release_waiters(b);
}

void svc_buffer_fail(struct svc_buffer *b, int code, const char *text)
{
	svc_assert_locked(b->session->server);
	b->code = code < 0 ? -code : code;
	free(b->text);
	b->text = strdup(text ? text : "");
	svc_host_leave(b);
	release_waiters(b);
}
