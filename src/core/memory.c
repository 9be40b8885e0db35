/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memory.h"

#include <string.h>

#include "base/err.h"

void sal_memory_init(struct sal_memory *m, uint64_t capacity_bytes)
{
	memset(m, 0, sizeof(*m));
	m->capacity_bytes = capacity_bytes;
	m->floor_bytes = capacity_bytes;
}

static bool is_open(const struct sal_memory *m, uint32_t index)
{
	return m->open_mask >> index & 1;
}

bool sal_memory_fits(const struct sal_memory *m, struct sal_needs needs, uint32_t index)
{
	uint64_t lane = m->lane_bytes[index];
	uint64_t grown = lane > needs.ephem_bytes ? lane : needs.ephem_bytes;
	uint64_t persist;

	if (needs.persist_bytes > m->capacity_bytes || grown > m->capacity_bytes)
		return false;
	persist = m->persist_bytes + needs.persist_bytes;
	if (persist > m->floor_bytes && needs.persist_bytes > 0)
		return false;
	return persist + m->lane_sum_bytes - lane + grown <= m->capacity_bytes;
}

static int find_unopened(const struct sal_memory *m)
{
	uint64_t closed = ~m->open_mask;

	return closed ? __builtin_ctzll(closed) : -1;
}

/*
 * Is lane `index` a better choice than `best`? A lane that need not grow is better. If both or
 * neither must grow, the smaller lane is better.
 */
static bool suits_better(const struct sal_memory *m, uint64_t ephem, uint32_t index, int best)
{
	uint64_t a = m->lane_bytes[index];
	uint64_t b;

	if (best < 0)
		return true;
	b = m->lane_bytes[best];
	if ((a >= ephem) != (b >= ephem))
		return a >= ephem;
	return a < b;
}

int sal_memory_find(const struct sal_memory *m, struct sal_needs needs,
		    struct sal_lane_choice choice)
{
	int unopened = choice.may_open ? find_unopened(m) : -1;
	uint64_t rest = m->open_mask & choice.allowed;
	int best = -1;

	if (unopened >= 0 && sal_memory_fits(m, needs, (uint32_t)unopened))
		return unopened;
	for (; rest; rest &= rest - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(rest);

		if (suits_better(m, needs.ephem_bytes, i, best) && sal_memory_fits(m, needs, i))
			best = (int)i;
	}
	return best;
}

void sal_memory_resize(struct sal_memory *m, uint32_t index, uint64_t bytes, bool open)
{
	SAL_ASSERT(index < SAL_LANES_MAX && (open || bytes == 0));
	m->lane_sum_bytes = m->lane_sum_bytes - m->lane_bytes[index] + bytes;
	m->lane_bytes[index] = bytes;
	if (open)
		m->open_mask |= UINT64_C(1) << index;
	else
		m->open_mask &= ~(UINT64_C(1) << index);
}

uint64_t sal_memory_home(const struct sal_memory *m, uint32_t index)
{
	uint64_t top = m->capacity_bytes;
	uint32_t i;

	SAL_ASSERT(is_open(m, index));
	for (i = 0; i <= index; i++)
		top -= m->lane_bytes[i];
	return top;
}
