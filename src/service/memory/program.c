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
#include "service/memory/freeing.h"
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
	memcpy(&p->id, take_image->key,
	       sizeof(p->id)); /* the key is a hash: any part is as good as another */
	return p;
}

/* Return the description that other sessions share already, or else this one. */
static struct svc_shared_program *share(struct svc_server *server, struct svc_shared_program *take)
{
	struct svc_shared_program *p = svc_idmap_find(&server->programs, take->id);

	if (p && memcmp(p->image->key, take->image->key, SAL_PROGRAM_KEY_BYTES) == 0) {
		p->refs++;
		svc_program_forget(take);
		return p;
	}
	if (p || !svc_idmap_add(&server->programs, take->id, take))
		take->id = 0; /* the session does not share this description */
	return take;
}

static void drop_shared(struct svc_server *server, struct svc_shared_program *p)
{
	if (--p->refs > 0)
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
	return p;
}

struct svc_program *svc_program_ref(struct svc_program *p)
{
	p->refs++;
	return p;
}

void svc_program_destroy(struct svc_program *p)
{
	drop_shared(p->session->server, p->shared);
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

int svc_program_load(struct svc_program *p, uint32_t lane, struct sal_err *err)
{
	struct svc_server *server = p->session->server;
	struct sal_loaded *loaded = NULL, *before = p->loaded;
	int rc;

	if (p->loaded && p->lane == lane)
		return SAL_OK;
	rc = svc_vendor(server)->load(server->lanes[lane].stream, p->shared->image->image, &loaded,
				      err);
	svc_lock(server);
	p->loaded = loaded;
	p->lane = lane;
	svc_unlock(server);
	if (before)
		svc_vendor(server)->unload(before);
	return rc;
}

static struct svc_program *program_of(struct svc_errand *errand)
{
	return SAL_CONTAINER_OF(errand, struct svc_program, ahead);
}

/*
 * Do not load a program that the client has unloaded: then the errand has the only reference. Do
 * not load into a lane without a stream: only an iteration opens a lane, so a session that runs
 * nothing opens none.
 */
static bool is_worth_loading(const struct svc_program *p)
{
	const struct svc_session *s = p->session;
	uint32_t index = sal_session_lane(s->core);
	struct sal_lane_view lane;

	if (s->state != SVC_OPEN || p->refs <= 1 || p->loaded || index == SAL_NO_LANE)
		return false;
	sal_engine_lane_view(s->server->engine, index, &lane);
	return !lane.stuck && atomic_load(&s->server->lanes[index].stream);
}

static bool ahead_begin(struct svc_errand *errand) SVC_LOCKED
{
	struct svc_program *p = program_of(errand);

	if (!is_worth_loading(p)) {
		svc_program_unref(p);
		return false;
	}
	p->lane = sal_session_lane(p->session->core);
	return true;
}

/* Ignore a failure: the first run loads the program again, and reports. */
static void ahead_call(struct svc_errand *errand)
{
	struct svc_program *p = program_of(errand);

	(void)svc_program_load(p, p->lane, NULL);
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
