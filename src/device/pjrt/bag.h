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

/* Zeroed memory for count things; NULL for lack of it. Never NULL for none. */
void *sal_vendor_bag_take(struct vendor_bag *bag, size_t count, size_t item_size);
/* A copy, with a NUL behind it; at is NULL for lack of memory. */
struct sal_text sal_vendor_bag_text(struct vendor_bag *bag, const char *at, size_t size);
/* The bag is as new. */
void sal_vendor_bag_empty(struct vendor_bag *bag);

#endif
