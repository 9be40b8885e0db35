/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bag - allocations that are freed together. Starts as { 0 }.
 *
 * Threads: none of its own.
 */
#ifndef SAL_DEVICE_PJRT_BAG_H
#define SAL_DEVICE_PJRT_BAG_H

#include "base/facts.h"

struct vendor_bag {
	struct bag_item *items; /* owned */
};

/* Zeroed memory for count items. NULL only if there is no memory, also if count is 0. */
void *sal_vendor_bag_take(struct vendor_bag *bag, size_t count, size_t item_size);
/* A copy, followed by a NUL; at is NULL if there is no memory. */
struct sal_text sal_vendor_bag_text(struct vendor_bag *bag, const char *at, size_t size);
/* Frees all allocations. The bag can be used again. */
void sal_vendor_bag_empty(struct vendor_bag *bag);

#endif
