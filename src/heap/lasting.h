/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lasting - which blocks of a run outlive it.
 *
 * A run allocates outputs, which stay, and scratch, which goes. The vendor does not say which block
 * is which. But it allocates the outputs when the run starts, before its libraries take scratch, and
 * the sizes of the outputs are known. So the first blocks that have the size of an output count as
 * outputs.
 *
 * A wrong guess does no harm: the block is in the wrong place until it is freed. A block that was
 * taken for scratch and outlived its run teaches: from then on, blocks of its size last.
 *
 * Threads: none. The caller serialises calls.
 */
#ifndef SAL_HEAP_LASTING_H
#define SAL_HEAP_LASTING_H

#include <stdbool.h>
#include <stdint.h>

/* Slots for sizes of outputs, a power of two. With more sizes, all blocks of the run last. */
#define SAL_LASTING_SLOTS 64u
/* Sizes that were learned. A new one takes the place of the oldest. */
#define SAL_LASTING_LEARNED 8u

struct sal_lasting_outputs {
	uint32_t pages[SAL_LASTING_SLOTS]; /* 0: the slot is free */
	uint32_t left[SAL_LASTING_SLOTS]; /* blocks of this size that have not come yet */
	uint32_t count;
	bool is_full;
};

struct sal_lasting {
	struct sal_lasting_outputs outputs;
	uint32_t learned[SAL_LASTING_LEARNED]; /* in pages */
	uint32_t learned_count;
};

/* One more output with so many pages; one less, because it takes over the memory of an argument. */
void sal_lasting_add(struct sal_lasting_outputs *o, uint32_t pages);
void sal_lasting_subtract(struct sal_lasting_outputs *o, uint32_t pages);
/* A run begins beside those that have not ended: its outputs will come, too. */
void sal_lasting_join(struct sal_lasting *l, const struct sal_lasting_outputs *more);
/* A block of the run comes. Will it last? */
bool sal_lasting_claim(struct sal_lasting *l, uint32_t pages);
/* A block of this size lasted, and was not expected to. */
void sal_lasting_learn(struct sal_lasting *l, uint32_t pages);

#endif
