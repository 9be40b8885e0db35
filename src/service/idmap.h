/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idmap - a map from ids, which a client may choose, to objects. Open addressing; no id is 0.
 */
#ifndef SAL_SERVICE_IDMAP_H
#define SAL_SERVICE_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct svc_idmap_slot {
	uint64_t id; /* 0: free */
	void *value;
};

struct svc_idmap {
	struct svc_idmap_slot *slots; /* owned */
	size_t room; /* a power of two, or 0 */
	size_t count;
	size_t pop_from; /* while only pop is used, all slots before this one are free */
	uint64_t secret; /* so that a client cannot make its ids collide */
};

void svc_idmap_init(struct svc_idmap *map);
void svc_idmap_fini(struct svc_idmap *map);
/* False if the id is 0 or taken, or for lack of memory. */
bool svc_idmap_add(struct svc_idmap *map, uint64_t id, void *value);
/* Find or remove the object with this id; NULL: there is none. */
void *svc_idmap_find(const struct svc_idmap *map, uint64_t id);
void *svc_idmap_remove(struct svc_idmap *map, uint64_t id);
/* Remove any object; NULL: the map is empty. */
void *svc_idmap_pop(struct svc_idmap *map);

#endif
