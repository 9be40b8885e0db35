/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/freeing.h"

#include "base/container.h"
#include "service/client/session.h"
#include "service/idmap.h"
#include "service/memory/buffer.h"
#include "service/memory/memory.h"
#include "service/memory/program.h"
#include "service/run/carrier.h"
#include "service/run/closing.h"
#include "service/server.h"

/* Freeing this many bytes takes little time. */
#define BRIEF_BYTES (UINT64_C(8) << 20)
/* Buffers that one errand frees. */
#define BATCH_MAX 1024

static struct svc_session *session_of(struct svc_errand *errand)
{
	return SAL_CONTAINER_OF(errand, struct svc_session, freeing.errand);
}

/* Drop the references in the maps of a closing session, some at a time. */
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
		s->freeing_bytes -= svc_buffer_held(b);
		svc_buffer_destroy(b);
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
	s->freeing.errand = (struct svc_errand){
		.begin = begin,
		.call = call,
		.settle = settle,
		.can_wait = true, /* the bytes count until they are free */
	};
}

void svc_freeing_post(struct svc_session *s)
{
	/* Set this also if the errand is already posted: the trash may have grown. */
	s->freeing.errand.is_brief = s->state == SVC_OPEN && s->freeing_bytes <= BRIEF_BYTES;
	if (s->freeing.is_posted)
		return;
	s->freeing.is_posted = true;
	svc_errand_post(s, &s->freeing.errand);
}
