/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept - asks the policy whether an iteration may run at all. Only a policy that knows deadlines
 * says no. Memory is another question: see admit.c.
 */
#include "core/engine/engine_impl.h"

static void refuse(struct sal_engine *e, struct sal_session *s, struct sal_iteration *it,
		   enum sal_reason reason, uint64_t value)
{
	struct sal_record r = {
		.now_ns = e->now_ns,
		.session = s->id,
		.iteration = it->id,
		.persist_bytes = it->needs.persist_bytes,
		.ephem_bytes = it->needs.ephem_bytes,
		.value = value,
		.what = SAL_REFUSE,
		.lane = s->lane ? (uint16_t)s->lane->index : SAL_NO_LANE,
		.reason = (uint16_t)reason,
	};

	if (e->emit)
		e->emit(e->emit_ctx, &r, s, it);
}

bool sal_accept(struct sal_engine *e, struct sal_session *s, struct sal_iteration *it)
{
	enum sal_reason reason = SAL_REASON_NONE;
	uint64_t value = 0;

	if (e->policy->accepts)
		reason = e->policy->accepts(e->state, s, it, &value);
	if (reason != SAL_REFUSE_DEADLINE && reason != SAL_REFUSE_LOAD)
		return true;
	refuse(e, s, it, reason, value);
	return false;
}
