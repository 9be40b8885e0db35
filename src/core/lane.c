/* SPDX-License-Identifier: Apache-2.0 */
#include "core/lane.h"

#include <string.h>

#include "core/order.h"
#include "core/policy.h"

void sal_lane_init(struct sal_lane *lane, uint32_t index)
{
	memset(lane, 0, sizeof(*lane));
	lane->index = index;
	RB_INIT(&lane->members);
	RB_INIT(&lane->ready);
	TAILQ_INIT(&lane->express);
}

uint64_t sal_lane_need(const struct sal_lane *lane)
{
	const struct sal_session *largest =
		sal_size_tree_RB_MINMAX((struct sal_size_tree *)&lane->members, RB_NEGINF);

	return largest ? largest->ephem_bytes : 0;
}

void sal_lane_join(struct sal_lane *lane, struct sal_session *s)
{
	RB_INSERT(sal_size_tree, &lane->members, s);
	lane->member_count++;
	lane->kind_count[s->job.kind]++;
}

void sal_lane_leave(struct sal_lane *lane, struct sal_session *s)
{
	RB_REMOVE(sal_size_tree, &lane->members, s);
	lane->member_count--;
	lane->kind_count[s->job.kind]--;
}

struct sal_session *sal_lane_first(const struct sal_lane *lane)
{
	return sal_ready_tree_RB_MINMAX((struct sal_ready_tree *)&lane->ready, RB_NEGINF);
}

struct sal_session *sal_lane_next(const struct sal_session *s)
{
	return sal_ready_tree_RB_NEXT((struct sal_session *)s);
}
