/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pjrt/bag.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

struct bag_item {
	struct bag_item *next;
	alignas(max_align_t) unsigned char bytes[];
};

void *sal_vendor_bag_take(struct vendor_bag *bag, size_t count, size_t item_size)
{
	struct bag_item *item;
	size_t size;

	if (__builtin_mul_overflow(count, item_size, &size) ||
	    __builtin_add_overflow(size, sizeof(*item) + 1, &size))
		return NULL;
	item = calloc(1, size);
	if (!item)
		return NULL;
	item->next = bag->items;
	bag->items = item;
	return item->bytes;
}

struct sal_text sal_vendor_bag_text(struct vendor_bag *bag, const char *at, size_t size)
{
	char *copy = sal_vendor_bag_take(bag, size, 1);

	if (copy && size > 0)
		memcpy(copy, at, size);
	return (struct sal_text){ .at = copy, .size = copy ? size : 0 };
}

void sal_vendor_bag_empty(struct vendor_bag *bag)
{
	while (bag->items) {
		struct bag_item *item = bag->items;

		bag->items = item->next;
		free(item);
	}
}
