/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service.h"

#include <stdlib.h>
#include <string.h>

struct svc_buffer *svc_buffer_create(struct svc_session *s, uint64_t bytes)
{
	struct svc_buffer *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->refs = 1;
	b->session = s;
	b->bytes = bytes;
	TAILQ_INSERT_TAIL(&s->all, b, link);
	STAILQ_INIT(&b->waiters);
	return b;
}

struct svc_buffer *svc_buffer_ref(struct svc_buffer *b)
{
	b->refs++;
	return b;
}

static void uncount(struct svc_buffer *b)
{
	if (!b->counted)
		return;
	b->counted = false;
	b->session->live_bytes -= b->bytes;
	svc_memory_publish(b->session);
}

void svc_buffer_donate(struct svc_buffer *b)
{
	uncount(b);
}

void svc_buffer_unref(struct svc_buffer *b)
{
	if (!b || --b->refs > 0)
		return;
	TAILQ_REMOVE(&b->session->all, b, link);
	uncount(b);
	b->session->server->ops->free_buffer(b->device);
	b->session->server->ops->free_saved(b->saved);
	free(b->text);
	free(b);
}

/*
 * Everyone who waited may go on; each holds a reference of its own. Going on may settle further buffers, and
 * those more: they queue up here instead of calling each other.
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

void svc_buffer_set(struct svc_buffer *b, struct sal_buffer *take_device, uint32_t lane)
{
	struct svc_session *s = b->session;

	b->device = take_device;
	b->lane = lane;
	b->counted = true;
	s->live_bytes += b->bytes;
	if (s->live_bytes > s->peak_bytes)
		s->peak_bytes = s->live_bytes;
	svc_memory_publish(s);
	release_waiters(b);
}

void svc_buffer_fail(struct svc_buffer *b, int code, const char *text)
{
	b->code = code < 0 ? -code : code;
	free(b->text);
	b->text = strdup(text ? text : "");
	release_waiters(b);
}
