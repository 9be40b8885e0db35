/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log/log.h"
#include "base/sys/fd.h"
#include "core/engine.h"
#include "link/socket.h"
#include "service/client/intake.h"
#include "service/client/news.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/idmap.h"
#include "service/memory/memory.h"
#include "service/run/attend.h"
#include "service/run/carrier.h"
#include "service/run/closing.h"
#include "service/run/dispatch.h"
#include "service/run/rest.h"
#include "service/server.h"

/* How much the worker takes from one client before other clients get their turn. */
#define ROUND_RECORDS 64
#define ROUND_BYTES (256u << 10)
/* The worker dispatches and carries for this long before it reads rings again. */
#define TURNS_NS UINT64_C(200000)

void svc_worker_wake(struct svc_server *server)
{
	struct svc_worker *w = &server->worker;

	/*
	 * Pairs with the fence before sleeping: the worker sees the caller's change, or the caller
	 * sees that the worker sleeps.
	 */
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
	return server->worker.is_called || !TAILQ_EMPTY(&server->posted) ||
	       !STAILQ_EMPTY(&server->decisions) ||
	       atomic_load_explicit(&server->done, memory_order_relaxed);
}

/* Account for ended iterations, carry out decisions, do brief errands. */
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

/* The same, but with the errands of this session alone. */
static void take_own_turns(struct svc_session *s) SVC_LOCKED
{
	(void)svc_dispatch(s->server);
	svc_carry_session(s);
	svc_dispatch_show(s->server);
}

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

/* There is no memory for this record now: park the record. Later records wait, too. */
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

/* Take one record. The session may be gone afterwards. */
static void take(struct svc_session *s, const struct sal_header *record) SVC_LOCKED
{
	struct svc_server *server = s->server;
	uint64_t id = s->id;
	enum svc_taken taken = svc_intake(s, record);

	if (is_there(server, s, id) && s->state == SVC_OPEN)
		conclude(s, record, taken);
}

/* Try the parked record again. Returns its size. */
static uint32_t retry(struct svc_session *s) SVC_LOCKED
{
	struct sal_header *record = s->parked;
	uint32_t size = record->size;

	s->parked = NULL;
	take(s, record);
	free(record);
	return size;
}

/* Take the next record of the ring. Returns its size; 0: there is none. */
static uint32_t take_record(struct svc_server *server, struct svc_session *s) SVC_LOCKED
{
	struct sal_header *record = server->worker.record;
	bool wake;
	enum sal_ring_take got = sal_ring_take(&s->submit, record, &wake);

	if (wake) /* the client waits for room in its ring */
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

/*
 * Take the session's next record. Returns its size; 0: there is none, or it must wait. A parked
 * record comes before those in the ring: it may have been parked and freed to go on in this round.
 */
static uint32_t take_next(struct svc_server *server, struct svc_session *s,
			  uint64_t now_ns) SVC_LOCKED
{
	if (s->parked)
		return retry(s);
	return svc_attend_may_take(s, now_ns) ? take_record(server, s) : 0;
}

static bool is_answer(uint16_t type)
{
	return type == SAL_MSG_ANSWER || type == SAL_MSG_OPERANDS;
}

/* May a thread that is not the worker take the next record? */
static bool may_take_answer(const struct svc_session *s)
{
	return svc_attend_is_read(s) && !s->parked && !s->attention.is_resting &&
	       !s->is_taken_from && is_answer(sal_ring_next_type(&s->submit));
}

bool svc_worker_take_answers(struct svc_session *s)
{
	uint64_t now_ns = svc_now_ns(), id = s->id;
	struct svc_server *server = s->server;
	struct sal_header *record = server->worker.answer; /* the lock is held throughout */
	enum sal_ring_take got;
	uint32_t n;
	bool wake;

	for (n = 0; n < ROUND_RECORDS && may_take_answer(s) && svc_attend_may_take(s, now_ns);
	     n++) {
		got = sal_ring_take(&s->submit, record, &wake);
		if (wake)
			sal_doorbell_ring(s->client_bell);
		if (got == SAL_RING_EMPTY)
			return true;
		if (got == SAL_RING_BROKEN || !is_answer(record->type)) {
			misbehaved(s, "its ring is broken");
			return false;
		}
		take(s, record);
		if (!is_there(server, s, id) || s->state != SVC_OPEN)
			return false;
	}
	return sal_ring_is_empty(&s->submit);
}

static bool may_go_on(const struct svc_server *server, const struct svc_session *s)
{
	return svc_worker_is_me(server) && !server->worker.makes_way && svc_attend_is_read(s) &&
	       !s->attention.is_resting;
}

/*
 * Do the work that the record caused, before the next record is taken. A call may never return, so
 * this thread holds no reference to the session during the call. False: the session is gone, or
 * its ring must not be read now.
 */
static bool follow(struct svc_server *server, struct svc_session *s, uint64_t id,
		   bool is_alone) SVC_LOCKED
{
	if (is_alone)
		take_own_turns(s);
	else if (svc_worker_has_work(server))
		(void)take_turns(server);
	return is_there(server, s, id) && may_go_on(server, s);
}

/* Do one round for one session; is_alone: for no other. True if there was a record. */
static bool drain(struct svc_server *server, struct svc_session *s, bool is_alone) SVC_LOCKED
{
	uint64_t now_ns = svc_now_ns(), id = s->id;
	uint32_t records = 0, bytes = 0, size;
	bool goes_on;

	svc_outbox_flush(&s->outbox);
	if (svc_outbox_is_overfull(&s->outbox)) {
		misbehaved(s, "it does not read its completions");
		return true;
	}
	goes_on = may_go_on(server, s);
	while (goes_on && records < ROUND_RECORDS && bytes < ROUND_BYTES &&
	       (size = take_next(server, s, now_ns)) > 0) {
		records++;
		bytes += size;
		goes_on = follow(server, s, id, is_alone);
	}
	/* A record that was parked just now asked for what the session needs at this moment. */
	if (records > 0 && is_there(server, s, id) && !s->parked)
		svc_memory_settle(s);
	return records > 0;
}

/* Does the worker have something to do for others? */
static bool is_needed_elsewhere(const struct svc_session *s) SVC_LOCKED
{
	const struct svc_server *server = s->server;
	const struct svc_worker *w = &server->worker;

	return w->attended_count > s->attention.is_attended || !TAILQ_EMPTY(&server->posted) ||
	       (w->wake_ns > 0 && svc_now_ns() >= w->wake_ns) || atomic_load(&w->stop);
}

bool svc_worker_serve(struct svc_session *s)
{
	struct svc_server *server = s->server;

	if (!svc_worker_is_me(server))
		return false;
	svc_rest_hear_bells(server);
	take_own_turns(s);
	if (svc_worker_is_me(server) && s->state == SVC_OPEN)
		(void)drain(server, s, true);
	return svc_worker_is_me(server) && s->state == SVC_OPEN && !is_needed_elsewhere(s);
}

/* Do one round for every attended session. Other threads may lock between two sessions. */
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
		any |= drain(server, s, false);
		if (n + 1 < count)
			svc_lock_breathe(server);
	}
	return any;
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

static void work(struct svc_server *server) SVC_LOCKED
{
	struct svc_worker *w = &server->worker;
	bool any;

	w->is_called = false; /* the code below checks for all kinds of work */
	any = take_turns(server);
	if (tick(server))
		any |= take_turns(server);
	if (svc_worker_is_me(server))
		any |= drain_all(server);
	if (!svc_worker_is_me(server))
		return;
	if (w->makes_way)
		svc_rest_make_way(server);
	svc_rest_hear_bells(server);
	if (any)
		svc_rest_end(w);
	else
		svc_rest(server);
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

	svc_rest_init(w);
	w->record = aligned_alloc(64, SAL_RECORD_MAX);
	w->answer = aligned_alloc(64, SAL_RECORD_MAX);
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (!w->record || !w->answer || w->epoll < 0 || w->alarm < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory or open files");
	rc = sal_doorbell_create(&w->ring_fd, &w->bell, err);
	if (rc < 0)
		return rc;
	rc = svc_attend_listen(server, w->bell, SVC_OWN_BELL, err);
	return rc < 0 ? rc : svc_attend_listen(server, w->alarm, SVC_ALARM, err);
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
	free(w->answer);
	w->record = w->answer = NULL;
	for (i = 0; i < SAL_COUNT(fds); i++) {
		sal_close(fds[i]);
	}
}
