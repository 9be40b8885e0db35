/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine - all decisions about one device: which session is admitted, which one runs next, and
 * which one is paged out to make room.
 *
 * The caller reports events together with the time. The engine passes its decisions to `emit`
 * before the call returns. The engine has no I/O, clock, thread or global, and only create and open
 * allocate. The daemon and the simulator link the same object files, so the simulator decides
 * exactly as the daemon would. Each device has its own engine; a session lives on one device.
 *
 * Invariants, after every event:
 *   - persistent bytes of resident sessions + sizes of lanes <= capacity;
 *   - an idle lane has no session that can run, unless the lane reserves the turn for a session or
 *     waits for a neighbour's boundary, or an iteration runs and the session does not pay beside it;
 *   - of the sessions that can run, the first in rank run, unless a move would come too soon;
 *   - no session with work stays in a stuck lane if another lane has room for it;
 *   - if no session runs, copies or has a reserved turn, no session waits for memory that it could
 *     get.
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

/* `s` and `it` belong to the record; either may be NULL. Both are valid only during the call. */
typedef void sal_emit_fn(void *ctx, const struct sal_record *r, struct sal_session *s,
			 struct sal_iteration *it);

struct sal_engine_config {
	uint64_t capacity_bytes;
	const struct sal_policy *policy; /* NULL: fifo */
	struct sal_tuning tuning;
	sal_emit_fn *emit; /* may be NULL */
	void *emit_ctx;
	bool emit_events; /* pass events to emit too, each before the decisions that it causes */
};

int sal_engine_create(const struct sal_engine_config *cfg, struct sal_engine **out_engine,
		      struct sal_err *err);

/* Frees the engine and all its sessions, in any state. Accepts NULL. */
void sal_engine_destroy(struct sal_engine *e);

/*
 * A job starts. The engine admits the session as soon as its declared needs fit, or refuses the
 * session if they would not fit even alone. A refused session stays until the caller closes it.
 * The engine owns the session.
 */
int sal_engine_open(struct sal_engine *e, uint64_t now_ns, const struct sal_job *job, void *user,
		    struct sal_session **out_session, struct sal_err *err);

/*
 * The job ends. The engine drops its queued iterations. If an iteration or a copy of the session is
 * under way, the engine frees the session when the caller reports the end of that iteration or
 * copy; until then the pointer stays valid. Otherwise the engine frees the session at once. A
 * running iteration keeps its lane busy, and the lane becomes stuck after tuning.stuck_ns.
 */
void sal_engine_close(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);

/* Replaces the facts and wishes about the job. Declared needs are hints: a job may exceed them. */
void sal_engine_declare(struct sal_engine *e, uint64_t now_ns, struct sal_session *s,
			const struct sal_job *job);

/*
 * The session wants to hold persist_bytes between iterations, more or less than now. A smaller
 * number takes effect at once. A larger number is answered, now or later, by SAL_ADMIT with at
 * least that many bytes, or by SAL_REFUSE.
 */
void sal_engine_need(struct sal_engine *e, uint64_t now_ns, struct sal_session *s,
		     uint64_t persist_bytes);

/*
 * Queue an iteration. The engine answers with SAL_GRANT when the iteration may run, or with
 * SAL_REFUSE when the iteration is first in the queue and cannot fit. Closing the session drops the
 * iteration without an answer.
 */
void sal_engine_submit(struct sal_engine *e, uint64_t now_ns, struct sal_session *s,
		       struct sal_iteration *it);

/*
 * The granted iteration of s has ended; used_ns is its device time. s is charged with the time that
 * the iteration would have taken alone, as far as the engine knows it (struct sal_pace).
 */
void sal_engine_done(struct sal_engine *e, uint64_t now_ns, struct sal_session *s,
		     uint64_t used_ns);

/*
 * A copy has ended. The caller answers each SAL_PAGE_OUT with exactly one of paged_out and
 * page_out_failed, and each SAL_PAGE_IN with exactly one of paged_in and page_in_failed.
 * paged_out: no byte of the session is on the device. paged_in: all its bytes are on the device.
 */
void sal_engine_paged_out(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);
void sal_engine_paged_in(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);

/*
 * The page-out failed, wholly or in part. The engine takes its decision back: the session is
 * resident again, and all its bytes count as on the device. The session may get SAL_GRANT in the
 * same call, so the caller copies back the bytes that had left the device, at the latest before the
 * next iteration uses them. SAL_ADMIT follows. The engine does not choose this session for paging
 * out again for 2 s, then 4 s, up to 64 s. Meanwhile the engine pages out other sessions, or the
 * session that needs the room waits. If no session can go on without that room, the engine refuses
 * the last one in the order with SAL_REFUSE_PAGE_OUT.
 */
void sal_engine_page_out_failed(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);

/*
 * The page-in failed, wholly or in part. The engine gives the session's room away at once, so the
 * caller frees the bytes that it had copied to the device, and retains the copy in host memory. The
 * engine may try again, with another SAL_PAGE_IN, after 1 s, then 2 s, up to 8 s. From the fourth
 * failure in a row on, each failure also refuses the session's queued iterations and its open need,
 * with SAL_REFUSE_PAGE_IN. The session stays open.
 */
void sal_engine_page_in_failed(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);

void sal_engine_tick(struct sal_engine *e, uint64_t now_ns);

/*
 * Fails only if the policy's slots or state are too large, or if a required op is missing.
 */
int sal_engine_set_policy(struct sal_engine *e, uint64_t now_ns, const struct sal_policy *policy,
			  struct sal_err *err);
void sal_engine_set_tuning(struct sal_engine *e, uint64_t now_ns, const struct sal_tuning *tuning);

/*
 * Change a parameter of the policy in force; `param` counts from 0. Does nothing if the policy has
 * no such parameter. Choosing a policy sets all its parameters to their defaults.
 */
void sal_engine_set_param(struct sal_engine *e, uint64_t now_ns, uint32_t param, uint64_t value);

/* Apply a change that sal_change_parse made for the policy in force. */
void sal_engine_change(struct sal_engine *e, uint64_t now_ns, const struct sal_change *change);

/* A paused session gets no grants. Its running iteration runs to its end. */
void sal_engine_pause(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);
void sal_engine_resume(struct sal_engine *e, uint64_t now_ns, struct sal_session *s);

const struct sal_policy *sal_engine_policy(const struct sal_engine *e);
const struct sal_tuning *sal_engine_tuning(const struct sal_engine *e);
uint64_t sal_engine_param(const struct sal_engine *e, uint32_t param);
const struct sal_memory *sal_engine_memory(const struct sal_engine *e);
/* The largest number of lanes that the engine opens; stuck lanes do not count. */
uint32_t sal_engine_lane_limit(const struct sal_engine *e);
uint32_t sal_engine_resident_count(const struct sal_engine *e);
uint32_t sal_engine_waiting_count(const struct sal_engine *e);

/*
 * Verifies every invariant from scratch. Returns false, with a sentence in err, if an invariant is
 * broken. O(n log n).
 */
bool sal_engine_check(const struct sal_engine *e, struct sal_err *err);

#endif
