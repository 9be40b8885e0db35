/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch - an iteration from its record to its end, and the decisions of the engine.
 *
 *     new -> queued -> granted -> fetching -> running -> ended -> told
 *               |         |           |                    ^
 *               +---------+-----------+--------------------+  refused, failed, or closing
 *
 *     new       the intake has created the execution
 *     queued    the engine has the iteration
 *     granted   the engine has chosen lane and tier; the launch becomes an errand of the session
 *     fetching  the thread that carries the session brings program and arguments into the stream;
 *               an iteration that has all of them there skips this state
 *     running   the vendor has the iteration
 *     ended     the vendor has reported the end; waiters for the outputs continue
 *     told      the client can see the completion
 *
 * The engine must not be called from within its callback. So the callback puts each decision into
 * one queue (server->decisions): grants, refusals, admissions, paging. svc_dispatch carries the
 * decisions out once the engine has returned. If paging fails, the engine gets an event.
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
#include "service/memory/buffer.h"
#include "service/real/real.h"
#include "service/real/told.h"
#include "service/run/carrier.h"

struct svc_buffer;
struct svc_program;
struct svc_shared_program;

/* Kinds of decisions that the engine makes about a session or an execution. */
enum svc_verdict {
	SVC_VERDICT_ADMIT = 1,
	SVC_VERDICT_REFUSE = 2,
	SVC_VERDICT_PAGE_OUT = 4,
	SVC_VERDICT_PAGE_IN = 8,
	SVC_VERDICT_GRANT = 16
};

struct svc_decision {
	STAILQ_ENTRY(svc_decision) link; /* in server->decisions, while verdicts is not 0 */
	uint32_t verdicts; /* bits of enum svc_verdict that are not carried out yet */
	struct svc_session *session; /* borrowed; NULL: the decision is about an execution */
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
	struct sal_iteration iteration; /* the engine's part; see svc_execution_of */
	_Atomic int state; /* enum svc_execution_state; see svc_execution_move */
	struct svc_decision decision;
	struct svc_session *session; /* owned reference */
	struct svc_program *program; /* owned reference */
	struct svc_shared_program *shared; /* owned reference; its pace is the iteration's */
	uint64_t request;
	bool calls; /* its program may call the client's Python: see client/call.h */
	bool is_nested; /* the engine does not know it */
	bool is_timed; /* its client wants to know the times */
	bool is_pinning; /* its program and arguments stay where they are */
	uint64_t nested_bytes; /* of a nested one: scratch, in session->promised_bytes */
	struct svc_waiter nested_waiter; /* a nested one waits for its arguments */
	bool is_queue_counted; /* its account counts it as a queued iteration */
	uint64_t queued_bytes; /* its part of session->queued_bytes and of its account */
	uint64_t expected_ns; /* how long it will take, in session->queued_ns while it is queued */
	struct svc_buffer **args, **outputs; /* owned arrays of owned references */
	int64_t *retained; /* owned; arguments that must not be donated */
	bool *is_retained; /* owned; one for each argument: is it in `retained`? */
	uint32_t *donated; /* owned; arguments whose memory the outputs take over */
	uint64_t *donated_ids; /* owned; the client's ids of these, which ended at the submission */
	size_t arg_count, output_count, retained_count, donated_count;
	/*
	 * The program's devices. args and outputs have a list for each, one behind the other;
	 * `retained` has the numbers of one list.
	 */
	uint32_t list_count;
	uint32_t chip; /* that runs the program, if it is portable */
	STAILQ_HEAD(, svc_waiter) waiters; /* they wait for its end */
	uint32_t lane, tier; /* once granted */
	uint32_t stream; /* the index of the stream for lane and tier */
	TAILQ_ENTRY(svc_execution) link; /* in session->executions until it is accounted for */
	TAILQ_ENTRY(svc_execution) untold_link; /* in server->untold */
	struct svc_execution *next_done; /* in server->done */
	uint64_t submit_ns, grant_ns;
	_Atomic uint64_t start_ns; /* the launching thread writes, any thread reads */
	uint64_t end_ns;

	/*
	 * The launch. While the state is fetching or running, only the thread that carries the
	 * session uses these fields.
	 */
	struct svc_errand errand;
	struct svc_real_run real;
	struct svc_told_run told;
	struct sal_buffer **device_args, **device_outputs; /* owned */
	int launch_code; /* not 0: the launch failed */
	uint64_t call_ns; /* how long the vendor's call took, or its CPU time if is_long */
	bool is_long; /* the program is, so a slow call may be the fault of others */
	bool is_even; /* see struct sal_execution */
	bool is_measured;
	/* If measured: the stream's busy time before the run, then that of the run. */
	uint64_t busy_ns;
	/* How many halves of the end are missing: the call returns, the vendor reports. */
	_Atomic int halves;
	int code; /* not 0: the execution failed */
	char *text; /* owned; why it failed */
	bool is_refused; /* it failed before it started, and the client has its donations back */
	char *raised; /* owned; the Python exception that made it fail; NULL: none */
};

static inline struct svc_execution *svc_execution_of(struct sal_iteration *it)
{
	return SAL_CONTAINER_OF(it, struct svc_execution, iteration);
}
/* Is the lane busy with this execution? */
static inline bool svc_execution_has_started(const struct svc_execution *x)
{
	int state = atomic_load_explicit(&x->state, memory_order_relaxed);

	return state == SVC_FETCHING || state == SVC_RUNNING;
}
/* Change the state along the arrows above; any other step is a bug. */
void svc_execution_move(struct svc_execution *x, enum svc_execution_state to);
/* Submit the execution to the engine. Takes the references in x. */
void svc_execution_submit(struct svc_execution *x) SVC_LOCKED;
/* Release the buffers and the program: the execution has ended, or will never run. */
void svc_execution_release(struct svc_execution *x) SVC_LOCKED;
void svc_execution_free(struct svc_execution *x) SVC_LOCKED;
/* Tell the client how the execution ended. */
void svc_execution_report(struct svc_execution *x);
/* Write a text for people: why the engine refused the execution. Returns the code for the job. */
enum sal_code svc_refusal_explain(const struct svc_execution *x, char *text,
				  size_t size) SVC_LOCKED;
/* The execution fails before it started: the client's ids of donated arguments are valid again. */
void svc_execution_give_back(struct svc_execution *x) SVC_LOCKED;
/* Tell the client that the execution cannot start, and why. */
void svc_refuse_request(struct svc_session *s, uint64_t request, int code,
			const char *text) SVC_LOCKED;
/* The execution cannot run: its outputs fail, and the execution counts as ended. */
void svc_execution_fail(struct svc_execution *x, int code, const char *text) SVC_LOCKED;
/*
 * Do one half of the end: the call has returned (under the lock), or the vendor has reported. True:
 * this was the second half.
 */
bool svc_execution_half(struct svc_execution *x);

/* The engine's callback: record the decision in the trace and put it into the queue. */
void svc_on_decision(void *ctx, const struct sal_record *r, struct sal_session *core,
		     struct sal_iteration *it);
/* Take a decision out of the queue: its session or execution goes away. */
void svc_decision_drop(struct svc_server *server, struct svc_decision *d) SVC_LOCKED;
/*
 * Account for iterations that ended, and carry out decisions. Vendor calls become errands. True if
 * there was anything to do.
 */
bool svc_dispatch(struct svc_server *server) SVC_LOCKED;
/* Show clients the completions that svc_dispatch delayed until the device has new work. */
void svc_dispatch_show(struct svc_server *server) SVC_LOCKED;
/* Add an execution to those that ended. Any thread, under the lock or not. */
void svc_dispatch_push(struct svc_execution *x);
/* The same for a vendor's thread, which may also start the next iteration of its lane. */
void svc_dispatch_report(struct svc_execution *x) SVC_UNLOCKED;

/* In launch.c: device bytes of the outputs beyond the memory of donated arguments. */
uint64_t svc_execution_growth(const struct svc_execution *x) SVC_LOCKED;
/* In launch.c: prepare the errand that starts the execution. */
void svc_launch_init(struct svc_execution *x) SVC_LOCKED;
/* The program and the arguments may move again. */
void svc_launch_unpin(struct svc_execution *x) SVC_LOCKED;

#endif
