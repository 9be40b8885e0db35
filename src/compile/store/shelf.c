/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/store/shelf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <bsd/sys/tree.h>

#include "compile/store/image.h"

struct item {
	RB_ENTRY(item) by_key;
	TAILQ_ENTRY(item) by_use; /* shelf->by_use, least recently used first */
	struct sal_image *image; /* owned: one reference */
};

RB_HEAD(item_tree, item);
TAILQ_HEAD(item_list, item);

struct sal_shelf {
	struct item_tree by_key; /* owned */
	struct item_list by_use;
	uint64_t bytes, limit_bytes;
};

static int compare_items(const struct item *a, const struct item *b)
{
	return memcmp(a->image->key, b->image->key, SAL_PROGRAM_KEY_BYTES);
}

RB_GENERATE_INTERNAL(item_tree, item, by_key, compare_items, static __attribute__((unused)))

struct sal_shelf *sal_shelf_create(uint64_t limit_bytes)
{
	struct sal_shelf *shelf = calloc(1, sizeof(*shelf));

	if (!shelf)
		return NULL;
	RB_INIT(&shelf->by_key);
	TAILQ_INIT(&shelf->by_use);
	shelf->limit_bytes = limit_bytes;
	return shelf;
}

static void drop(struct sal_shelf *shelf, struct item *item)
{
	RB_REMOVE(item_tree, &shelf->by_key, item);
	TAILQ_REMOVE(&shelf->by_use, item, by_use);
	shelf->bytes -= sal_image_bytes(item->image);
	sal_image_unref(item->image);
	free(item);
}

void sal_shelf_destroy(struct sal_shelf *shelf)
{
	struct item *item;

	if (!shelf)
		return;
	while ((item = TAILQ_FIRST(&shelf->by_use)))
		drop(shelf, item);
	free(shelf);
}

static struct item *find(struct sal_shelf *shelf, const uint8_t key[SAL_PROGRAM_KEY_BYTES])
{
	struct sal_image wanted;
	struct item like = { .image = &wanted };
	struct item *item;

	memcpy(wanted.key, key, SAL_PROGRAM_KEY_BYTES);
	item = RB_FIND(item_tree, &shelf->by_key, &like);
	if (!item)
		return NULL;
	TAILQ_REMOVE(&shelf->by_use, item, by_use);
	TAILQ_INSERT_TAIL(&shelf->by_use, item, by_use);
	return item;
}

struct sal_image *sal_shelf_find(struct sal_shelf *shelf, const uint8_t key[SAL_PROGRAM_KEY_BYTES])
{
	struct item *item = find(shelf, key);

	return item ? sal_image_ref(item->image) : NULL;
}

/*
 * An image that only the shelf refers to stays unshared during this call, because only the shelf
 * gives out references.
 */
static void trim(struct sal_shelf *shelf)
{
	struct item *item = TAILQ_FIRST(&shelf->by_use);

	while (item && shelf->bytes > shelf->limit_bytes) {
		struct item *next = TAILQ_NEXT(item, by_use);

		if (!sal_image_is_shared(item->image))
			drop(shelf, item);
		item = next;
	}
}

struct sal_image *sal_shelf_put(struct sal_shelf *shelf, struct sal_image *take_image)
{
	struct item *item = find(shelf, take_image->key);

	if (item) {
		sal_image_unref(take_image);
		return sal_image_ref(item->image);
	}
	item = calloc(1, sizeof(*item));
	if (!item)
		return take_image;
	item->image = sal_image_ref(take_image);
	RB_INSERT(item_tree, &shelf->by_key, item);
	TAILQ_INSERT_TAIL(&shelf->by_use, item, by_use);
	shelf->bytes += sal_image_bytes(take_image);
	trim(shelf);
	return take_image;
}
