/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane - a slice of the device in which one iteration at a time may run.
 *
 * Sessions sharing a lane take turns with its scratch, so a lane is as large as its hungriest
 * member, not as their sum. It is one contiguous range of the device. Between two iterations the
 * range is empty, so a lane may then move, grow or shrink for nothing: that is all the
 * defragmentation there is. While an iteration runs, [at, at + span) stays where it is.
 *
 * Owns: bookkeeping only. It holds offsets, never device pointers.
 * Threads: none.
 */
#ifndef SAL_CORE_LANE_H
#define SAL_CORE_LANE_H

#include "core/session.h"

struct sal_lane {
	uint32_t index;
	bool open;
	bool draining; /* one too many: its sessions move elsewhere */
	struct sal_session *running; /* borrowed: engine; NULL at a boundary */
	struct sal_session *last; /* who ran last; only compared, never followed */

	struct sal_size_tree members; /* by scratch, largest first */
	uint32_t member_count;
	uint32_t kind_count[SAL_KINDS];
	struct sal_ready_tree ready; /* by rank: may run, or its turn is reserved */
	uint32_t ready_count;
	struct sal_session_list express; /* short programs, in order of submission */
	bool express_served; /* the last one was short: the policy's pick goes first */

	uint64_t start_ns; /* of the iteration that runs */
	uint64_t stuck_at_ns; /* it has run too long then; UINT64_MAX: never */
	bool stuck; /* it has run too long: nobody waits for its end (stuck.c) */

	uint64_t at; /* range of the iteration that runs, or of the last one */
	uint64_t span;
	bool shifted; /* waits for a neighbour's boundary to get its range */
	uint64_t reserved_until_ns; /* idle on purpose until then; 0: not */

	/*
	 * The policy's. A new lane takes over the largest clock there is, and gets an empty slot.
	 */
	uint64_t clock;
	_Alignas(max_align_t) unsigned char slot[SAL_LANE_SLOT_BYTES];
};

struct sal_engine;

/* NULL if there is none of that number. For tests and the simulator. */
const struct sal_lane *sal_engine_lane(const struct sal_engine *e, uint32_t index);

/* Largest scratch among the members. */
uint64_t sal_lane_need(const struct sal_lane *lane);

void sal_lane_init(struct sal_lane *lane, uint32_t index);
void sal_lane_join(struct sal_lane *lane, struct sal_session *s);
void sal_lane_leave(struct sal_lane *lane, struct sal_session *s);

#endif
