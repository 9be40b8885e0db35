/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srtf - the estimate of a job's remaining time, for the policies that use it.
 */
#ifndef SAL_CORE_POLICY_SRTF_H
#define SAL_CORE_POLICY_SRTF_H

#include "core/policy.h"

/*
 * The declared or remembered total minus the used time. A job may need an eighth more. If the total
 * is unknown, or more than that is used, the estimate is the used time, and at least guess_ns. So a
 * job gains nothing by hiding its length.
 */
uint64_t sal_srtf_remaining(const struct sal_session *s, uint64_t guess_ns);
/*
 * The same as one number to rank by. Sessions of which nothing is known have the same estimate for a
 * long time: of these, the one that had the least goes first, in turns.
 */
uint64_t sal_srtf_place(const struct sal_session *s, uint64_t guess_ns);

#endif
