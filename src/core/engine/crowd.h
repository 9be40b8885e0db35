/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd - sessions that run side by side: what they achieve together, and who may join them.
 */
#ifndef SAL_CORE_ENGINE_CROWD_H
#define SAL_CORE_ENGINE_CROWD_H

#include "core/engine.h"

/* Sums that lose half of their weight every few seconds. */
struct sal_gain {
	uint64_t busy_ns; /* time in which an iteration ran */
	uint64_t lanes_ns; /* the same, counted once for each iteration that ran */
	uint64_t alone_ns; /* time alone of the iterations that ended */
};

/* A trial of one lane more, or of one less: see pay.c. */
enum sal_trial_way {
	SAL_TRIAL_NONE,
	SAL_TRIAL_MORE,
	SAL_TRIAL_LESS
};

struct sal_trial {
	uint32_t extra; /* lanes beyond those that the model says pay */
	enum sal_trial_way way;
	bool turns_down; /* the next trial is of one lane less */
	uint32_t rate_milli; /* progress per time before the trial */
	uint64_t changed_ns; /* when `extra` changed */
	uint64_t next_ns; /* no trial before this time */
	uint32_t vain; /* trials in a row that changed nothing */
	/* the window: time in which the number of lanes mattered */
	uint64_t passed_ns, alone_ns;
	uint32_t ends; /* iterations that ended in it */
	uint32_t skips; /* so many more do not count */
	bool matters; /* the model says that one of those that run, or that wait, does not pay */
	bool starves; /* somebody waits for that reason */
};

/* pay.c */

/* Sessions that run side by side. */
struct sal_crowd {
	uint32_t count; /* of them */
	uint32_t behind; /* how many of them have tier 1 */
	uint32_t util_milli; /* sum of the parts of the device that they fill */
	uint32_t behind_milli; /* that sum, of tier 1 alone */
	bool is_known; /* the sums have no guesses */
	bool is_filled; /* one of them fills the device by itself */
	bool solo; /* one of them must stay alone */
	struct sal_session *first; /* in rank */
};
/* Those that run now; if `before` is not NULL, only those before it in rank. */
void sal_crowd_running(const struct sal_engine *e, const struct sal_session *before,
		       struct sal_crowd *out);
void sal_crowd_add(struct sal_crowd *crowd, struct sal_session *s, uint32_t tier);
/* Their progress together, in thousandths of the progress of one that runs alone. */
uint32_t sal_crowd_rate(const struct sal_crowd *crowd);
enum sal_hold sal_hold_back(const struct sal_engine *e, const struct sal_crowd *crowd,
			    struct sal_session *s);
/* Must the next iteration of s run alone, to be measured? */
bool sal_wants_solo(const struct sal_engine *e, const struct sal_session *s);
/* The first in rank of the sessions that have or recently had work; NULL: unknown. */
struct sal_session *sal_front(const struct sal_engine *e);
/* The tier of the session's next grant. A change costs as much as a move to another lane. */
uint32_t sal_next_tier(const struct sal_engine *e, const struct sal_session *s);
/* Does a session run that the policy lets slow the first in rank? */
bool sal_runs_beside_equal(const struct sal_engine *e, const struct sal_session *first);
uint32_t sal_pace_util(const struct sal_pace *pace);
/* Is s, beside these, one more than the model says pay? May trials show whether it pays? */
bool sal_is_extra(const struct sal_engine *e, const struct sal_crowd *crowd, struct sal_session *s);
/* An iteration ended: count its time alone. At the end of a window, learn and try. */
void sal_trial_count(struct sal_engine *e, uint64_t alone_ns);
void sal_pace_forget(const struct sal_engine *e, struct sal_pace *pace);
bool sal_is_short(const struct sal_engine *e, const struct sal_iteration *it);
bool sal_is_brief(const struct sal_engine *e, const struct sal_session *s); /* what runs is short */

/* pace.c */
void sal_gain_pass_time(struct sal_engine *e, uint64_t passed_ns);
void sal_pace_start(struct sal_engine *e, struct sal_session *s);
/* Learn from an iteration that ended. Returns the device time to charge. */
uint64_t sal_pace_end(struct sal_engine *e, struct sal_session *s, struct sal_iteration *it,
		      uint64_t used_ns);

#endif
