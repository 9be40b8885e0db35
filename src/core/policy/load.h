/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load - how much of the device the sessions with deadlines need, and which iterations cannot be
 * met.
 *
 * An iteration cannot be met if it takes longer than its deadline, or if the loads of all sessions
 * add up to more than the device. The load of a session is the time of its longest iteration
 * divided by its deadline: at worst, requests come as often as that. Loads are in millionths of the
 * device.
 *
 * Expected times are estimates. So an iteration that cannot be met is refused only if the session
 * has ended SAL_LOAD_TRIALS more iterations since the first such iteration. A session that was
 * accepted with iterations of some length stays accepted while they take up to twice as long.
 */
#ifndef SAL_CORE_POLICY_LOAD_H
#define SAL_CORE_POLICY_LOAD_H

#include "core/policy.h"

#define SAL_LOAD_TRIALS 8u

/* The load of one session, in its slot. All zero: none. */
struct sal_load {
	uint64_t deadline_ns; /* the other fields are about this deadline */
	uint64_t time_ns; /* of the longest accepted iterations; 0: none accepted */
	uint64_t load; /* part of the sum */
	uint64_t doubted_ns; /* time of an iteration that could not be met; 0: none */
	uint64_t doubted_from; /* done_iterations when it came first */
};

/*
 * The policy's op `accepts`. *sum is the sum of all loads. If the iteration is accepted, the load
 * of s follows the expected time.
 */
enum sal_reason sal_load_accepts(uint64_t *sum, struct sal_load *load, const struct sal_session *s,
				 const struct sal_iteration *it, uint64_t *out_value);

/* The session leaves. */
void sal_load_drop(uint64_t *sum, struct sal_load *load);

#endif
