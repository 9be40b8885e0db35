/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelf - host memory for what is paged out, kept for the next while anything is.
 *
 * Memory that a process touches for the first time can cost ten times the copy into it (on a virtual machine, the
 * host may have to find it first). Sessions that are paged come and go in turns, so what one leaves, another
 * takes. When nothing is paged out any more, all of it goes back.
 *
 * Threads: any; it has a lock of its own.
 */
#ifndef SAL_DEVICE_PJRT_SHELF_H
#define SAL_DEVICE_PJRT_SHELF_H

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>

struct vendor_block {
	SLIST_ENTRY(vendor_block) link; /* in shelf->blocks, while it is free */
	void *bytes; /* owned */
	uint64_t room;
};

struct vendor_shelf {
	pthread_mutex_t lock;
	SLIST_HEAD(, vendor_block) blocks; /* owned */
	uint64_t bytes; /* of those */
	uint64_t used; /* blocks that are out */
};

void sal_vendor_shelf_init(struct vendor_shelf *shelf);
void sal_vendor_shelf_fini(struct vendor_shelf *shelf);

/* At least so many bytes, aligned for any plugin; NULL: there are none. */
struct vendor_block *sal_vendor_shelf_take(struct vendor_shelf *shelf, uint64_t size);
/* Accepts NULL. */
void sal_vendor_shelf_put(struct vendor_shelf *shelf, struct vendor_block *take_block);

#endif
