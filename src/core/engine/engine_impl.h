/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_impl - what the files of the engine share. Nobody else includes this.
 *
 *     engine.c   events in: change the session, then settle
 *     settle.c   the loop after every event: let in, make room, start lanes, ask to be woken
 *     admit.c    who needs memory, and giving it
 *     page.c     making room by paging out
 *     retry.c    copies that failed
 *     run.c      who may run, whose turn it is
 *     home.c     which lane a session lives in
 *     reread.c   what a policy asks of the engine
 *     tune.c     knobs and parameters
 *     stuck.c    lanes whose iteration does not end
 *     order.c    the trees
 *     view.c     what callers see
 *     explain.c  why a session does not run
 *     check.c    the invariants, verified from scratch
 */
#ifndef SAL_CORE_ENGINE_IMPL_H
#define SAL_CORE_ENGINE_IMPL_H

#include "core/engine.h"
#include "core/lane.h"
#include "core/order.h"
#include "core/policy.h"

/* How many sessions a search goes through, behind one that does not fit. */
#define SAL_SEARCH_MAX 64

struct sal_engine {
	uint64_t now_ns;
	struct sal_memory memory;
	struct sal_lane lanes[SAL_LANES_MAX];
	const struct sal_policy *policy; /* borrowed: static */
	_Alignas(max_align_t) unsigned char state[SAL_STATE_BYTES];
	uint64_t device_ns; /* used by all sessions since the policy was chosen */
	uint64_t alarm_ns; /* the policy is called when device_ns gets there; UINT64_MAX: not */
	bool reread; /* the policy asked for all ranks to be read again */
	struct sal_tuning tuning;
	uint64_t params[SAL_PARAMS_MAX]; /* of the policy */
	sal_emit_fn *emit;
	void *emit_ctx; /* borrowed: the caller's */
	bool emit_events;

	uint64_t next_id;
	struct sal_session_list sessions; /* owned; in order of opening */
	struct sal_resident_tree resident; /* by rank */
	struct sal_waiting_tree waiting; /* those with work first, then by rank */
	struct sal_session_list idle; /* resident without work, longest idle first */
	struct sal_session_list aged; /* waiting and passed over too often */
	struct sal_session_list growing; /* resident and waiting for more */
	struct sal_session_list resting; /* outside, not let in before their time */
	uint32_t resident_count, waiting_count, running_count, copying_count, ready_count;
	uint32_t stuck_count; /* lanes; each runs one of running_count */

	struct sal_session *claimant; /* room is being made for it; NULL: for nobody */
	struct sal_session_list evictees; /* to be paged out for it at their boundary */
	uint64_t retry_ns; /* somebody idle can be asked to make room then; 0: no need */
	uint64_t search_ns; /* no search for room before that */
	uint64_t wake_ns; /* last SAL_WAKE_AT */
	uint64_t dirty_mask; /* lanes whose turn has to be decided */
	bool lanes_freed; /* there may be room for one more lane */
	bool memory_changed; /* somebody waiting may fit now */
	bool lanes_over; /* more lanes than wanted, or wrongly shared: move sessions */
};

/* engine.c */
void sal_emit(struct sal_engine *e, enum sal_what what, struct sal_session *s,
	      struct sal_iteration *it, uint64_t value);
void sal_eject_policy(struct sal_engine *e, enum sal_reason reason);
void sal_session_release(struct sal_engine *e, struct sal_session *s);
void sal_begin(struct sal_engine *e, uint64_t now_ns, enum sal_what what, struct sal_session *s,
	       struct sal_iteration *it, uint64_t value);
void sal_give_back(struct sal_engine *e, struct sal_session *s);

/* reread.c: what a policy asked for */
void sal_reread_ranks(struct sal_engine *e);
void sal_count_device_time(struct sal_engine *e, uint64_t used_ns);

/* tune.c */
void sal_set_param_defaults(struct sal_engine *e);

/* settle.c */
void sal_settle(struct sal_engine *e);

/* order.c: re-file s after anything about it changed; take it out of every order */
void sal_refile(struct sal_engine *e, struct sal_session *s);
void sal_unfile(struct sal_engine *e, struct sal_session *s);

/* admit.c */
struct sal_needs sal_wants(const struct sal_engine *e, const struct sal_session *s);
bool sal_waits_for_memory(const struct sal_engine *e, const struct sal_session *s);
bool sal_is_satisfied(const struct sal_session *s);
void sal_hold_bytes(struct sal_engine *e, struct sal_session *s, uint64_t bytes);
bool sal_refuse_too_large(struct sal_engine *e, struct sal_session *s, struct sal_needs needs,
			  struct sal_iteration *it);
void sal_refuse(struct sal_engine *e, struct sal_session *s, struct sal_needs needs,
		struct sal_iteration *it, enum sal_reason reason);
void sal_drop_impossible(struct sal_engine *e, struct sal_session *s);
void sal_admit_waiting(struct sal_engine *e);
bool sal_try_admit(struct sal_engine *e, struct sal_session *s);

/* page.c */
void sal_make_room(struct sal_engine *e);
bool sal_break_deadlock(struct sal_engine *e);
bool sal_claim_has_hope(const struct sal_engine *e);
void sal_drop_claim(struct sal_engine *e);
void sal_spare_evictees(struct sal_engine *e);
void sal_page_out(struct sal_engine *e, struct sal_session *s);

/* retry.c */
#define SAL_PAGE_TRIES_MAX 4u /* after so many failures in a row nobody waits for a copy any more */
void sal_end_rests(struct sal_engine *e);
uint64_t sal_next_rest_end(const struct sal_engine *e); /* UINT64_MAX: nobody rests */

/* run.c */
bool sal_is_ready(const struct sal_engine *e, const struct sal_session *s);
bool sal_is_express(const struct sal_engine *e, const struct sal_session *s);
void sal_run_lane(struct sal_engine *e, struct sal_lane *lane);
uint64_t sal_reserve_window(const struct sal_engine *e, const struct sal_session *s);
void sal_learn_gap(struct sal_engine *e, struct sal_session *s);

/* stuck.c */
void sal_watch_lane(struct sal_engine *e, struct sal_lane *lane); /* from its start_ns on */
void sal_unstick_lane(struct sal_engine *e, struct sal_lane *lane); /* its iteration has ended */
void sal_find_stuck(struct sal_engine *e);
uint64_t sal_next_stuck(const struct sal_engine *e); /* UINT64_MAX: no alarm is needed */

/* home.c */
struct sal_lane_choice sal_lane_choice(const struct sal_engine *e, const struct sal_memory *m,
				       const struct sal_session *s);
int sal_find_home(const struct sal_engine *e, const struct sal_memory *m,
		  const struct sal_session *s);
void sal_enter_lane(struct sal_engine *e, struct sal_session *s, uint32_t index);
void sal_leave_lane(struct sal_engine *e, struct sal_session *s);
void sal_fit_lane(struct sal_engine *e, struct sal_lane *lane);
void sal_move_home(struct sal_engine *e, struct sal_session *s, uint32_t index);
void sal_spread(struct sal_engine *e);
void sal_gather(struct sal_engine *e);
uint32_t sal_lane_limit(const struct sal_engine *e);
bool sal_place_range(struct sal_engine *e, struct sal_lane *lane);

/* Has s work for which its lane will have no turn? */
static inline bool sal_is_stranded(const struct sal_session *s)
{
	return s->lane && s->lane->stuck && !s->running && !TAILQ_EMPTY(&s->queue);
}

/* Will something end by itself? */
static inline bool sal_makes_progress(const struct sal_engine *e)
{
	return e->running_count > e->stuck_count;
}

static inline void sal_mark_dirty(struct sal_engine *e, const struct sal_lane *lane)
{
	e->dirty_mask |= UINT64_C(1) << lane->index;
}

#endif
