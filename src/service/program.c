/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service.h"

#include <stdlib.h>
#include <string.h>

#include "wire/facts.h"

static struct svc_shared_program *find_shared(struct svc_server *server, const uint8_t *key)
{
	struct svc_shared_program *p;

	TAILQ_FOREACH(p, &server->programs, link)
		if (memcmp(p->image->key, key, SAL_PROGRAM_KEY_BYTES) == 0)
			return p;
	return NULL;
}

static struct svc_shared_program *share(struct svc_server *server, struct sal_image *take_image)
{
	struct svc_shared_program *p = find_shared(server, take_image->key);

	if (p) {
		sal_image_unref(take_image);
		p->refs++;
		return p;
	}
	p = calloc(1, sizeof(*p));
	if (!p || sal_program_facts_unpack(take_image->facts.at, take_image->facts.size, &p->facts,
					   NULL) < 0) {
		sal_image_unref(take_image);
		free(p);
		return NULL;
	}
	p->refs = 1;
	p->image = take_image;
	TAILQ_INSERT_HEAD(&server->programs, p, link);
	return p;
}

static void drop_shared(struct svc_server *server, struct svc_shared_program *p)
{
	if (!p || --p->refs > 0)
		return;
	TAILQ_REMOVE(&server->programs, p, link);
	free(p->facts);
	sal_image_unref(p->image);
	free(p);
}

struct svc_program *svc_program_create(struct svc_server *server, struct sal_image *take_image)
{
	struct svc_program *p = calloc(1, sizeof(*p));

	if (!p) {
		sal_image_unref(take_image);
		return NULL;
	}
	p->refs = 1;
	p->shared = share(server, take_image);
	if (!p->shared) {
		free(p);
		return NULL;
	}
	p->mean_ns = p->shared->mean_ns;
	return p;
}

struct svc_program *svc_program_ref(struct svc_program *p)
{
	p->refs++;
	return p;
}

void svc_program_unref(struct svc_server *server, struct svc_program *p)
{
	if (!p || --p->refs > 0)
		return;
	if (p->loaded)
		server->ops->unload(p->loaded);
	drop_shared(server, p->shared);
	free(p);
}

int svc_program_load(struct svc_server *server, struct svc_program *p, uint32_t lane,
		     struct sal_err *err)
{
	struct sal_loaded *loaded = NULL, *before;
	int rc;

	if (p->loaded && p->lane == lane)
		return SAL_OK;
	rc = server->ops->load(server->lanes[lane].stream, p->shared->image->image, &loaded, err);
	(void)pthread_mutex_lock(&server->lock);
	before = p->loaded;
	p->loaded = loaded;
	p->lane = lane;
	(void)pthread_mutex_unlock(&server->lock);
	if (before)
		server->ops->unload(before);
	return rc;
}
