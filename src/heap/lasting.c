/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/lasting.h"

#include <stddef.h>

/* Three quarters of the slots: then a search is short. */
#define SIZES_MAX (SAL_LASTING_SLOTS / 4 * 3)

/* The slot of this size, or the free one where it belongs. There is always a free slot. */
static uint32_t find(const struct sal_lasting_outputs *o, uint32_t pages)
{
	uint32_t slot = pages % SAL_LASTING_SLOTS;

	while (o->pages[slot] && o->pages[slot] != pages)
		slot = (slot + 1) % SAL_LASTING_SLOTS;
	return slot;
}

static void add_many(struct sal_lasting_outputs *o, uint32_t pages, uint32_t blocks)
{
	uint32_t slot = find(o, pages);

	if (!o->pages[slot]) {
		if (o->count == SIZES_MAX) {
			o->is_full = true;
			return;
		}
		o->pages[slot] = pages;
		o->count++;
	}
	o->left[slot] += blocks;
}

void sal_lasting_add(struct sal_lasting_outputs *o, uint32_t pages)
{
	add_many(o, pages, 1);
}

void sal_lasting_subtract(struct sal_lasting_outputs *o, uint32_t pages)
{
	uint32_t slot = find(o, pages);

	if (o->left[slot] > 0)
		o->left[slot]--;
}

void sal_lasting_join(struct sal_lasting *l, const struct sal_lasting_outputs *more)
{
	for (uint32_t i = 0; i < SAL_LASTING_SLOTS; i++)
		if (more->left[i] > 0)
			add_many(&l->outputs, more->pages[i], more->left[i]);
	l->outputs.is_full |= more->is_full;
}

static bool is_learned(const struct sal_lasting *l, uint32_t pages)
{
	for (size_t i = 0; i < SAL_LASTING_LEARNED; i++)
		if (l->learned[i] == pages)
			return true;
	return false;
}

bool sal_lasting_claim(struct sal_lasting *l, uint32_t pages)
{
	uint32_t slot = find(&l->outputs, pages);

	if (l->outputs.left[slot] == 0)
		return l->outputs.is_full || is_learned(l, pages);
	l->outputs.left[slot]--;
	return true;
}

void sal_lasting_learn(struct sal_lasting *l, uint32_t pages)
{
	if (!is_learned(l, pages))
		l->learned[l->learned_count++ % SAL_LASTING_LEARNED] = pages;
}
