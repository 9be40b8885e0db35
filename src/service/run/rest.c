/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/rest.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#include "core/engine.h"
#include "service/client/call.h"
#include "service/client/session.h"
#include "service/run/attend.h"
#include "service/run/dispatch.h"
#include "service/run/watch.h"
#include "service/run/worker.h"
#include "service/server.h"
#include "service/timing/due.h"
#include "service/timing/gap.h"

/* The worker sleeps through lulls that are longer than this. */
#define LULL_NS_MAX UINT64_C(100000)
/* While an iteration longer than this runs, the worker does not poll. */
#define SHORT_NS UINT64_C(100000)
/* Sleeping for less is not worth it. */
#define SLEEP_NS_MIN UINT64_C(20000)
#define BELLS_AT_ONCE 16
/* While the worker does not sleep, it checks the bells this often. */
#define BELLS_NS UINT64_C(50000)

static bool runs_longer_than(const struct svc_session *s, uint64_t ns) SVC_LOCKED
{
	const struct svc_execution *x = TAILQ_FIRST(&s->executions);

	if (!LIST_EMPTY(&s->calls) && svc_calls_are_quick(s))
		return false; /* its client soon answers, or asks */
	return x && svc_execution_has_started(x) && x->program && x->program->mean_ns > ns;
}

/*
 * The vendor has woken a thread for the iteration, maybe on this core. Without the yield this
 * thread would wait until the worker sleeps. The worker's other work can wait: the iteration is
 * long.
 */
void svc_rest_make_way(struct svc_server *server)
{
	server->worker.makes_way = false;
	svc_unlock(server);
	(void)sched_yield();
	svc_lock(server);
}

static void set_alarm(struct svc_worker *w, uint64_t at_ns)
{
	struct itimerspec t = { .it_value = { .tv_sec = (time_t)(at_ns / 1000000000u),
					      .tv_nsec = (long)(at_ns % 1000000000u) } };

	(void)timerfd_settime(w->alarm, TFD_TIMER_ABSTIME, &t, NULL);
	w->has_alarm = at_ns > 0;
}

bool svc_rest_foresee(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;
	uint64_t now = svc_now_ns();
	uint64_t due_ns = svc_gap_due_ns(&w->gap);

	if (!atomic_load_explicit(&w->sleeps, memory_order_relaxed))
		return false; /* the worker is awake, and checks the gap itself */
	switch (svc_gap_phase(&w->gap, now)) {
	case SVC_GAP_EARLY:
		if (due_ns - now < SLEEP_NS_MIN)
			return true;
		set_alarm(w, due_ns);
		return false;
	case SVC_GAP_DUE:
		return true;
	default:
		return false;
	}
}

static bool all_that_runs_is_short(const struct svc_server *server) SVC_LOCKED
{
	const struct sal_session *core;
	uint32_t i;

	for (i = 0; i < SAL_LANES_MAX; i++) {
		core = sal_engine_running(server->engine, i);
		if (core && runs_longer_than(sal_session_user(core), SHORT_NS))
			return false;
	}
	return true;
}

/* When to poll for the end of the iteration that this lane runs. False: there is none. */
static bool find_due(const struct svc_server *server, uint32_t lane, struct svc_due *out) SVC_LOCKED
{
	const struct sal_session *core = sal_engine_running(server->engine, lane);
	const struct svc_session *s = core ? sal_session_user(core) : NULL;
	const struct svc_execution *x = s ? TAILQ_FIRST(&s->executions) : NULL;

	if (!x || !svc_execution_has_started(x) || !x->program)
		return false;
	*out = svc_due(&x->program->lengths, x->grant_ns);
	return true;
}

/*
 * When the worker next polls for the end of an iteration: that moment, or `now` if it should poll
 * now. 0: never. A device that carries in its reports does not need the worker.
 */
static uint64_t next_due(const struct svc_server *server, uint64_t now) SVC_LOCKED
{
	uint64_t soonest_ns = 0;
	struct svc_due due;
	uint32_t i;

	for (i = 0; i < SAL_LANES_MAX && server->running > 0 && !server->carries_in_done; i++) {
		if (!find_due(server, i, &due) || now >= due.until_ns)
			continue;
		if (now >= due.from_ns)
			return now;
		if (soonest_ns == 0 || due.from_ns < soonest_ns)
			soonest_ns = due.from_ns;
	}
	return soonest_ns;
}

/* Is work likely to come soon? */
static bool should_poll(const struct svc_server *server, uint64_t now) SVC_LOCKED
{
	const struct svc_worker *w = &server->worker;
	uint64_t idle = now - w->idle_from_ns;

	if (next_due(server, now) == now)
		return true;
	if (server->running > 0) /* a short iteration ends soon, and the next one follows */
		return idle < 2 * SHORT_NS && all_that_runs_is_short(server);
	switch (svc_gap_phase(&w->gap, now)) {
	case SVC_GAP_EARLY:
		return svc_gap_due_ns(&w->gap) - now < SLEEP_NS_MIN;
	case SVC_GAP_DUE:
		return true;
	default:
		return w->lull_ns <= LULL_NS_MAX && idle <= 2 * w->lull_ns;
	}
}

/* Spend about a microsecond without the lock, and leave the core's other hardware thread free. */
static void spin(void)
{
	unsigned i;

	for (i = 0; i < 20; i++) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("yield");
#else
		atomic_signal_fence(memory_order_seq_cst);
#endif
	}
}

/*
 * Poll for a moment. At first the worker yields: the client that sends the next record needs a core
 * to wake up on. When the record is due, the worker stays on its core: on a busy core, coming back
 * takes half of such a gap.
 */
static void pass_time(bool is_due)
{
	if (is_due)
		spin();
	else
		(void)sched_yield();
}

/* Tell all attended clients that the worker sleeps. True: no work has come meanwhile. */
static bool may_sleep(struct svc_server *server) SVC_LOCKED
{
	struct svc_worker *w = &server->worker;

	svc_attend_forget_quiet(server, svc_now_ns());
	atomic_store_explicit(&w->sleeps, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* see svc_worker_wake */
	return svc_attend_sleep(server) && !svc_worker_has_work(server) && !atomic_load(&w->stop);
}

/* Wait for bells until until_ns, to the microsecond; 0: without an end. */
static int wait_for_bells(const struct svc_worker *w, struct epoll_event *rung, uint64_t until_ns)
{
	uint64_t now = svc_now_ns();
	uint64_t left = until_ns > now ? until_ns - now : 0;
	struct timespec t = { .tv_sec = (time_t)(left / 1000000000u),
			      .tv_nsec = (long)(left % 1000000000u) };
	int n = epoll_pwait2(w->epoll, rung, BELLS_AT_ONCE, until_ns ? &t : NULL, NULL);

	if (n < 0 && errno == ENOSYS) /* an old kernel counts in milliseconds */
		n = epoll_wait(w->epoll, rung, BELLS_AT_ONCE,
			       until_ns ? (int)((left + 999999) / 1000000) : -1);
	return n;
}

static uint64_t sooner(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns == 0 || (b_ns > 0 && b_ns < a_ns) ? b_ns : a_ns;
}

/*
 * Sleep until a bell or the alarm rings, a session's rest ends, the engine's tick is due, or it is
 * time to poll for the end of an iteration.
 */
static void go_to_sleep(struct svc_server *server) SVC_LOCKED
{
	struct svc_worker *w = &server->worker;
	struct epoll_event rung[BELLS_AT_ONCE];
	uint64_t now_ns = svc_now_ns();
	uint64_t until_ns = sooner(sooner(w->wake_ns, svc_attend_rested(server, now_ns)),
				   next_due(server, now_ns));
	bool sleeps = may_sleep(server);
	int n = 0;

	if (sleeps)
		sleeps = !svc_rest_foresee(server);
	w->until_ns = until_ns;
	svc_unlock(server);
	if (sleeps) {
		svc_watch_rest(server);
		n = wait_for_bells(w, rung, until_ns);
	}
	svc_lock(server);
	svc_attend_bells(server, rung, n);
	if (w->has_alarm)
		set_alarm(w, 0);
	atomic_store_explicit(&w->sleeps, false, memory_order_relaxed);
	svc_attend_awake(server);
}

/* Clients whose rings are asleep ring also while the worker is awake. */
void svc_rest_hear_bells(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;
	struct epoll_event rung[BELLS_AT_ONCE];
	uint64_t now_ns = svc_now_ns();
	int n;

	if (now_ns - w->bells_ns < BELLS_NS)
		return;
	w->bells_ns = now_ns;
	svc_unlock(server);
	n = epoll_wait(w->epoll, rung, BELLS_AT_ONCE, 0);
	svc_lock(server);
	svc_attend_bells(server, rung, n);
	(void)svc_attend_rested(server, now_ns);
}

/* There is nothing to do: poll or sleep. */
void svc_rest(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;
	uint64_t now = svc_now_ns();
	bool is_due;

	if (w->idle_from_ns == 0) {
		w->idle_from_ns = now;
		w->is_lull = server->running == 0 && svc_gap_phase(&w->gap, now) == SVC_GAP_OVER;
	}
	if (!should_poll(server, now)) {
		go_to_sleep(server);
		return;
	}
	is_due = next_due(server, now) == now ||
		 (w->gap.from_ns > 0 && 2 * (now - w->gap.from_ns) >= w->gap.over_after_ns);
	svc_unlock(server);
	pass_time(is_due);
	svc_lock(server);
}

void svc_rest_end(struct svc_worker *w)
{
	uint64_t lull;

	if (w->idle_from_ns == 0)
		return;
	lull = svc_now_ns() - w->idle_from_ns;
	if (lull > 4 * LULL_NS_MAX)
		lull = 4 * LULL_NS_MAX;
	if (w->is_lull)
		w->lull_ns = w->lull_ns - w->lull_ns / 4 + lull / 4;
	w->idle_from_ns = 0;
}

void svc_rest_init(struct svc_worker *w)
{
	w->lull_ns = 4 * LULL_NS_MAX;
	svc_gap_init(&w->gap);
}
