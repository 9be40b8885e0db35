/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine - all decisions about one device: who is let in, who runs next, who must make room.
 *
 * Events go in with the time; decisions come out through `emit` before the call returns. There is
 * no I/O, clock, thread or global here, and nothing is allocated but in create and open. The daemon
 * and the simulator link the same objects, so a simulated schedule is what the daemon would do.
 * Several devices are several engines; a session lives on one.
 *
 * After every event, whatever the events were:
 *   - persistent bytes of resident sessions + sizes of lanes <= capacity;
 *   - an idle lane has no session that could run, unless the turn of one is reserved;
 *   - no session with work lives in a stuck lane if it could have room elsewhere;
 *   - if nothing runs, copies or reserves a turn, then no session waits for memory it could have.
 *
 * Threads: none. The caller serialises calls. `emit` must not call the engine.
 */
#ifndef SAL_CORE_ENGINE_H
#define SAL_CORE_ENGINE_H

#include "base/err.h"
#include "core/job.h"
#include "core/memory.h"
#include "core/policies.h"
#include "core/record.h"
#include "core/tuning.h"
#include "core/view.h"

struct sal_engine;
struct sal_session;

/* s and it are those of the record, or NULL. Valid during the call. */
typedef void sal_emit_fn(void *ctx, const struct sal_record *r, struct sal_session *s,
			 struct sal_iteration *it);

struct sal_engine_config {
	uint64_t capacity_bytes;
	const struct sal_policy *policy; /* NULL: fifo */
	struct sal_tuning tuning;
	sal_emit_fn *emit; /* may be NULL */
	void *emit_ctx;
	bool emit_events; /* pass events to emit too, each before the decisions it causes */
};

int sal_engine_create(const struct sal_engine_config *cfg, struct sal_engine **out_engine,
		      struct sal_err *err);

/* Forgets all sessions, in whatever state. Accepts NULL. */
void sal_engine_destroy(struct sal_engine *e);

/*
 * A job came. It is admitted as soon as there is room for what it declared, or refused if it could
 * not fit even alone; a refused session stays until it is closed. The session belongs to the
 * engine.
 */
int sal_engine_open(struct sal_engine *e, uint64_t now_ns, const struct sal_job *job, void *user,
		    struct sal_session **out_session, struct sal_err *err);

/*
 * The job left. Its queued iterations are dropped. If one runs or a copy is under way, the
 * session's memory is given back when that is reported; the pointer is good until then, and no
 * longer. Its lane is busy until then, and stuck after tuning.stuck_ns.
 */
void sal_engine_close(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);

/* New facts or wishes about the job. Needs it outgrew are no error, they are hints. */
void sal_engine_declare(struct sal_engine *e, uint64_t now_ns, struct sal_session *s,
			const struct sal_job *job);

/*
 * The session wants to hold persist_bytes between iterations, more or less than now. Less takes
 * effect at once; more is answered by SAL_ADMIT with at least that many, now or later, or
 * SAL_REFUSE.
 */
void sal_engine_need(struct sal_engine *e, uint64_t now_ns, struct sal_session *s,
		     uint64_t persist_bytes);

/*
 * Queue an iteration. SAL_GRANT follows in its time, or SAL_REFUSE when it is its turn and it
 * cannot fit.
 */
void sal_engine_submit(struct sal_engine *e, uint64_t now_ns, struct sal_session *s,
		       struct sal_iteration *it);

/* The iteration of s that was granted has ended. */
void sal_engine_done(struct sal_engine *e, uint64_t now_ns, struct sal_session *s,
		     uint64_t used_ns);

/*
 * A copy has ended; each SAL_PAGE_OUT and SAL_PAGE_IN is answered by exactly one of these four.
 * paged_out: no byte of the session is on the device any more. paged_in: all are there.
 */
void sal_engine_paged_out(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);
void sal_engine_paged_in(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);

/*
 * The copy failed, if only in part. The engine takes its decision back. It counts all bytes of the
 * session as on the device, and the session as resident: it may get SAL_GRANT in the same call. So
 * the caller brings back what it had already copied, or does so before the next iteration uses it.
 * SAL_ADMIT follows. The session is not asked to go again for 2 s, then 4 s, up to 64 s; others
 * are, or the one that waits for room goes on waiting. If nothing can go on without that room, the
 * last in line is told SAL_REFUSE_PAGE_OUT.
 */
void sal_engine_page_out_failed(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);

/*
 * The copy failed, if only in part. The engine gives the session's room away at once, so the caller
 * frees what it had already brought in, and keeps the copy in host memory. The session is let in
 * again, with another SAL_PAGE_IN, after 1 s, then 2 s, up to 8 s. From the fourth failure in a row
 * on, its queued iterations and its open need are refused with SAL_REFUSE_PAGE_IN each time; the
 * session stays.
 */
void sal_engine_page_in_failed(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);

void sal_engine_tick(struct sal_engine *e, uint64_t now_ns);

/*
 * Fails only for a policy whose slot or state is too large, or that lacks an op that is required.
 */
int sal_engine_set_policy(struct sal_engine *e, uint64_t now_ns, const struct sal_policy *policy,
			  struct sal_err *err);
void sal_engine_set_tuning(struct sal_engine *e, uint64_t now_ns, const struct sal_tuning *tuning);

/*
 * Change a parameter of the policy in force, counted from 0; one that it does not have is left
 * alone. A policy that is chosen starts with its defaults.
 */
void sal_engine_set_param(struct sal_engine *e, uint64_t now_ns, uint32_t param, uint64_t value);

/* Change a knob or a parameter, as sal_change_parse found it for the policy in force. */
void sal_engine_change(struct sal_engine *e, uint64_t now_ns, const struct sal_change *change);

/* A paused session gets no grants; what runs goes on to its end. */
void sal_engine_pause(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);
void sal_engine_resume(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);

const struct sal_policy *sal_engine_policy(const struct sal_engine *e);
const struct sal_tuning *sal_engine_tuning(const struct sal_engine *e);
uint64_t sal_engine_param(const struct sal_engine *e, uint32_t param);
const struct sal_memory *sal_engine_memory(const struct sal_engine *e);
/* Most lanes it would open. */
uint32_t sal_engine_lane_limit(const struct sal_engine *e);
uint32_t sal_engine_resident_count(const struct sal_engine *e);
uint32_t sal_engine_waiting_count(const struct sal_engine *e);

/*
 * Verifies every invariant from scratch; false and a sentence in err if one is broken. O(n log n).
 */
bool sal_engine_check(const struct sal_engine *e, struct sal_err *err);

#endif
