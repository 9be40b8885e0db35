/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory - the sum of bytes that must never exceed the device, and the search for a lane that fits.
 *
 *     0                                                                          capacity
 *     | persistent bytes of all resident sessions ->      <- lane 2 | lane 1 | lane 0 |
 *
 * Invariant:  persist_bytes + lane_sum_bytes <= capacity_bytes.
 *
 * A struct sal_memory is plain data. To try a plan, change a copy.
 */
#ifndef SAL_CORE_MEMORY_H
#define SAL_CORE_MEMORY_H

#include "core/job.h"
#include "core/tuning.h"

struct sal_memory {
	uint64_t capacity_bytes;
	uint64_t persist_bytes;
	uint64_t lane_sum_bytes;
	uint64_t floor_bytes; /* lowest byte of the running lanes; persistent bytes stay below */
	uint64_t open_mask; /* bit i: lane i is open */
	uint64_t lane_bytes[SAL_LANES_MAX];
};

/* The lanes that a session may use: the lanes in `allowed`, and a new lane if may_open. */
struct sal_lane_choice {
	uint64_t allowed;
	bool may_open;
};

void sal_memory_init(struct sal_memory *m, uint64_t capacity_bytes);

/* Do `needs` fit if lane `index` grows to hold them? A closed lane counts as empty. */
bool sal_memory_fits(const struct sal_memory *m, struct sal_needs needs, uint32_t index);

/*
 * The lane for a session that comes in: a new lane; else the open lane that wastes least; else the
 * smallest that can grow. Each step tests the whole sum. Returns the index; -1: no lane fits.
 */
int sal_memory_find(const struct sal_memory *m, struct sal_needs needs,
		    struct sal_lane_choice choice);

/* Change the size of a lane. If `open` is false, close the lane; bytes must then be 0. */
void sal_memory_resize(struct sal_memory *m, uint32_t index, uint64_t bytes, bool open);

static inline uint64_t sal_memory_free(const struct sal_memory *m)
{
	return m->capacity_bytes - m->persist_bytes - m->lane_sum_bytes;
}

/* The start of lane `index` when every lane lies in its own place. */
uint64_t sal_memory_home(const struct sal_memory *m, uint32_t index);

#endif
