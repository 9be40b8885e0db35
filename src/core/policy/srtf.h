/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srtf - the estimate of a job's remaining time, shared by the policies that use one.
 */
#ifndef SAL_CORE_POLICY_SRTF_H
#define SAL_CORE_POLICY_SRTF_H

#include "core/policy.h"

/*
 * Declared or remembered total less what was used. A job that is over its total or never had one is
 * taken to need as long again as it has run, and at least guess_ns: not telling never wins.
 */
uint64_t sal_srtf_remaining(const struct sal_session *s, uint64_t guess_ns);

#endif
