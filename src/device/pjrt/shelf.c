/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pjrt/shelf.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "heap/heap.h"
#include "heap/meter.h"

#define ALIGNMENT 64
#define HUGE_PAGE (UINT64_C(2) << 20)
/* Smaller blocks are freed, not reused. */
#define REUSED_BYTES_MIN HUGE_PAGE
#define SHELF_BYTES_MAX (UINT64_C(4) << 30)

void sal_vendor_shelf_init(struct vendor_shelf *shelf)
{
	(void)pthread_mutex_init(&shelf->lock, NULL);
	SLIST_INIT(&shelf->blocks);
	shelf->bytes = shelf->used = 0;
	shelf->keeps = false;
}

static void block_free(struct vendor_block *block)
{
	free(block->bytes);
	free(block);
}

static void clear(struct vendor_shelf *shelf)
{
	struct vendor_block *block;

	while ((block = SLIST_FIRST(&shelf->blocks))) {
		SLIST_REMOVE_HEAD(&shelf->blocks, link);
		block_free(block);
	}
	shelf->bytes = 0;
}

void sal_vendor_shelf_fini(struct vendor_shelf *shelf)
{
	clear(shelf);
	(void)pthread_mutex_destroy(&shelf->lock);
}

/*
 * Uses huge pages for large blocks: the first access to many small pages costs more than the copy.
 */
static struct vendor_block *block_create(uint64_t size)
{
	uint64_t unit = size >= HUGE_PAGE ? HUGE_PAGE : ALIGNMENT;
	struct vendor_block *block = calloc(1, sizeof(*block));
	struct sal_payer before;

	if (!block)
		return NULL;
	block->room = (size + unit) / unit * unit;
	before =
		sal_payer_set(sal_payer_for(SAL_NO_METER, false)); /* a copy is not device memory */
	block->bytes = aligned_alloc((size_t)unit, (size_t)block->room);
	(void)sal_payer_set(before);
	if (!block->bytes) {
		free(block);
		return NULL;
	}
	if (unit == HUGE_PAGE)
		(void)madvise(block->bytes, (size_t)block->room, MADV_HUGEPAGE);
	return block;
}

/* Finds a block that is large enough and wastes at most an eighth and one huge page. */
static struct vendor_block *find(struct vendor_shelf *shelf, uint64_t size)
{
	struct vendor_block *block;

	SLIST_FOREACH(block, &shelf->blocks, link)
		if (block->room > size && block->room - size <= size / 8 + HUGE_PAGE)
			return block;
	return NULL;
}

struct vendor_block *sal_vendor_shelf_take(struct vendor_shelf *shelf, uint64_t size)
{
	struct vendor_block *block = NULL;

	(void)pthread_mutex_lock(&shelf->lock);
	if (size >= REUSED_BYTES_MIN)
		block = find(shelf, size);
	if (block) {
		SLIST_REMOVE(&shelf->blocks, block, vendor_block, link);
		shelf->bytes -= block->room;
	}
	shelf->used++;
	(void)pthread_mutex_unlock(&shelf->lock);
	if (!block)
		block = block_create(size);
	if (!block) {
		(void)pthread_mutex_lock(&shelf->lock);
		shelf->used--;
		(void)pthread_mutex_unlock(&shelf->lock);
	}
	return block;
}

void sal_vendor_shelf_put(struct vendor_shelf *shelf, struct vendor_block *take_block)
{
	struct vendor_block *left = take_block;

	if (!take_block)
		return;
	sal_heap_pay(take_block->bytes, sal_payer_for(SAL_NO_METER, false));
	(void)pthread_mutex_lock(&shelf->lock);
	if (shelf->keeps && take_block->room > REUSED_BYTES_MIN &&
	    shelf->bytes + take_block->room <= SHELF_BYTES_MAX) {
		SLIST_INSERT_HEAD(&shelf->blocks, take_block, link);
		shelf->bytes += take_block->room;
		left = NULL;
	}
	if (--shelf->used == 0)
		clear(shelf);
	(void)pthread_mutex_unlock(&shelf->lock);
	if (left)
		block_free(left);
}
