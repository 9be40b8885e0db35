/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver - an engine with a virtual clock, its records, and well-behaved jobs.
 *
 * Tests pass events to the engine one by one (drv_open, drv_submit, drv_done, ...), or add loads
 * and advance the clock (drv_add, drv_run). The driver calls sal_engine_check after every event; a
 * broken invariant fails the test. A struct drv_job stands for a session.
 */
#ifndef SAL_TESTS_SUPPORT_DRIVER_H
#define SAL_TESTS_SUPPORT_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/lane.h"
#include "core/policy.h"
#include "support/rng.h"

#define DRV_DEPTH 8
#define DRV_NEVER UINT64_MAX

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SEC UINT64_C(1000000000)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* A job that runs by itself: it submits iterations until `count` are done, then closes. */
struct drv_load {
	struct sal_job job;
	struct sal_needs needs; /* of each iteration; all zero: as declared */
	uint64_t start_ns;
	uint64_t count; /* 0: endless */
	uint64_t iter_ns;
	uint64_t jitter_ns; /* an iteration takes up to this much longer */
	uint64_t gap_ns; /* from the end of an iteration to the next submission */
	uint32_t depth; /* iterations submitted in advance, 1..DRV_DEPTH; 0: two */
};

struct drv_job {
	struct sal_session *s; /* borrowed: engine; NULL before open and after close */
	uint64_t id;
	struct drv_load load;
	struct sal_iteration its[DRV_DEPTH];
	uint64_t submitted, done, grants, refusals;
	uint64_t first_ns, end_ns; /* first grant, close; DRV_NEVER */
	uint64_t submit_at_ns, run_ends_ns, copy_ends_ns; /* DRV_NEVER: not planned */
	uint64_t run_ns; /* length of the running iteration */
	bool loaded, came, copies_in;
};

struct drv {
	struct sal_engine *engine; /* owned */
	uint64_t now_ns, wake_ns; /* wake_ns 0: no wake-up requested */
	struct sal_tuning tuning;
	struct rng rng;
	struct sal_record *records; /* owned; decisions only */
	size_t count, room, mark;
	uint64_t hash; /* of all records, events included */
	struct drv_job **jobs; /* owned */
	size_t job_count, job_room;
	sal_emit_fn *tap; /* gets every record first; may be NULL */
	void *tap_ctx; /* borrowed: the test's */
};

/* The minimum: one lane or as many as the policy wants, fast paging, no anticipation. */
struct sal_tuning drv_plain_tuning(void);

/* tuning may be NULL: drv_plain_tuning. */
void drv_start(struct drv *d, uint64_t capacity, const struct sal_policy *policy,
	       const struct sal_tuning *tuning);
void drv_stop(struct drv *d);

/* Events, one by one */

struct drv_job *drv_open(struct drv *d, uint64_t persist, uint64_t ephem);
struct drv_job *drv_open_job(struct drv *d, const struct sal_job *job);
void drv_submit(struct drv *d, struct drv_job *j, uint64_t persist, uint64_t ephem);
/* An iteration with the declared needs, of the program that `pace` is about. */
void drv_submit_program(struct drv *d, struct drv_job *j, uint64_t program, struct sal_pace *pace,
			uint64_t expected_ns);
void drv_submit_short(struct drv *d, struct drv_job *j, uint64_t expected_ns);
void drv_done(struct drv *d, struct drv_job *j, uint64_t used_ns); /* takes used_ns */
void drv_need(struct drv *d, struct drv_job *j, uint64_t persist);
void drv_declare(struct drv *d, struct drv_job *j, const struct sal_job *job);
void drv_pause(struct drv *d, struct drv_job *j);
void drv_resume(struct drv *d, struct drv_job *j);
void drv_close(struct drv *d, struct drv_job *j);
void drv_copied(struct drv *d, struct drv_job *j); /* its page-out or page-in has ended */
void drv_copy_failed(struct drv *d, struct drv_job *j); /* its copy has ended, and nothing moved */
void drv_tick(struct drv *d);
void drv_pass(struct drv *d, uint64_t ns); /* advances the clock; ticks if asked to */
void drv_set_policy(struct drv *d, const struct sal_policy *policy);
void drv_set_tuning(struct drv *d, const struct sal_tuning *tuning);

/* Loads */

struct drv_job *drv_add(struct drv *d, const struct drv_load *load);

/* Runs the next event, if it comes before `until_ns`; otherwise returns false. */
bool drv_step(struct drv *d, uint64_t until_ns);
void drv_run_until(struct drv *d, uint64_t until_ns);

/* Runs until every load has ended. Fails after `most` steps, or if no event is left. */
void drv_run(struct drv *d, uint64_t most);

/* What the engine said */

/* Forgets all records so far, for the next three functions. */
void drv_mark(struct drv *d);

/* The number of such records since the mark; of this job, or of any (NULL). */
size_t drv_said(const struct drv *d, enum sal_what what, const struct drv_job *j);

/* The last such record since the mark. Fails if there is none. */
const struct sal_record *drv_last(const struct drv *d, enum sal_what what, const struct drv_job *j);

/* The order of grants since the mark, as letters: 'a' is the first job opened. */
const char *drv_grants(const struct drv *d, char *text, size_t size);

static inline bool drv_runs(const struct drv_job *j)
{
	return j->s && j->s->running;
}

static inline bool drv_is_in(const struct drv_job *j)
{
	return j->s && j->s->place == SAL_RESIDENT;
}

uint64_t drv_free(const struct drv *d);
uint32_t drv_lanes(const struct drv *d);

#endif
