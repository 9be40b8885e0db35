/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelf - host memory for paged-out contents. Free blocks are reused while anything is paged out.
 *
 * The first access to new memory can cost ten times the copy into it (on a virtual machine, the
 * host may have to find the memory first). Sessions are paged out and in by turns, so a block of
 * one session serves the next. When nothing is paged out any more, all memory goes back to the
 * system. On a host device the heap keeps pages for all purposes, and bounds them: then the shelf
 * keeps nothing.
 *
 * Threads: any; the shelf has its own lock.
 */
#ifndef SAL_DEVICE_PJRT_SHELF_H
#define SAL_DEVICE_PJRT_SHELF_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct vendor_block {
	SLIST_ENTRY(vendor_block) link; /* shelf->blocks, while free */
	void *bytes; /* owned */
	uint64_t room;
};

struct vendor_shelf {
	pthread_mutex_t lock;
	SLIST_HEAD(, vendor_block) blocks; /* owned */
	uint64_t bytes; /* of the free blocks */
	uint64_t used; /* number of blocks in use */
	bool keeps; /* free blocks are reused */
};

/* It keeps nothing, until the owner sets `keeps`. */
void sal_vendor_shelf_init(struct vendor_shelf *shelf);
void sal_vendor_shelf_fini(struct vendor_shelf *shelf);

/* At least `size` bytes, aligned for any plugin. NULL: no memory. */
struct vendor_block *sal_vendor_shelf_take(struct vendor_shelf *shelf, uint64_t size);
/* Accepts NULL. */
void sal_vendor_shelf_put(struct vendor_shelf *shelf, struct vendor_block *take_block);

#endif
