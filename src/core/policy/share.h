/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share - a virtual clock per session, for policies that give out equal or weighted shares of
 * device time (fair) or of iterations (rr).
 *
 * A session's clock is the amount it got, divided by its weight. The session with the lowest clock
 * runs next, in any lane. The common clock is the highest clock with which a session started. A new
 * session, or a session that was idle, starts at the common clock: it gets no credit for the past,
 * and no delay. A session that had work but no memory retains its arrears.
 *
 * With several lanes a session could run all the time, whatever its share. So a session that is
 * too far ahead of the one with the lowest clock waits.
 */
#ifndef SAL_CORE_POLICY_SHARE_H
#define SAL_CORE_POLICY_SHARE_H

#include "core/policy.h"

struct sal_share_state {
	uint64_t clock;
	uint64_t margin;
};

struct sal_share_slot {
	uint64_t clock;
	uint64_t remainder; /* of the last division, so that rounding loses nothing */
};

/* Ops for the fields of the same name in struct sal_policy. */
struct sal_rank sal_share_rank(const void *state, const struct sal_session *s);
void sal_share_tune(void *state, const struct sal_tuning *tuning);
void sal_share_join(void *state, struct sal_session *s);
void sal_share_wake(void *state, struct sal_session *s);
void sal_share_start(void *state, struct sal_session *s);

/* Charge s with `amount` of device time or iterations. */
void sal_share_add(struct sal_session *s, uint64_t amount);

/* How far the clock of `in` is behind the clock of `out`; 0 if it is not behind. */
uint64_t sal_share_arrears(const struct sal_session *in, const struct sal_session *out);

#endif
