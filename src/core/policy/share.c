/* SPDX-License-Identifier: Apache-2.0 */
#include "core/policy/share.h"

_Static_assert(sizeof(struct sal_share_slot) <= SAL_SLOT_BYTES, "slot too small");

static struct sal_share_slot *slot_of(struct sal_session *s)
{
	return (struct sal_share_slot *)s->slot;
}

struct sal_rank sal_share_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = ((const struct sal_share_slot *)s->slot)->clock };
}

void sal_share_tune(void *state, const struct sal_tuning *tuning)
{
	((struct sal_share_state *)state)->margin = tuning->page_margin;
}

void sal_share_join(void *state, struct sal_session *s)
{
	slot_of(s)->clock = ((struct sal_share_state *)state)->clock;
}

void sal_share_wake(void *state, struct sal_session *s)
{
	struct sal_share_state *share = state;

	if (slot_of(s)->clock < share->clock)
		slot_of(s)->clock = share->clock;
}

void sal_share_start(void *state, struct sal_session *s)
{
	struct sal_share_state *share = state;

	if (slot_of(s)->clock > share->clock)
		share->clock = slot_of(s)->clock;
}

void sal_share_add(struct sal_session *s, uint64_t amount)
{
	struct sal_share_slot *slot = slot_of(s);
	unsigned __int128 scaled = (unsigned __int128)amount * 1000 + slot->remainder;

	slot->clock += (uint64_t)(scaled / sal_session_weight(s));
	slot->remainder = (uint64_t)(scaled % sal_session_weight(s));
}

uint64_t sal_share_arrears(const struct sal_session *in, const struct sal_session *out)
{
	uint64_t a = ((const struct sal_share_slot *)in->slot)->clock;
	uint64_t b = ((const struct sal_share_slot *)out->slot)->clock;

	return b > a ? b - a : 0;
}
