/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/program.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "compile/store/image.h"
#include "core/view.h"
#include "service/client/session.h"
#include "service/idmap.h"
#include "service/ledger.h"
#include "service/memory/again.h"
#include "service/memory/freeing.h"
#include "service/memory/stream.h"
#include "service/real/margin.h"
#include "service/run/carrier.h"
#include "service/server.h"
#include "wire/facts.h"

void svc_program_forget(struct svc_shared_program *p)
{
	if (!p)
		return;
	free(p->facts);
	sal_image_unref(p->image);
	free(p);
}

/* The key is a hash: any part is as good as another. */
static uint64_t id_of(const uint8_t *key)
{
	uint64_t id;

	memcpy(&id, key, sizeof(id));
	return id;
}

struct svc_shared_program *svc_program_describe(struct sal_image *take_image)
{
	struct svc_shared_program *p = calloc(1, sizeof(*p));

	if (!p || sal_program_facts_unpack(take_image->facts.at, take_image->facts.size, &p->facts,
					   NULL) < 0) {
		sal_image_unref(take_image);
		free(p);
		return NULL;
	}
	p->refs = 1;
	p->image = take_image;
	p->kinds = svc_margin_scan(take_image->optimized);
	p->id = id_of(take_image->key);
	return p;
}

struct svc_shared_program *svc_shared_program_find(const struct svc_server *server,
						   const uint8_t *key)
{
	struct svc_shared_program *p = svc_idmap_find(&server->programs, id_of(key));

	return p && memcmp(p->image->key, key, SAL_PROGRAM_KEY_BYTES) == 0 ? p : NULL;
}

/* Return the description that other sessions share already, or else this one. */
static struct svc_shared_program *share(struct svc_server *server,
					struct svc_shared_program *take) SVC_LOCKED
{
	struct svc_shared_program *p = svc_shared_program_find(server, take->image->key);

	if (p) {
		p->refs++;
		svc_program_forget(take);
		return p;
	}
	if (!svc_idmap_add(&server->programs, take->id, take))
		take->id = 0; /* the session does not share this description */
	take->number = ++server->program_count;
	return take;
}

struct svc_shared_program *svc_shared_program_ref(struct svc_shared_program *p)
{
	p->refs++;
	return p;
}

void svc_shared_program_unref(struct svc_server *server, struct svc_shared_program *p)
{
	if (!p || --p->refs > 0)
		return;
	if (p->id)
		(void)svc_idmap_remove(&server->programs, p->id);
	svc_program_forget(p);
}

struct svc_program *svc_program_create(struct svc_session *s,
				       struct svc_shared_program *take_described)
{
	struct svc_program *p = calloc(1, sizeof(*p));

	svc_assert_locked(s->server);
	if (!p) {
		svc_program_forget(take_described);
		return NULL;
	}
	p->refs = 1;
	p->session = s;
	p->shared = share(s->server, take_described);
	p->mean_ns = p->shared->mean_ns;
	svc_lengths_init(&p->lengths);
	return p;
}

struct svc_program *svc_program_ref(struct svc_program *p)
{
	p->refs++;
	return p;
}

void svc_program_destroy(struct svc_program *p)
{
	svc_shared_program_unref(p->session->server, p->shared);
	svc_limit_give(p->session, SVC_PROGRAMS, 1);
	free(p);
}

void svc_program_unref(struct svc_program *p)
{
	if (!p || --p->refs > 0)
		return;
	svc_assert_locked(p->session->server);
	if (!p->loaded) {
		svc_program_destroy(p);
		return;
	}
	STAILQ_INSERT_TAIL(&p->session->trash_programs, p, trash_link);
	svc_freeing_post(p->session);
}

int svc_program_load(struct svc_program *p, uint32_t stream, struct sal_err *err)
{
	struct svc_server *server = p->session->server;
	struct sal_loaded *loaded = NULL, *before = p->loaded;
	struct svc_again again = { 0 };
	int rc;

	if (p->loaded && p->stream == stream)
		return SAL_OK;
	if (p->loaded && atomic_load(&p->pins) > 0)
		return sal_err_set(err, SAL_UNIMPLEMENTED,
				   "salusd: a program runs itself through its Python callback");
	do
		rc = svc_vendor(server)->load(server->streams[stream].device,
					      p->shared->image->image, &loaded, err);
	while (svc_again(&again, p->session, rc));
	svc_lock(server);
	p->loaded = loaded;
	p->stream = stream;
	svc_unlock(server);
	if (before)
		svc_vendor(server)->unload(before);
	return rc;
}

static struct svc_program *program_of(struct svc_errand *errand)
{
	return SAL_CONTAINER_OF(errand, struct svc_program, ahead);
}

static bool is_inference(const struct svc_session *s) SVC_LOCKED
{
	struct sal_session_view view;

	sal_engine_view(s->server->engine, s->core, &view);
	return view.job.kind == SAL_INFERENCE;
}

/*
 * Do not load a program that the client has unloaded: then the errand has the only reference. Do
 * not load into a stream that is not open, so a session that runs nothing opens none. There are two
 * exceptions: streams are cheap, or the session is inference, whose first request must not wait for
 * the vendor to open the stream.
 */
static bool is_worth_loading(const struct svc_program *p) SVC_LOCKED
{
	struct svc_session *s = p->session;
	uint32_t index = sal_session_lane(s->core);
	struct sal_lane_view lane;

	if (s->state != SVC_OPEN || p->refs <= 1 || p->loaded || index == SAL_NO_LANE)
		return false;
	sal_engine_lane_view(s->server->engine, index, &lane);
	return !lane.stuck && (s->server->rows_are_cheap || is_inference(s) ||
			       atomic_load(&s->server->streams[svc_stream_home(s)].device));
}

static bool ahead_begin(struct svc_errand *errand) SVC_LOCKED
{
	struct svc_program *p = program_of(errand);

	if (!is_worth_loading(p)) {
		svc_program_unref(p);
		return false;
	}
	p->stream = svc_stream_home(p->session);
	return true;
}

/* Ignore a failure: the first run loads the program again, and reports. */
static void ahead_call(struct svc_errand *errand)
{
	struct svc_program *p = program_of(errand);

	if (svc_stream_open(p->session->server, p->stream, NULL) >= 0)
		(void)svc_program_load(p, p->stream, NULL);
}

static void ahead_settle(struct svc_errand *errand) SVC_LOCKED
{
	svc_program_unref(program_of(errand));
}

void svc_program_load_ahead(struct svc_program *p)
{
	p->ahead = (struct svc_errand){ .begin = ahead_begin,
					.call = ahead_call,
					.settle = ahead_settle };
	svc_errand_post(p->session, &svc_program_ref(p)->ahead);
}
