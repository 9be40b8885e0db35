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

struct svc_shared_program *svc_program_share(struct svc_server *server,
					     struct sal_image *take_image)
{
	struct svc_shared_program *p = find_shared(server, take_image->key);

	if (p) {
		sal_image_unref(take_image);
		return svc_program_ref(p);
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

struct svc_shared_program *svc_program_ref(struct svc_shared_program *p)
{
	p->refs++;
	return p;
}

void svc_program_unref(struct svc_server *server, struct svc_shared_program *p)
{
	if (!p || --p->refs > 0)
		return;
	TAILQ_REMOVE(&server->programs, p, link);
	if (p->loaded)
		server->ops->unload(p->loaded);
	free(p->facts);
	sal_image_unref(p->image);
	free(p);
}

int svc_program_load(struct svc_server *server, struct svc_shared_program *p, struct sal_err *err)
{
	if (p->loaded)
		return SAL_OK;
	return server->ops->load(server->lanes[0].stream, p->image->image, &p->loaded, err);
}
