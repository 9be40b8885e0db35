/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory - the sum that must never exceed the device, and the search for a lane that keeps it so.
 *
 *     0                                                                          capacity
 *     | persistent bytes of all resident sessions ->      <- lane 2 | lane 1 | lane 0 |
 *
 * Invariant:  persist_bytes + lane_sum_bytes <= capacity_bytes.
 *
 * A struct sal_memory is plain data: what-if questions are asked of a copy.
 */
#ifndef SAL_CORE_MEMORY_H
#define SAL_CORE_MEMORY_H

#include "core/job.h"
#include "core/tuning.h"

struct sal_memory {
	uint64_t capacity_bytes;
	uint64_t persist_bytes;
	uint64_t lane_sum_bytes;
	uint64_t floor_bytes; /* lowest byte a running iteration uses: persistent ones stay below */
	uint64_t open_mask; /* bit i: lane i is open */
	uint64_t lane_bytes[SAL_LANES_MAX];
};

/* Which lanes a session may use: those in `allowed`, and a new one if may_open. */
struct sal_lane_choice {
	uint64_t allowed;
	bool may_open;
};

void sal_memory_init(struct sal_memory *m, uint64_t capacity_bytes);

/* True if `needs` fit with lane `index` grown to hold them (an unopened lane counts as empty). */
bool sal_memory_fits(const struct sal_memory *m, struct sal_needs needs, uint32_t index);

/*
 * The lane for a newcomer: a new one; else the open one that wastes least; else the smallest that
 * can grow. Every step tests the whole sum. Returns the index, or -1: it has to wait.
 */
int sal_memory_find(const struct sal_memory *m, struct sal_needs needs,
		    struct sal_lane_choice choice);

/* Change the size of a lane; 0 bytes and `open` false closes it. */
void sal_memory_resize(struct sal_memory *m, uint32_t index, uint64_t bytes, bool open);

static inline uint64_t sal_memory_free(const struct sal_memory *m)
{
	return m->capacity_bytes - m->persist_bytes - m->lane_sum_bytes;
}

/* Where lane `index` belongs when every range is in its place. */
uint64_t sal_memory_home(const struct sal_memory *m, uint32_t index);

#endif
