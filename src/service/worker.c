/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker - the thread that drains the rings, and takes its turn when nobody else did.
 *
 * With something to do it does it. With nothing to do it sleeps until a bell rings, or polls if something is likely to
 * come soon: when the next iteration is due (pause.h), while something short runs, and between records that follow each
 * other closely. It does not poll while the device is at work on something long: on a small machine that would take
 * away what the work needs.
 */
#include "service/service.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "link/socket.h"

/* Lulls longer than this are slept through. */
#define LULL_MOST_NS UINT64_C(100000)
/* While something longer than this runs, there is no polling. */
#define SHORT_NS UINT64_C(100000)
/* After starting something longer than this, we make way for the threads that compute it. */
#define LONG_NS UINT64_C(3000000)
/* It is not worth sleeping for less. */
#define SLEEP_LEAST_NS UINT64_C(20000)
/* Where a bell is called by its session: no session has this. */
#define ALARM_ID UINT64_MAX
/* Records of one client before others get their turn. */
#define RECORDS_AT_ONCE 64
#define BELLS_AT_ONCE 16
/* A client with so much waiting for its turn is not read from: its ring fills, and it waits. */
#define WAITING_MAX 4096

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

int svc_worker_watch(struct svc_server *server, int bell, uint64_t session_id, struct sal_err *err)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP,
				     .data = { .u64 = session_id } };

	if (epoll_ctl(server->worker.epoll, EPOLL_CTL_ADD, bell, &event) < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "epoll: %s", strerror(errno));
	return SAL_OK;
}

static void misbehaved(struct svc_session *s, const char *how)
{
	sal_log_warn("session", "disconnected id=%" PRIu64 " name=%s: %s", s->id, s->name, how);
	svc_session_kill(s, "salus: salusd has ended this session: the plugin broke the protocol");
}

bool svc_session_is_ahead(const struct svc_session *s)
{
	return s->waiting_count >= WAITING_MAX;
}

static bool is_read(const struct svc_session *s)
{
	return !svc_session_is_ahead(s) && !s->held;
}

/* There is no memory for this record now: it waits, and so does all that follows it. */
static enum svc_taken hold(struct svc_session *s, const struct sal_header *record)
{
	s->held = malloc(record->size);
	if (!s->held)
		return SVC_BROKEN;
	memcpy(s->held, record, record->size);
	svc_news_watch(s->server);
	return SVC_TAKE_LATER;
}

static enum svc_taken take(struct svc_session *s, const struct sal_header *record)
{
	enum svc_taken taken = svc_intake(s, record);

	return taken == SVC_TAKE_LATER ? hold(s, record) : taken;
}

/* Once more with the record that waits for memory; true if it was taken. */
static bool retry(struct svc_session *s)
{
	struct sal_header *record = s->held;

	s->held = NULL;
	s->retry = false;
	if (svc_intake(s, record) == SVC_TAKE_LATER) {
		s->held = record;
		return false;
	}
	free(record); /* it was in order before, so it is now */
	return true;
}

static bool runs_longer_than(const struct svc_session *s, uint64_t ns)
{
	const struct svc_execution *x = TAILQ_FIRST(&s->executions);

	return x && x->started && x->program->mean_ns > ns;
}

static bool drain(struct svc_server *server, struct svc_session *s)
{
	unsigned n;
	bool wake, retried = false;

	svc_outbox_flush(&s->outbox);
	if (svc_outbox_is_overfull(&s->outbox)) {
		misbehaved(s, "it does not read its completions");
		return true;
	}
	if (s->held && s->retry) {
		retried = retry(s);
		(void)svc_turn(server);
	}
	for (n = 0; n < RECORDS_AT_ONCE && is_read(s) && !server->worker.makes_way; n++) {
		enum sal_ring_take got = sal_ring_take(&s->submit, server->worker.record, &wake);

		if (got == SAL_RING_EMPTY)
			break;
		if (got == SAL_RING_BROKEN || take(s, server->worker.record) == SVC_BROKEN) {
			misbehaved(s, "it sent a record that breaks the rules");
			return true;
		}
		server->worker.makes_way = svc_turn(server) && runs_longer_than(s, LONG_NS);
	}
	if (n > 0)
		svc_memory_settle(s);
	return n > 0 || retried;
}

static bool drain_all(struct svc_server *server)
{
	struct svc_session *s, *next;
	bool any = false;

	for (s = TAILQ_FIRST(&server->sessions); s && !server->worker.makes_way; s = next) {
		next = TAILQ_NEXT(s, link);
		any |= drain(server, s);
	}
	return any;
}

/*
 * The thread of the vendor's that was given an iteration has been woken, maybe on this core, and would wait until we
 * sleep. Whatever else there is to do has time: the iteration is long.
 */
static void make_way(struct svc_server *server)
{
	server->worker.makes_way = false;
	(void)pthread_mutex_unlock(&server->lock);
	(void)sched_yield();
	(void)pthread_mutex_lock(&server->lock);
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
	const struct svc_session *s;

	TAILQ_FOREACH(s, &server->sessions, link)
		if (runs_longer_than(s, SHORT_NS))
			return false;
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

/* All rings say that we sleep, and nothing has come meanwhile. */
static bool may_sleep(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;
	struct svc_session *s;
	bool quiet = true;

	atomic_store_explicit(&w->sleeps, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* see svc_worker_wake */
	TAILQ_FOREACH(s, &server->sessions, link) { /* those not read are looked at when told */
		if (is_read(s))
			quiet = sal_ring_sleep(&s->submit) && quiet;
		else
			quiet = !(s->held && s->retry) && quiet;
	}
	return quiet && !atomic_load(&server->done) && TAILQ_EMPTY(&server->granted) &&
	       TAILQ_EMPTY(&server->refused) && !atomic_load(&w->stop);
}

static void awake(struct svc_server *server)
{
	struct svc_session *s;

	atomic_store_explicit(&server->worker.sleeps, false, memory_order_relaxed);
	TAILQ_FOREACH(s, &server->sessions, link)
		sal_ring_awake(&s->submit);
}

/* Sleep until a bell rings or the engine wants its tick, to the microsecond. */
static int wait_for_bells(const struct svc_worker *w, struct epoll_event *rung, uint64_t wake_ns)
{
	uint64_t now = svc_now_ns();
	uint64_t left = wake_ns > now ? wake_ns - now : 0;
	struct timespec t = { .tv_sec = (time_t)(left / 1000000000u),
			      .tv_nsec = (long)(left % 1000000000u) };
	int n = epoll_pwait2(w->epoll, rung, BELLS_AT_ONCE, wake_ns ? &t : NULL, NULL);

	if (n < 0 && errno == ENOSYS) /* an old kernel counts in milliseconds */
		n = epoll_wait(w->epoll, rung, BELLS_AT_ONCE,
			       wake_ns ? (int)((left + 999999) / 1000000) : -1);
	return n;
}

static int bell_of(struct svc_server *server, uint64_t session_id)
{
	struct svc_session *s;

	if (session_id == 0)
		return server->worker.bell;
	TAILQ_FOREACH(s, &server->sessions, link)
		if (s->id == session_id)
			return s->bell;
	return -1;
}

/* By the session's id, not its descriptor: that may be another's by now. */
static void quiet_bells(struct svc_server *server, const struct epoll_event *rung, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		int bell = bell_of(server, rung[i].data.u64);

		if (bell < 0)
			continue;
		sal_doorbell_quiet(bell);
		if (rung[i].events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) /* nobody can ring it */
			(void)epoll_ctl(server->worker.epoll, EPOLL_CTL_DEL, bell, NULL);
	}
}

/* Sleep until a bell rings, or the alarm, or nothing is to be slept for. The lock is ours, before and after. */
static void go_to_sleep(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;
	struct epoll_event rung[BELLS_AT_ONCE];
	bool sleeps = may_sleep(server);
	uint64_t wake_ns = w->wake_ns;
	int n = 0;

	if (sleeps)
		sleeps = !svc_worker_foresee(server);
	w->look = false;
	(void)pthread_mutex_unlock(&server->lock);
	if (sleeps)
		n = wait_for_bells(w, rung, wake_ns);
	(void)pthread_mutex_lock(&server->lock);
	quiet_bells(server, rung, n);
	if (w->has_alarm)
		set_alarm(w, 0);
	awake(server);
}

/* Nothing to do: poll or sleep. The lock is ours, before and after. */
static void rest(struct svc_server *server)
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
	(void)pthread_mutex_unlock(&server->lock);
	pass_time(is_due);
	(void)pthread_mutex_lock(&server->lock);
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

static void *work(void *arg)
{
	struct svc_server *server = arg;

	(void)prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0); /* ticks are short */
	(void)pthread_mutex_lock(&server->lock);
	while (!atomic_load(&server->worker.stop)) {
		bool any = svc_turn(server);

		if (tick(server))
			any |= svc_turn(server);
		any |= drain_all(server);
		if (server->worker.makes_way)
			make_way(server);
		if (any)
			worked(&server->worker);
		else
			rest(server);
	}
	(void)pthread_mutex_unlock(&server->lock);
	return NULL;
}

int svc_worker_start(struct svc_server *server, struct sal_err *err)
{
	struct svc_worker *w = &server->worker;
	sigset_t all, before;
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
	rc = svc_worker_watch(server, w->bell, 0, err);
	if (rc >= 0)
		rc = svc_worker_watch(server, w->alarm, ALARM_ID, err);
	if (rc < 0)
		return rc;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&w->thread, NULL, work, server);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no thread: %s", strerror(rc));
	w->started = true;
	return SAL_OK;
}

void svc_worker_stop(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;

	if (w->started) {
		atomic_store(&w->stop, true);
		sal_doorbell_ring(w->ring_fd);
		(void)pthread_join(w->thread, NULL);
		(void)svc_turn(server);
	}
	free(w->record);
	w->record = NULL;
	if (w->epoll >= 0)
		(void)close(w->epoll);
	if (w->alarm >= 0)
		(void)close(w->alarm);
	if (w->bell >= 0)
		(void)close(w->bell);
	if (w->ring_fd >= 0)
		(void)close(w->ring_fd);
}
