/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment lists its ranges by offset, used and free ones; free neighbours are joined. An
 * allocation takes the lowest free range that is large enough, so that the same warm pages are used
 * again. Many ranges may be in use, few are free: the free ones have a list of their own, and a
 * hash table finds the used ones by their place.
 */
#include "adaptor/daemon/arena.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>

#include "link/socket.h"

/* The vendor needs 64 to use the bytes in place; large ranges are whole pages. */
#define SMALL_ALIGN 64
#define LARGE_ALIGN 4096

#define BUCKETS 4096

struct segment;

struct range {
	struct segment *segment;
	uint64_t offset, size;
	bool used;
	TAILQ_ENTRY(range) ranges; /* in its segment's ranges, by offset */
	TAILQ_ENTRY(range) free; /* in its segment's free list, by offset, if not used */
	LIST_ENTRY(range) bucket; /* in its bucket, if used */
};

TAILQ_HEAD(range_list, range);

struct segment {
	unsigned char *base; /* owned mapping */
	uint64_t bytes;
	struct range_list ranges, free;
};

struct adp_arena {
	pthread_mutex_t lock;
	struct segment segments[SAL_SEGMENTS_MAX];
	uint32_t count;
	LIST_HEAD(, range) used[BUCKETS]; /* by segment and offset */
};

static size_t bucket_of(const struct adp_arena *arena, const struct segment *s, uint64_t offset)
{
	uint64_t key = offset / SMALL_ALIGN + (uint64_t)(s - arena->segments);

	return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 52);
}

struct adp_arena *adp_arena_create(void)
{
	struct adp_arena *arena = calloc(1, sizeof(*arena));

	if (arena)
		(void)pthread_mutex_init(&arena->lock, NULL);
	return arena;
}

void adp_arena_destroy(struct adp_arena *arena)
{
	uint32_t i;

	if (!arena)
		return;
	for (i = 0; i < arena->count; i++) {
		struct segment *segment = &arena->segments[i];
		struct range *range;

		while ((range = TAILQ_FIRST(&segment->ranges))) {
			TAILQ_REMOVE(&segment->ranges, range, ranges);
			free(range);
		}
		(void)munmap(segment->base, (size_t)segment->bytes);
	}
	(void)pthread_mutex_destroy(&arena->lock);
	free(arena);
}

int adp_arena_add(struct adp_arena *arena, int take_fd, uint64_t bytes, struct sal_err *err)
{
	struct range *all = calloc(1, sizeof(*all));
	void *base = all ? sal_shared_map(take_fd, bytes) : NULL;
	int rc = SAL_OK;

	(void)close(take_fd);
	(void)pthread_mutex_lock(&arena->lock);
	if (!base || arena->count == SAL_SEGMENTS_MAX) {
		rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "cannot map shared memory");
		free(all);
	} else {
		struct segment *segment = &arena->segments[arena->count++];

		segment->base = base;
		segment->bytes = bytes;
		TAILQ_INIT(&segment->ranges);
		TAILQ_INIT(&segment->free);
		all->segment = segment;
		all->size = bytes;
		TAILQ_INSERT_TAIL(&segment->ranges, all, ranges);
		TAILQ_INSERT_TAIL(&segment->free, all, free);
	}
	(void)pthread_mutex_unlock(&arena->lock);
	return rc;
}

/* Takes the first `size` bytes of a free range; the rest stays free. */
static bool take(struct adp_arena *arena, struct range *range, uint64_t size)
{
	struct segment *segment = range->segment;
	struct range *rest;

	if (range->size > size) {
		rest = calloc(1, sizeof(*rest));
		if (!rest)
			return false;
		rest->segment = segment;
		rest->offset = range->offset + size;
		rest->size = range->size - size;
		range->size = size;
		TAILQ_INSERT_AFTER(&segment->ranges, range, rest, ranges);
		TAILQ_INSERT_AFTER(&segment->free, range, rest, free);
	}
	TAILQ_REMOVE(&segment->free, range, free);
	LIST_INSERT_HEAD(&arena->used[bucket_of(arena, segment, range->offset)], range, bucket);
	range->used = true;
	return true;
}

static struct range *find_free(struct segment *segment, uint64_t size)
{
	struct range *range;

	TAILQ_FOREACH(range, &segment->free, free)
		if (range->size >= size)
			return range;
	return NULL;
}

bool adp_arena_try(struct adp_arena *arena, uint64_t size, struct adp_range *out_range)
{
	uint64_t align = size >= LARGE_ALIGN ? LARGE_ALIGN : SMALL_ALIGN;
	uint64_t rounded = (size + align - 1) / align * align;
	struct range *range;
	uint32_t i;
	bool found = false;

	if (size == 0 || rounded < size)
		return false;
	(void)pthread_mutex_lock(&arena->lock);
	for (i = 0; i < arena->count && !found; i++) {
		range = find_free(&arena->segments[i], rounded);
		found = range && take(arena, range, rounded);
		if (found)
			*out_range = (struct adp_range){
				.place = { .segment = i, .offset = range->offset, .size = size },
				.at = arena->segments[i].base + range->offset,
			};
	}
	(void)pthread_mutex_unlock(&arena->lock);
	return found;
}

/* Puts it into the free list, by offset. */
static void give_back(struct range *range)
{
	struct range_list *list = &range->segment->free;
	struct range *next;

	LIST_REMOVE(range, bucket);
	range->used = false;
	TAILQ_FOREACH(next, list, free)
		if (next->offset > range->offset)
			break;
	if (next)
		TAILQ_INSERT_BEFORE(next, range, free);
	else
		TAILQ_INSERT_TAIL(list, range, free);
}

/* Joins a free range with the next one, if that is free, too. */
static void join(struct range *range)
{
	struct range *next = range ? TAILQ_NEXT(range, ranges) : NULL;

	if (!next || range->used || next->used)
		return;
	range->size += next->size;
	TAILQ_REMOVE(&range->segment->ranges, next, ranges);
	TAILQ_REMOVE(&range->segment->free, next, free);
	free(next);
}

static struct range *find_used(struct adp_arena *arena, const struct sal_place_in_arena *place)
{
	const struct segment *segment = &arena->segments[place->segment];
	struct range *range;

	LIST_FOREACH(range, &arena->used[bucket_of(arena, segment, place->offset)], bucket)
		if (range->segment == segment && range->offset == place->offset)
			return range;
	return NULL;
}

void adp_arena_free(struct adp_arena *arena, const struct sal_place_in_arena *place)
{
	struct range *range;

	(void)pthread_mutex_lock(&arena->lock);
	range = place->segment < arena->count ? find_used(arena, place) : NULL;
	if (range) {
		give_back(range);
		join(range);
		join(TAILQ_PREV(range, range_list, ranges));
	}
	(void)pthread_mutex_unlock(&arena->lock);
}
