/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apart - inference and training in lanes of their own, for the policies that want this.
 *
 * Training has one lane. Inference has all other lanes, so a request never waits for a training
 * iteration. If the number of lanes is limited, one lane is left for training.
 */
#ifndef SAL_CORE_POLICY_APART_H
#define SAL_CORE_POLICY_APART_H

#include "core/lane.h"
#include "core/policy.h"

#define SAL_APART_NEW_NS UINT64_C(1000000000)

/*
 * Is s resident, and its kind unknown? Nobody declared the kind, and the device time is too short
 * to tell. Such a session runs before training. Otherwise a server would wait for training, and its
 * rhythm would never show.
 */
static inline bool sal_apart_is_new(const struct sal_session *s)
{
	return s->lane && s->job.kind_undeclared && s->job.kind == SAL_TRAINING &&
	       s->used_ns < SAL_APART_NEW_NS;
}

/* Does the lane have no session of the other kind? */
static inline bool sal_apart_shares(const struct sal_lane *lane, const struct sal_session *s)
{
	return lane->kind_count[s->job.kind == SAL_INFERENCE ? SAL_TRAINING : SAL_INFERENCE] == 0;
}

/* May s get one more lane beside `open` lanes of its kind? `lanes` is the most; 0: no limit. */
static inline bool sal_apart_opens(const struct sal_session *s, uint32_t open, uint32_t lanes)
{
	return open == 0 || (s->job.kind == SAL_INFERENCE && (!lanes || open + 1 < lanes));
}

#endif
