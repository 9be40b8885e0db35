/* SPDX-License-Identifier: Apache-2.0 */
#include "service/idmap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void svc_idmap_init(struct svc_idmap *map)
{
	memset(map, 0, sizeof(*map));
	if (getrandom(&map->secret, sizeof(map->secret), GRND_NONBLOCK) < 0)
		map->secret = (uint64_t)(uintptr_t)map;
}

void svc_idmap_fini(struct svc_idmap *map)
{
	free(map->slots);
	memset(map, 0, sizeof(*map));
}

static size_t home_of(const struct svc_idmap *map, uint64_t id)
{
	unsigned __int128 product = (unsigned __int128)(id ^ map->secret) *
				    (map->secret | UINT64_C(0x9e3779b97f4a7c15));

	id = (uint64_t)product ^ (uint64_t)(product >> 64);
	return (size_t)id & (map->room - 1);
}

static struct svc_idmap_slot *probe(const struct svc_idmap *map, uint64_t id)
{
	size_t i = home_of(map, id);

	while (map->slots[i].id != 0 && map->slots[i].id != id)
		i = (i + 1) & (map->room - 1);
	return &map->slots[i];
}

static bool grow(struct svc_idmap *map)
{
	struct svc_idmap old = *map;
	size_t i;

	map->room = old.room ? old.room * 2 : 64;
	map->slots = calloc(map->room, sizeof(*map->slots));
	if (!map->slots) {
		*map = old;
		return false;
	}
	for (i = 0; i < old.room; i++)
		if (old.slots[i].id != 0)
			*probe(map, old.slots[i].id) = old.slots[i];
	free(old.slots);
	return true;
}

bool svc_idmap_add(struct svc_idmap *map, uint64_t id, void *value)
{
	struct svc_idmap_slot *slot;

	if (id == 0 || (map->count * 2 >= map->room && !grow(map)))
		return false;
	slot = probe(map, id);
	if (slot->id != 0)
		return false;
	slot->id = id;
	slot->value = value;
	map->count++;
	return true;
}

void *svc_idmap_find(const struct svc_idmap *map, uint64_t id)
{
	if (map->count == 0 || id == 0)
		return NULL;
	return probe(map, id)->value;
}

/* Close the gap: entries that collided and went to later slots move back. */
static void close_gap(struct svc_idmap *map, size_t gap)
{
	size_t i = gap;

	for (;;) {
		size_t home;

		i = (i + 1) & (map->room - 1);
		if (map->slots[i].id == 0)
			break;
		home = home_of(map, map->slots[i].id);
		if (((i - home) & (map->room - 1)) < ((i - gap) & (map->room - 1)))
			continue;
		map->slots[gap] = map->slots[i];
		gap = i;
	}
	map->slots[gap] = (struct svc_idmap_slot){ 0 };
}

void *svc_idmap_remove(struct svc_idmap *map, uint64_t id)
{
	struct svc_idmap_slot *slot;
	void *value;

	if (map->count == 0 || id == 0)
		return NULL;
	slot = probe(map, id);
	if (slot->id == 0)
		return NULL;
	value = slot->value;
	map->count--;
	close_gap(map, (size_t)(slot - map->slots));
	return value;
}

void *svc_idmap_pop(struct svc_idmap *map)
{
	while (map->count > 0) {
		size_t i = map->pop_from & (map->room - 1);

		if (map->slots[i].id != 0)
			return svc_idmap_remove(map, map->slots[i].id);
		map->pop_from++;
	}
	return NULL;
}
