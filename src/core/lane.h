/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane - a slice of the device in which one iteration at a time may run.
 *
 * The sessions of a lane take turns with its scratch, so a lane is as large as the largest scratch
 * of its members, not as their sum. A lane is one contiguous range of the device. Between two
 * iterations the range is empty, so the lane can move, grow or shrink at no cost. There is no other
 * defragmentation. While an iteration runs, the range [at, at + span) does not move.
 *
 * Owns: bookkeeping only. A lane holds offsets, never device pointers.
 * Threads: none.
 */
#ifndef SAL_CORE_LANE_H
#define SAL_CORE_LANE_H

#include "core/session.h"

struct sal_lane {
	uint32_t index;
	bool open;
	bool draining; /* over the lane limit: its sessions move to other lanes */
	struct sal_session *running; /* borrowed: engine; NULL at a boundary */
	struct sal_session *last; /* the session that ran last; compared, never dereferenced */

	struct sal_size_tree members; /* by scratch, largest first */
	uint32_t member_count;
	uint32_t kind_count[SAL_KINDS];
	struct sal_ready_tree ready; /* by rank: sessions that may run or have a reserved turn */
	uint32_t ready_count;
	struct sal_session_list express; /* sessions with a short program next, oldest first */
	bool express_served; /* the last turn went to a short program: the policy's pick is next */

	uint64_t start_ns; /* of the running iteration */
	uint64_t stuck_at_ns; /* from then on the lane is stuck; UINT64_MAX: never */
	bool stuck; /* the iteration runs too long: no session waits for its end (stuck.c) */

	uint64_t at; /* start of the range of the running or the last iteration */
	uint64_t span;
	bool shifted; /* waits for a neighbour's boundary before it can take its range */
	uint64_t reserved_until_ns; /* the turn is reserved until then; 0: no reserved turn */

	/*
	 * For the policy. A new lane starts with the largest clock of all lanes and a zeroed slot.
	 */
	uint64_t clock;
	_Alignas(max_align_t) unsigned char slot[SAL_LANE_SLOT_BYTES];
};

struct sal_engine;

/* NULL if `index` is out of range. For tests and the simulator. */
const struct sal_lane *sal_engine_lane(const struct sal_engine *e, uint32_t index);

/* Largest scratch among the members. */
uint64_t sal_lane_need(const struct sal_lane *lane);

void sal_lane_init(struct sal_lane *lane, uint32_t index);
void sal_lane_join(struct sal_lane *lane, struct sal_session *s);
void sal_lane_leave(struct sal_lane *lane, struct sal_session *s);

#endif
