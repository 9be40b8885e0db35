/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch - one iteration from its record to its end, and everything the engine decides.
 *
 *     new -> queued -> granted -> fetching -> running -> ended -> told
 *               |         |           |                    ^
 *               +---------+-----------+--------------------+  refused, failed, or closing
 *
 *     new       the intake makes it
 *     queued    the engine has it
 *     granted   the engine gave it its lane; the launch is among the session's errands
 *     fetching  the thread that carries the session brings program and arguments into the lane
 *     running   the vendor has it
 *     ended     the vendor reported; waiters for its outputs go on
 *     told      the client can see the end
 *
 * The engine must not be called from within its callback. So each decision goes into one queue
 * (server->decisions), and svc_dispatch carries them out once the engine has returned: grants,
 * refusals, admissions, paging. A decision that failed goes back to the engine as an event.
 *
 * Threads: under server->lock, except svc_dispatch_report.
 */
#ifndef SAL_SERVICE_DISPATCH_H
#define SAL_SERVICE_DISPATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/container.h"
#include "core/engine.h"
#include "service/run/carrier.h"

struct svc_buffer;
struct svc_program;
struct svc_waiter;

/* Decisions of the engine about a session or an execution, which embeds this. */
enum svc_verdict {
	SVC_VERDICT_ADMIT = 1,
	SVC_VERDICT_REFUSE = 2,
	SVC_VERDICT_PAGE_OUT = 4,
	SVC_VERDICT_PAGE_IN = 8,
	SVC_VERDICT_GRANT = 16
};

struct svc_decision {
	STAILQ_ENTRY(svc_decision) link; /* in server->decisions, while verdicts is not 0 */
	uint32_t verdicts; /* of enum svc_verdict, not yet carried out */
	struct svc_session *session; /* borrowed; NULL: it is an execution's */
	struct sal_record refusal; /* with SVC_VERDICT_REFUSE: why */
};

STAILQ_HEAD(svc_decision_list, svc_decision);

enum svc_execution_state {
	SVC_NEW,
	SVC_QUEUED,
	SVC_GRANTED,
	SVC_FETCHING,
	SVC_RUNNING,
	SVC_ENDED,
	SVC_TOLD
};

struct svc_execution {
	struct sal_iteration iteration; /* the engine hands it back; see svc_execution_of */
	_Atomic int state; /* enum svc_execution_state; see svc_execution_move */
	struct svc_decision decision;
	struct svc_session *session; /* owned reference */
	struct svc_program *program; /* owned reference */
	uint64_t request;
	bool is_queue_counted; /* among the queued iterations of its account */
	uint64_t queued_bytes; /* in session->queued_bytes, and in its account */
	struct svc_buffer **args, **outputs; /* owned arrays of owned references */
	int64_t *retained; /* owned; arguments that must not be donated */
	bool *is_retained; /* owned; the same, by argument */
	uint32_t *donated; /* owned; arguments whose memory the outputs take over */
	size_t arg_count, output_count, retained_count, donated_count;
	STAILQ_HEAD(, svc_waiter) waiters; /* for its end */
	uint32_t lane; /* once granted */
	TAILQ_ENTRY(svc_execution) link; /* in session->executions until it is accounted for */
	TAILQ_ENTRY(svc_execution) untold_link; /* in server->untold */
	struct svc_execution *next_done; /* in server->done */
	_Atomic uint64_t start_ns; /* the thread that launches it writes, any thread reads */
	uint64_t end_ns;

	/*
	 * the launch; only the thread that carries the session, while state is fetching or running
	 */
	struct svc_errand errand;
	struct sal_buffer **device_args, **device_outputs; /* owned */
	int launch_code; /* not 0: it could not be started */
	uint64_t call_ns; /* how long the vendor's call took */
	/* Halves of the end that are missing: the call returns, the vendor reports. */
	_Atomic int halves;
	int code; /* not 0: it failed */
	char *text; /* owned; why */
};

static inline struct svc_execution *svc_execution_of(struct sal_iteration *it)
{
	return SAL_CONTAINER_OF(it, struct svc_execution, iteration);
}
/* The lane is busy with it. */
static inline bool svc_execution_has_started(const struct svc_execution *x)
{
	int state = atomic_load_explicit(&x->state, memory_order_relaxed);

	return state == SVC_FETCHING || state == SVC_RUNNING;
}
/* Along the arrows above; any other step is a bug. */
void svc_execution_move(struct svc_execution *x, enum svc_execution_state to);
/* Takes the references in x; submits it to the engine. */
void svc_execution_submit(struct svc_execution *x) SVC_LOCKED;
/* Release its buffers and program: it has ended, or will never run. */
void svc_execution_release(struct svc_execution *x) SVC_LOCKED;
void svc_execution_free(struct svc_execution *x) SVC_LOCKED;
/* It cannot run: its outputs fail, and it counts as ended. */
void svc_execution_fail(struct svc_execution *x, int code, const char *text) SVC_LOCKED;
/*
 * One half of its end: the call has returned (under the lock), or the vendor has reported. True: it
 * was the second half.
 */
bool svc_execution_half(struct svc_execution *x);

/* The engine's callback: note a decision. */
void svc_on_decision(void *ctx, const struct sal_record *r, struct sal_session *core,
		     struct sal_iteration *it);
/* The session or execution is gone before the decision could be carried out. */
void svc_decision_drop(struct svc_server *server, struct svc_decision *d) SVC_LOCKED;
/*
 * Account for iterations that ended, and carry out decisions, as far as that needs no vendor call.
 * True if there was anything.
 */
bool svc_dispatch(struct svc_server *server) SVC_LOCKED;
/* Show clients the completions that svc_dispatch held back until the device got work. */
void svc_dispatch_show(struct svc_server *server) SVC_LOCKED;
/* An execution ended and its last half is done. Any thread, under the lock or not. */
void svc_dispatch_push(struct svc_execution *x);
/* The same from a thread of the vendor, which may start the next iteration of its lane. */
void svc_dispatch_report(struct svc_execution *x) SVC_UNLOCKED;

/* launch.c: prepare the errand that starts it; it may be brief. */
void svc_launch_init(struct svc_execution *x) SVC_LOCKED;

#endif
