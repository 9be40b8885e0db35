/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service.h"

#include <stdlib.h>
#include <string.h>

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

static void uncount(struct svc_buffer *b) SVC_LOCKED
{
	if (!b->counted)
		return;
	b->counted = false;
	b->session->live_bytes -= b->bytes;
	b->session->charged_bytes -= svc_buffer_charge(b);
	svc_memory_publish(b->session);
}

void svc_buffer_donate(struct svc_buffer *b)
{
	uncount(b);
}

static void destroy(struct svc_buffer *b) SVC_LOCKED
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
		destroy(b);
		return;
	}
	TAILQ_INSERT_TAIL(&s->trash, b, link);
	if (b->counted)
		s->freeing_bytes += svc_buffer_charge(b);
	svc_freeing_post(s);
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

	svc_assert_locked(s->server);
	SAL_ASSERT(!b->device && !b->saved);
	b->device = take_device;
	b->lane = lane;
	b->counted = true;
	s->live_bytes += b->bytes;
	s->charged_bytes += svc_buffer_charge(b);
	if (s->live_bytes > s->peak_bytes)
		s->peak_bytes = s->live_bytes;
	svc_memory_publish(s);
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
	release_waiters(b);
}

/* --- freeing ------------------------------------------------------------------------------------------ */

/* Freeing up to this takes little time. */
#define BRIEF_BYTES (UINT64_C(8) << 20)
/* In one errand. */
#define BATCH_MAX 1024

static struct svc_session *session_of(struct svc_errand *errand)
{
	return (struct svc_session *)((char *)errand -
				      offsetof(struct svc_session, freeing.errand));
}

/* A closing session gives up everything it has, some at a time. */
static void empty_maps(struct svc_session *s) SVC_LOCKED
{
	uint32_t n;

	for (n = 0; n < BATCH_MAX; n++) {
		struct svc_buffer *b = svc_idmap_pop(&s->buffers);
		struct svc_program *p = svc_idmap_pop(&s->programs);

		if (!b && !p)
			return;
		svc_buffer_unref(b);
		svc_program_unref(p);
	}
}

static bool begin(struct svc_errand *errand) SVC_LOCKED
{
	struct svc_session *s = session_of(errand);
	struct svc_buffer *b;
	uint32_t n;

	if (s->state != SVC_OPEN) {
		s->freeing.has_queued = svc_session_release_queued(s);
		empty_maps(s);
	}
	for (n = 0; n < BATCH_MAX && (b = TAILQ_FIRST(&s->trash)); n++) {
		TAILQ_REMOVE(&s->trash, b, link);
		TAILQ_INSERT_TAIL(&s->freeing.batch, b, link);
	}
	STAILQ_CONCAT(&s->freeing.programs, &s->trash_programs);
	return true;
}

static void call(struct svc_errand *errand)
{
	struct svc_session *s = session_of(errand);
	const struct sal_device_ops *vendor = svc_vendor(s->server);
	struct svc_buffer *b;
	struct svc_program *p;

	TAILQ_FOREACH(b, &s->freeing.batch, link) {
		vendor->free_buffer(b->device);
		vendor->free_saved(b->saved);
	}
	STAILQ_FOREACH(p, &s->freeing.programs, trash_link)
		vendor->unload(p->loaded);
}

static bool is_left(const struct svc_session *s)
{
	return !TAILQ_EMPTY(&s->trash) || !STAILQ_EMPTY(&s->trash_programs) ||
	       (s->state != SVC_OPEN &&
		(s->buffers.count > 0 || s->programs.count > 0 || s->freeing.has_queued));
}

static void settle(struct svc_errand *errand) SVC_LOCKED
{
	struct svc_session *s = session_of(errand);
	struct svc_buffer *b;
	struct svc_program *p;

	while ((b = TAILQ_FIRST(&s->freeing.batch))) {
		TAILQ_REMOVE(&s->freeing.batch, b, link);
		if (b->counted)
			s->freeing_bytes -= svc_buffer_charge(b);
		destroy(b);
	}
	while ((p = STAILQ_FIRST(&s->freeing.programs))) {
		STAILQ_REMOVE_HEAD(&s->freeing.programs, trash_link);
		svc_program_destroy(p);
	}
	s->freeing.is_posted = false;
	if (is_left(s))
		svc_freeing_post(s);
	svc_memory_settle(s);
}

void svc_freeing_init(struct svc_session *s)
{
	TAILQ_INIT(&s->trash);
	STAILQ_INIT(&s->trash_programs);
	TAILQ_INIT(&s->freeing.batch);
	STAILQ_INIT(&s->freeing.programs);
	s->freeing.errand = (struct svc_errand){ .begin = begin, .call = call, .settle = settle };
}

void svc_freeing_post(struct svc_session *s)
{
	/* Also if it is among the errands already: the trash may have grown. */
	s->freeing.errand.is_brief = s->state == SVC_OPEN && s->freeing_bytes <= BRIEF_BYTES;
	if (s->freeing.is_posted)
		return;
	s->freeing.is_posted = true;
	svc_errand_post(s, &s->freeing.errand);
}
