/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_impl - the struct and the functions that the files of the engine share. Private to them.
 *
 *     engine.c   events in: change the session, then settle
 *     settle.c   the loop after every event: admit, make room, start lanes, ask for a tick
 *     accept.c   which iterations the policy refuses
 *     kind.c     which kind a session is of
 *     admit.c    which sessions need memory, and who gets it
 *     page.c     making room by paging out
 *     retry.c    copies that failed
 *     run.c      which session may run, whose turn it is in a lane
 *     fill.c     which sessions run in several lanes
 *     pay.c      may a session run beside others?
 *     pace.c     how long programs take alone, what part of the device they fill
 *     home.c     which lane a session lives in
 *     reread.c   requests of a policy: reread the ranks, call its alarm
 *     tune.c     knobs and parameters
 *     stuck.c    lanes whose iteration does not end
 *     order.c    the trees
 *     view.c     copies of sessions and lanes for callers
 *     explain.c  why a session does not run
 *     check.c    the invariants, verified from scratch
 */
#ifndef SAL_CORE_ENGINE_IMPL_H
#define SAL_CORE_ENGINE_IMPL_H

#include "core/engine.h"
#include "core/engine/crowd.h"
#include "core/lane.h"
#include "core/order.h"
#include "core/policy.h"

/* An ordinary search gives up after this many sessions that do not help. */
#define SAL_SEARCH_MAX 64

struct sal_engine {
	uint64_t now_ns;
	struct sal_memory memory;
	struct sal_lane lanes[SAL_LANES_MAX];
	const struct sal_policy *policy; /* borrowed: static */
	_Alignas(max_align_t) unsigned char state[SAL_STATE_BYTES];
	uint64_t device_ns; /* device time of all sessions since the policy was chosen */
	uint64_t alarm_ns; /* the policy's alarm is due at this device_ns; UINT64_MAX: never */
	bool reread; /* the policy asked the engine to read all ranks again */
	struct sal_tuning tuning;
	uint64_t params[SAL_PARAMS_MAX]; /* of the policy */
	sal_emit_fn *emit;
	void *emit_ctx; /* borrowed: the caller's */
	bool emit_events;
	uint64_t next_id;
	struct sal_session_list sessions; /* owned; in order of opening */
	struct sal_turn_tree turns; /* the ready sessions of all lanes, by rank */
	struct sal_resident_tree resident; /* by rank */
	struct sal_waiting_tree waiting; /* sessions with work first, then by rank */
	struct sal_session_list idle; /* resident, without work or paused; longest idle first */
	struct sal_session_list aged; /* waiting, and passed over too often */
	struct sal_session_list growing; /* resident, and waiting for more memory */
	struct sal_session_list resting; /* outside; not admitted before rest_until_ns */
	uint32_t resident_count, waiting_count, running_count, copying_count, ready_count;
	uint32_t stuck_count; /* stuck lanes; each runs one of the running_count iterations */

	struct sal_session *claimant; /* the engine makes room for this session; NULL: none */
	struct sal_session_list evictees; /* paged out at their next boundary, for the claimant */
	uint64_t retry_ns; /* from then on another session may be paged out; 0: no need */
	uint64_t search_ns; /* no search for room before this time */
	uint64_t wake_ns; /* time in the last SAL_WAKE_AT; 0: none pending */
	uint64_t crowd_ns; /* time so far in which several iterations ran */
	struct sal_gain gain;
	struct sal_trial trial;
	struct sal_session *solo_next; /* all lanes drain until it can run alone; NULL: none */
	bool holds_back; /* a session waits although a lane is idle (pay.c) */
	bool squeezed; /* a session waits for memory that lanes but one would free */
	uint64_t dirty_mask; /* lanes whose next turn is undecided */
	bool lanes_freed; /* there may be room for another lane */
	bool memory_changed; /* a waiting session may fit now */
	bool lanes_over; /* too many lanes, or sessions in a wrong lane: move sessions */
};

/* engine.c */
void sal_emit(struct sal_engine *e, enum sal_what what, struct sal_session *s,
	      struct sal_iteration *it, uint64_t value);
void sal_eject_policy(struct sal_engine *e, enum sal_reason reason);
void sal_session_release(struct sal_engine *e, struct sal_session *s);
void sal_pass_time(struct sal_engine *e, uint64_t now_ns);
void sal_begin(struct sal_engine *e, uint64_t now_ns, enum sal_what what, struct sal_session *s,
	       struct sal_iteration *it, uint64_t value);
void sal_give_back(struct sal_engine *e, struct sal_session *s);

/* accept.c: false if the policy refuses the iteration; the caller then drops it */
bool sal_accept(struct sal_engine *e, struct sal_session *s, struct sal_iteration *it);

/* scratch.c: at submit; at the end */
void sal_scratch_expect(struct sal_session *s, struct sal_iteration *it);
void sal_scratch_learn(struct sal_engine *e, struct sal_session *s, const struct sal_iteration *it);

/* kind.c */
void sal_take_job(struct sal_session *s, const struct sal_job *job); /* new facts and wishes */
void sal_note_gap(struct sal_engine *e, struct sal_session *s, const struct sal_iteration *it);
void sal_find_kind(struct sal_engine *e, struct sal_session *s, const struct sal_iteration *it,
		   uint64_t used_ns);

/* reread.c */
void sal_reread_ranks(struct sal_engine *e);
void sal_count_device_time(struct sal_engine *e, uint64_t used_ns);

/* tune.c, settle.c */
void sal_set_param_defaults(struct sal_engine *e);
void sal_settle(struct sal_engine *e);

/* order.c: put s into its trees and lists after a change; take s out of all of them */
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
void sal_resize_scratch(struct sal_engine *e, struct sal_session *s, uint64_t bytes);

/* page.c */
void sal_make_room(struct sal_engine *e);
bool sal_break_deadlock(struct sal_engine *e);
bool sal_claim_has_hope(const struct sal_engine *e);
void sal_drop_claim(struct sal_engine *e);
void sal_spare_evictees(struct sal_engine *e);
void sal_page_out(struct sal_engine *e, struct sal_session *s);

/* retry.c */
#define SAL_PAGE_TRIES_MAX 4u /* after so many failures in a row no request waits for the copy */
void sal_end_rests(struct sal_engine *e);
uint64_t sal_next_rest_end(const struct sal_engine *e); /* UINT64_MAX: no session rests */

/* run.c */
bool sal_is_ready(const struct sal_engine *e, const struct sal_session *s);
bool sal_is_express(const struct sal_engine *e, const struct sal_session *s);
void sal_run_lane(struct sal_engine *e, struct sal_lane *lane);
struct sal_session *sal_pick(struct sal_engine *e, struct sal_lane *lane);
void sal_grant(struct sal_engine *e, struct sal_lane *lane, struct sal_session *s);
uint64_t sal_reserve_window(const struct sal_engine *e, const struct sal_session *s);
void sal_learn_gap(struct sal_engine *e, struct sal_session *s);

/* fill.c */
void sal_fill_lanes(struct sal_engine *e);
bool sal_may_move(const struct sal_engine *e, const struct sal_session *s);

/* stuck.c */
void sal_watch_lane(struct sal_engine *e, struct sal_lane *lane); /* sets stuck_at_ns */
void sal_unstick_lane(struct sal_engine *e, struct sal_lane *lane); /* its iteration ended */
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
uint32_t sal_open_count(const struct sal_engine *e); /* lanes, without stuck ones */
bool sal_may_share(const struct sal_engine *e, const struct sal_lane *lane,
		   const struct sal_session *s);
bool sal_policy_opens(const struct sal_engine *e, const struct sal_memory *m,
		      const struct sal_session *s);
void sal_squeeze_lanes(struct sal_engine *e);
/* Does a session that comes before s wait for memory that a lane more would take from it? */
bool sal_is_lane_needed(const struct sal_engine *e, const struct sal_session *s);
bool sal_place_range(struct sal_engine *e, struct sal_lane *lane);

/* Does s have queued work but live in a stuck lane, which gives it no turn? */
static inline bool sal_is_stranded(const struct sal_session *s)
{
	return s->lane && s->lane->stuck && !s->running && !TAILQ_EMPTY(&s->queue);
}

/* Does an iteration run that will end? */
static inline bool sal_makes_progress(const struct sal_engine *e)
{
	return e->running_count > e->stuck_count;
}

static inline void sal_mark_dirty(struct sal_engine *e, const struct sal_lane *lane)
{
	e->dirty_mask |= UINT64_C(1) << lane->index;
}

#endif
