/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena - the client's side of the shared memory for bulk data.
 *
 * The daemon makes the segments; which bytes are in use is the client's business. Ranges are kept in order of
 * their place, used and free ones alike, and neighbours that are free are joined. The lowest free range that
 * is large enough is taken, so that the same warm pages are used over and over.
 *
 * Threads: any; one lock.
 */
#include "adaptor/adaptor.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "link/socket.h"

/* What the vendor needs to use the bytes in place; pages for large ranges. */
#define SMALL_ALIGN 64
#define LARGE_ALIGN 4096

struct range {
	uint64_t offset, size;
	bool used;
	TAILQ_ENTRY(range) link; /* in its segment, by offset */
};

TAILQ_HEAD(range_list, range);

struct segment {
	unsigned char *base; /* owned mapping */
	uint64_t bytes;
	struct range_list ranges;
};

struct adp_arena {
	pthread_mutex_t lock;
	struct segment segments[SAL_SEGMENTS_MAX];
	uint32_t count;
};

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
			TAILQ_REMOVE(&segment->ranges, range, link);
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
		all->size = bytes;
		TAILQ_INSERT_TAIL(&segment->ranges, all, link);
	}
	(void)pthread_mutex_unlock(&arena->lock);
	return rc;
}

/* Cut the free range so that its first `size` bytes are used. */
static bool cut(struct segment *segment, struct range *range, uint64_t size)
{
	struct range *rest;

	if (range->size > size) {
		rest = calloc(1, sizeof(*rest));
		if (!rest)
			return false;
		rest->offset = range->offset + size;
		rest->size = range->size - size;
		range->size = size;
		TAILQ_INSERT_AFTER(&segment->ranges, range, rest, link);
	}
	range->used = true;
	return true;
}

static bool try_segment(struct segment *segment, uint64_t size, struct range **out_range)
{
	struct range *range;

	TAILQ_FOREACH(range, &segment->ranges, link)
		if (!range->used && range->size >= size) {
			*out_range = range;
			return cut(segment, range, size);
		}
	return false;
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
		struct segment *segment = &arena->segments[i];

		found = try_segment(segment, rounded, &range);
		if (found)
			*out_range = (struct adp_range){
				.place = { .segment = i, .offset = range->offset, .size = size },
				.at = segment->base + range->offset,
			};
	}
	(void)pthread_mutex_unlock(&arena->lock);
	return found;
}

/* Join a free range with the one behind it, if that is free too. */
static void join(struct segment *segment, struct range *range)
{
	struct range *next = range ? TAILQ_NEXT(range, link) : NULL;

	if (!next || range->used || next->used)
		return;
	range->size += next->size;
	TAILQ_REMOVE(&segment->ranges, next, link);
	free(next);
}

void adp_arena_free(struct adp_arena *arena, const struct sal_place_in_arena *place)
{
	struct segment *segment;
	struct range *range = NULL;

	(void)pthread_mutex_lock(&arena->lock);
	if (place->segment < arena->count) {
		segment = &arena->segments[place->segment];
		TAILQ_FOREACH(range, &segment->ranges, link)
			if (range->offset == place->offset)
				break;
		if (range && range->used) {
			range->used = false;
			join(segment, range);
			join(segment, TAILQ_PREV(range, range_list, link));
		}
	}
	(void)pthread_mutex_unlock(&arena->lock);
}
