/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker - the role that drains the rings, and dispatches when nobody else did.
 *
 * With something to do the worker does it. With nothing to do it sleeps until a bell rings, or polls if something is
 * likely to come soon: when the next iteration is due (pause.h), while something short runs, and between records that
 * follow each other closely. It does not poll while the device is at work on something long: on a small machine that
 * would take away what the work needs.
 *
 * The role can be lost in every call that releases the lock (watch.c): what follows such a call asks svc_worker_is_me.
 */
#include "service/run/attend.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log/log.h"
#include "core/lane.h"
#include "link/socket.h"

/* Lulls longer than this are slept through. */
#define LULL_MOST_NS UINT64_C(100000)
/* While something longer than this runs, there is no polling. */
#define SHORT_NS UINT64_C(100000)
/* It is not worth sleeping for less. */
#define SLEEP_LEAST_NS UINT64_C(20000)
/* Of one client before others get their turn. */
#define ROUND_RECORDS 64
#define ROUND_BYTES (256u << 10)
/* Dispatching and carrying for so long before rings are looked at again. */
#define TURNS_NS UINT64_C(200000)
#define BELLS_AT_ONCE 16
/* While there is no time to sleep, bells are listened to that often. */
#define BELLS_NS UINT64_C(50000)

uint64_t svc_now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void svc_worker_wake(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;

	/* Pairs with the fence before sleeping: it sees what we did, or we see that it sleeps. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&w->sleeps, memory_order_relaxed) &&
	    atomic_exchange_explicit(&w->sleeps, false, memory_order_relaxed))
		sal_doorbell_ring(w->ring_fd);
}

bool svc_worker_is_me(const struct svc_server *server)
{
	return server->worker.has_holder && pthread_equal(server->worker.holder, pthread_self());
}

bool svc_worker_has_work(const struct svc_server *server)
{
	return server->worker.look || !TAILQ_EMPTY(&server->posted) ||
	       !STAILQ_EMPTY(&server->decisions) ||
	       atomic_load_explicit(&server->done, memory_order_relaxed);
}

/* What ended is accounted for, what was decided is carried out, brief errands are done. */
static bool take_turns(struct svc_server *server) SVC_LOCKED
{
	uint64_t until_ns = svc_now_ns() + TURNS_NS;
	bool any = false, more = true;

	while (more && svc_worker_is_me(server) && (!any || svc_now_ns() < until_ns)) {
		more = svc_dispatch(server);
		more |= svc_carry_posted(server);
		svc_dispatch_show(server);
		any |= more;
	}
	return any;
}

/* --- draining ----------------------------------------------------------------------------------------- */

static void misbehaved(struct svc_session *s, const char *how) SVC_LOCKED
{
	sal_log_warn("session", "disconnected id=%" PRIu64 " name=%s: %s", s->id, s->name, how);
	svc_session_kill(s, "salus: salusd has ended this session: the plugin broke the protocol");
}

static void lacks_memory(struct svc_session *s) SVC_LOCKED
{
	sal_log_warn("session", "ended id=%" PRIu64 " name=%s: salusd is out of host memory", s->id,
		     s->name);
	svc_session_kill(s, "salus: salusd has ended this session: it is out of host memory");
}

static void went_over(struct svc_session *s) SVC_LOCKED
{
	sal_log_warn("session",
		     "ended id=%" PRIu64 " name=%s: it goes on beyond its limit of buffers", s->id,
		     s->name);
	svc_session_kill(s, "salus: salusd has ended this session: it goes on asking for buffers "
			    "beyond its limit (salusd --limit job-buffers=N)");
}

/* There is no memory for this record now: it waits, and so does all that follows it. */
static void park(struct svc_session *s, const struct sal_header *record) SVC_LOCKED
{
	s->parked = malloc(record->size);
	s->retry = false;
	if (!s->parked) {
		lacks_memory(s);
		return;
	}
	memcpy(s->parked, record, record->size);
	svc_news_watch(s->server);
}

static void conclude(struct svc_session *s, const struct sal_header *record,
		     enum svc_taken taken) SVC_LOCKED
{
	if (taken == SVC_TAKE_LATER)
		park(s, record);
	else if (taken == SVC_BROKEN)
		misbehaved(s, "it sent a record that breaks the rules");
	else if (taken == SVC_NO_MEMORY)
		lacks_memory(s);
	else if (taken == SVC_OVER)
		went_over(s);
}

static bool is_there(struct svc_server *server, const struct svc_session *s, uint64_t id)
{
	return svc_idmap_find(&server->by_id, id) == s;
}

/* The session may be ended and gone afterwards. */
static void take(struct svc_session *s, const struct sal_header *record) SVC_LOCKED
{
	struct svc_server *server = s->server;
	uint64_t id = s->id;
	enum svc_taken taken = svc_intake(s, record);

	if (is_there(server, s, id) && s->state == SVC_OPEN)
		conclude(s, record, taken);
}

/* Once more with the record that waits for memory. */
static void retry(struct svc_session *s) SVC_LOCKED
{
	struct sal_header *record = s->parked;

	s->parked = NULL;
	take(s, record);
	free(record);
}

/* The next record of the ring. Its size, or 0: there is none. */
static uint32_t take_record(struct svc_server *server, struct svc_session *s) SVC_LOCKED
{
	struct sal_header *record = server->worker.record;
	bool wake;
	enum sal_ring_take got = sal_ring_take(&s->submit, record, &wake);

	if (wake) /* the client waits for room: see the outbox for the other direction */
		sal_doorbell_ring(s->client_bell);
	if (got == SAL_RING_EMPTY)
		return 0;
	if (got == SAL_RING_BROKEN) {
		misbehaved(s, "its ring is broken");
		return 0;
	}
	take(s, record);
	return record->size;
}

static bool may_go_on(const struct svc_server *server, const struct svc_session *s)
{
	return svc_worker_is_me(server) && !server->worker.makes_way && svc_attend_is_read(s) &&
	       !s->attention.is_resting;
}

/*
 * Do what the record leads to, before the next is taken. A call may keep this thread for ever, so it has no
 * reference to the session meanwhile. False: the session is gone, or is not to be read from now.
 */
static bool follow(struct svc_server *server, struct svc_session *s, uint64_t id) SVC_LOCKED
{
	if (svc_worker_has_work(server))
		(void)take_turns(server);
	return is_there(server, s, id) && may_go_on(server, s);
}

/* One round for one session; true if it had something. */
static bool drain(struct svc_server *server, struct svc_session *s) SVC_LOCKED
{
	uint64_t now_ns = svc_now_ns(), id = s->id;
	uint32_t records = 0, bytes = 0, size;
	bool any = false, goes_on;

	svc_outbox_flush(&s->outbox);
	if (svc_outbox_is_overfull(&s->outbox)) {
		misbehaved(s, "it does not read its completions");
		return true;
	}
	goes_on = may_go_on(server, s);
	if (s->parked && s->retry) {
		retry(s);
		any = true;
		goes_on = follow(server, s, id);
	}
	while (goes_on && records < ROUND_RECORDS && bytes < ROUND_BYTES &&
	       svc_attend_may_take(s, now_ns) && (size = take_record(server, s)) > 0) {
		records++;
		bytes += size;
		goes_on = follow(server, s, id);
	}
	if (records > 0 && is_there(server, s, id))
		svc_memory_settle(s);
	return any || records > 0;
}

/* A round for every session that is attended. Others may have the lock between two of them. */
static bool drain_all(struct svc_server *server) SVC_LOCKED
{
	struct svc_worker *w = &server->worker;
	uint32_t n, count = w->attended_count;
	struct svc_session *s;
	bool any = false;

	for (n = 0; n < count && !w->makes_way && svc_worker_is_me(server) &&
		    (s = TAILQ_FIRST(&w->attended));
	     n++) {
		TAILQ_REMOVE(&w->attended, s, attention.link);
		TAILQ_INSERT_TAIL(&w->attended, s, attention.link);
		any |= drain(server, s);
		if (n + 1 < count)
			svc_lock_breathe(server);
	}
	return any;
}

/* --- rest --------------------------------------------------------------------------------------------- */

static bool runs_longer_than(const struct svc_session *s, uint64_t ns)
{
	const struct svc_execution *x = TAILQ_FIRST(&s->executions);

	return x && svc_execution_has_started(x) && x->program && x->program->mean_ns > ns;
}

/*
 * The thread of the vendor's that was given an iteration has been woken, maybe on this core, and would wait until we
 * sleep. Whatever else there is to do has time: the iteration is long.
 */
static void make_way(struct svc_server *server) SVC_LOCKED
{
	server->worker.makes_way = false;
	svc_unlock(server);
	(void)sched_yield();
	svc_lock(server);
}

static bool tick(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;
	uint64_t now = svc_now_ns();

	if (w->wake_ns == 0 || now < w->wake_ns)
		return false;
	w->wake_ns = 0;
	sal_engine_tick(server->engine, now);
	return true;
}

static void set_alarm(struct svc_worker *w, uint64_t at_ns)
{
	struct itimerspec t = { .it_value = { .tv_sec = (time_t)(at_ns / 1000000000u),
					      .tv_nsec = (long)(at_ns % 1000000000u) } };

	(void)timerfd_settime(w->alarm, TFD_TIMER_ABSTIME, &t, NULL);
	w->has_alarm = at_ns > 0;
}

bool svc_worker_foresee(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;
	uint64_t now = svc_now_ns();
	uint64_t due_ns = svc_pause_due_ns(&w->pause);

	if (!atomic_load_explicit(&w->sleeps, memory_order_relaxed))
		return false; /* it will see for itself */
	switch (svc_pause_phase(&w->pause, now)) {
	case SVC_PAUSE_EARLY:
		if (due_ns - now < SLEEP_LEAST_NS)
			return true;
		set_alarm(w, due_ns);
		return false;
	case SVC_PAUSE_DUE:
		return true;
	default:
		return false;
	}
}

static bool all_that_runs_is_short(const struct svc_server *server)
{
	const struct sal_lane *lane;
	uint32_t i;

	for (i = 0; i < SAL_LANES_MAX; i++) {
		lane = sal_engine_lane(server->engine, i);
		if (lane->running && runs_longer_than(lane->running->user, SHORT_NS))
			return false;
	}
	return true;
}

/* Is something likely to come soon? */
static bool should_poll(const struct svc_server *server, uint64_t now)
{
	const struct svc_worker *w = &server->worker;
	uint64_t idle = now - w->idle_from_ns;

	if (server->running > 0) /* its end is near, and then the next is */
		return idle < 2 * SHORT_NS && all_that_runs_is_short(server);
	switch (svc_pause_phase(&w->pause, now)) {
	case SVC_PAUSE_EARLY:
		return svc_pause_due_ns(&w->pause) - now < SLEEP_LEAST_NS;
	case SVC_PAUSE_DUE:
		return true;
	default:
		return w->lull_ns <= LULL_MOST_NS && idle <= 2 * w->lull_ns;
	}
}

/* Leave the lock, and the other thread of the core, to others for about a microsecond. */
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
 * A moment of polling. At first others go before us: the client that is to send the next record needs a core to be
 * woken on. Then, as its record is due, we stay: on a busy core it takes half of such a pause to come back.
 */
static void pass_time(bool is_due)
{
	if (is_due)
		spin();
	else
		(void)sched_yield();
}

/* All rings say that the worker sleeps, and nothing has come meanwhile. */
static bool may_sleep(struct svc_server *server) SVC_LOCKED
{
	struct svc_worker *w = &server->worker;

	svc_attend_forget_quiet(server, svc_now_ns());
	atomic_store_explicit(&w->sleeps, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* see svc_worker_wake */
	return svc_attend_sleep(server) && !svc_worker_has_work(server) && !atomic_load(&w->stop);
}

/* Bells that have rung until then, to the microsecond; 0: however long it takes. */
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

/* Sleep until a bell rings, or the alarm, or the engine wants its tick. */
static void go_to_sleep(struct svc_server *server) SVC_LOCKED
{
	struct svc_worker *w = &server->worker;
	struct epoll_event rung[BELLS_AT_ONCE];
	uint64_t until_ns = sooner(w->wake_ns, svc_attend_rested(server, svc_now_ns()));
	bool sleeps = may_sleep(server);
	int n = 0;

	if (sleeps)
		sleeps = !svc_worker_foresee(server);
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

/* While it is awake: sessions that are asleep may have rung. */
static void listen_to_bells(struct svc_server *server) SVC_LOCKED
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

/* Nothing to do: poll or sleep. */
static void rest(struct svc_server *server) SVC_LOCKED
{
	struct svc_worker *w = &server->worker;
	uint64_t now = svc_now_ns();
	bool is_due;

	if (w->idle_from_ns == 0) {
		w->idle_from_ns = now;
		w->is_lull = server->running == 0 &&
			     svc_pause_phase(&w->pause, now) == SVC_PAUSE_OVER;
	}
	if (!should_poll(server, now)) {
		go_to_sleep(server);
		return;
	}
	is_due = w->pause.from_ns > 0 && 2 * (now - w->pause.from_ns) >= w->pause.over_after_ns;
	svc_unlock(server);
	pass_time(is_due);
	svc_lock(server);
}

static void worked(struct svc_worker *w)
{
	uint64_t lull;

	if (w->idle_from_ns == 0)
		return;
	lull = svc_now_ns() - w->idle_from_ns;
	if (lull > 4 * LULL_MOST_NS)
		lull = 4 * LULL_MOST_NS;
	if (w->is_lull)
		w->lull_ns = w->lull_ns - w->lull_ns / 4 + lull / 4;
	w->idle_from_ns = 0;
}

static void work(struct svc_server *server) SVC_LOCKED
{
	struct svc_worker *w = &server->worker;
	bool any;

	w->look = false; /* everything is looked at below */
	any = take_turns(server);
	if (tick(server))
		any |= take_turns(server);
	if (svc_worker_is_me(server))
		any |= drain_all(server);
	if (!svc_worker_is_me(server))
		return;
	if (w->makes_way)
		make_way(server);
	listen_to_bells(server);
	if (any)
		worked(w);
	else
		rest(server);
}

void svc_worker_run(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;

	svc_lock(server);
	w->holder = pthread_self();
	w->has_holder = true;
	while (!atomic_load(&w->stop) && svc_worker_is_me(server))
		work(server);
	svc_unlock(server);
	/* A thread that lost the role may have left work for the new worker. */
	sal_doorbell_ring(w->ring_fd);
}

int svc_worker_open(struct svc_server *server, struct sal_err *err)
{
	struct svc_worker *w = &server->worker;
	int rc;

	w->lull_ns = 4 * LULL_MOST_NS;
	svc_pause_init(&w->pause);
	w->record = aligned_alloc(64, SAL_RECORD_MAX);
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (!w->record || w->epoll < 0 || w->alarm < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory or open files");
	rc = sal_doorbell_create(&w->ring_fd, &w->bell, err);
	if (rc < 0)
		return rc;
	rc = svc_worker_listen(server, w->bell, SVC_OWN_BELL, err);
	return rc < 0 ? rc : svc_worker_listen(server, w->alarm, SVC_ALARM, err);
}

void svc_worker_stop(struct svc_server *server)
{
	atomic_store(&server->worker.stop, true);
	if (server->worker.ring_fd >= 0)
		sal_doorbell_ring(server->worker.ring_fd);
}

void svc_worker_close(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;
	int *fds[] = { &w->epoll, &w->alarm, &w->bell, &w->ring_fd };
	size_t i;

	free(w->record);
	w->record = NULL;
	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			(void)close(*fds[i]);
		*fds[i] = -1;
	}
}
