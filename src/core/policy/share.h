/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share - a virtual clock per session, for policies that hand out equal (or weighted) parts of
 * something: device time (fair) or iterations (rr).
 *
 * What a session got, divided by its weight, is its clock; the lowest clock runs next. The lane's
 * clock is that of the session that ran last. A newcomer, and one that was idle, starts level with
 * its lane: it gets neither credit for the past nor a wait. One that had work but no memory keeps
 * its arrears.
 */
#ifndef SAL_CORE_POLICY_SHARE_H
#define SAL_CORE_POLICY_SHARE_H

#include "core/policy.h"

struct sal_share_state {
	uint64_t clock; /* of the lane that started an iteration last */
	uint64_t margin;
};

struct sal_share_slot {
	uint64_t clock;
	uint64_t remainder; /* of the last division, so that nothing is lost to rounding */
	uint32_t lane; /* 1 + index of the lane whose clock it follows; 0: none */
};

/* These fill the slots of struct sal_policy of the same name. */
struct sal_rank sal_share_rank(const void *state, const struct sal_session *s);
void sal_share_tune(void *state, const struct sal_tuning *tuning);
void sal_share_join(void *state, struct sal_session *s);
void sal_share_enter(void *state, struct sal_session *s);
void sal_share_wake(void *state, struct sal_session *s);
void sal_share_start(void *state, struct sal_session *s);

/* s got `amount` of what is shared. */
void sal_share_add(struct sal_session *s, uint64_t amount);

/* How far `in` is behind `out`; 0 if it is not. */
uint64_t sal_share_arrears(const struct sal_session *in, const struct sal_session *out);

#endif
