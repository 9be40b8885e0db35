/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/attend.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "link/socket.h"
#include "service/client/session.h"
#include "service/idmap.h"
#include "service/ledger.h"
#include "service/run/worker.h"
#include "service/server.h"

/* How long the worker ignores a client that rang without sending, or sent too fast; at least. */
#define REST_NS UINT64_C(10000000)
/* How long an empty ring stays attended. */
#define ATTEND_NS UINT64_C(20000000)
/* A client may ring this often without sending a record. */
#define RINGS_MAX 16
/* While a program calls the client, so many times as many records may wait. */
#define CALLING_FACTOR 8

bool svc_session_is_ahead(const struct svc_session *s)
{
	const uint64_t *max = s->server->ledger.limits.max[SVC_JOB];
	uint64_t waiting_max = max[SVC_QUEUED_ITERATIONS];

	if (!LIST_EMPTY(&s->calls)) /* the ring brings the answer, and nothing ends before it */
		return waiting_max && s->waiting_count / CALLING_FACTOR >= waiting_max;
	return (waiting_max && s->waiting_count >= waiting_max) ||
	       (max[SVC_QUEUED_BYTES] && s->queued_bytes >= max[SVC_QUEUED_BYTES] / 2);
}

void svc_attend_if_ahead(struct svc_session *s)
{
	if (svc_session_is_ahead(s))
		svc_attend(s);
}

void svc_waiting_begin(struct svc_session *s)
{
	s->waiting_count++;
}

void svc_waiting_end(struct svc_session *s)
{
	SAL_ASSERT(s->waiting_count > 0);
	svc_attend_if_ahead(s);
	s->waiting_count--;
}

bool svc_attend_is_read(const struct svc_session *s)
{
	return s->state == SVC_OPEN && !svc_session_is_ahead(s) && (!s->parked || s->retry);
}

void svc_attend(struct svc_session *s)
{
	struct svc_attention *a = &s->attention;
	struct svc_worker *w = &s->server->worker;

	svc_assert_locked(s->server);
	if (s->state != SVC_OPEN || a->is_attended || a->is_resting)
		return;
	a->is_attended = true;
	a->heard_ns = svc_now_ns();
	TAILQ_INSERT_TAIL(&w->attended, s, attention.link);
	w->attended_count++;
	sal_ring_awake(&s->submit);
	w->is_called = true;
}

void svc_unpark(struct svc_session *s)
{
	s->retry = true;
	if (s->parked)
		svc_attend(s);
}

static void unattend(struct svc_session *s)
{
	if (!s->attention.is_attended)
		return;
	s->attention.is_attended = false;
	TAILQ_REMOVE(&s->server->worker.attended, s, attention.link);
	s->server->worker.attended_count--;
}

static void end_rest(struct svc_session *s)
{
	if (!s->attention.is_resting)
		return;
	s->attention.is_resting = false;
	TAILQ_REMOVE(&s->server->worker.resting, s, attention.rest_link);
}

/* Start or stop listening to the session's bell. */
static void listen_to(struct svc_session *s, bool on)
{
	struct epoll_event event = { .events = on ? EPOLLIN | EPOLLRDHUP : 0,
				     .data = { .u64 = s->id } };

	if (!s->attention.is_deaf)
		(void)epoll_ctl(s->server->worker.epoll, EPOLL_CTL_MOD, s->bell, &event);
}

void svc_attend_end(struct svc_session *s)
{
	unattend(s);
	end_rest(s);
	if (!s->attention.is_deaf)
		(void)epoll_ctl(s->server->worker.epoll, EPOLL_CTL_DEL, s->bell, NULL);
	s->attention.is_deaf = true;
}

/* Do not read the ring, and do not listen to the bell, until then. */
static void rest(struct svc_session *s, uint64_t until_ns)
{
	struct svc_attention *a = &s->attention;

	unattend(s);
	a->is_resting = true;
	a->rest_until_ns = until_ns;
	TAILQ_INSERT_TAIL(&s->server->worker.resting, s, attention.rest_link);
	listen_to(s, false);
}

static void note_silence(struct svc_attention *a, uint64_t now_ns)
{
	uint64_t silence_ns = now_ns > a->heard_ns ? now_ns - a->heard_ns : 0;

	if (silence_ns > a->silence_ns)
		a->silence_ns = silence_ns;
	a->heard_ns = now_ns;
}

void svc_attend_silence_begin(struct svc_session *s)
{
	s->attention.silence_ns = 0;
	s->attention.heard_ns = svc_now_ns();
}

uint64_t svc_attend_silence_end(struct svc_session *s)
{
	note_silence(&s->attention, svc_now_ns());
	return s->attention.silence_ns;
}

bool svc_attend_may_take(struct svc_session *s, uint64_t now_ns)
{
	uint64_t wait_ns = 0;

	if (sal_ring_is_empty(&s->submit))
		return false;
	note_silence(&s->attention, now_ns);
	s->attention.rings = 0;
	if (svc_limit_pace(s, now_ns, 1, &wait_ns) > 0)
		return true;
	rest(s, now_ns + (wait_ns > REST_NS ? wait_ns : REST_NS));
	return false;
}

uint64_t svc_attend_rested(struct svc_server *server, uint64_t now_ns)
{
	struct svc_session *s, *next;
	uint64_t soonest_ns = 0;

	for (s = TAILQ_FIRST(&server->worker.resting); s; s = next) {
		uint64_t until_ns = s->attention.rest_until_ns;

		next = TAILQ_NEXT(s, attention.rest_link);
		if (until_ns <= now_ns) {
			end_rest(s);
			listen_to(s, true);
			svc_attend(s);
		} else if (soonest_ns == 0 || until_ns < soonest_ns) {
			soonest_ns = until_ns;
		}
	}
	return soonest_ns;
}

static struct svc_session *find_session(struct svc_server *server, uint64_t id)
{
	return svc_idmap_find(&server->by_id, id);
}

static void on_bell(struct svc_session *s, uint32_t events, uint64_t now_ns) SVC_LOCKED
{
	struct svc_attention *a = &s->attention;

	sal_doorbell_quiet(s->bell);
	if (events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) { /* nobody can ring the bell any more */
		(void)epoll_ctl(s->server->worker.epoll, EPOLL_CTL_DEL, s->bell, NULL);
		a->is_deaf = true;
	}
	svc_attend(s);
	if (++a->rings > RINGS_MAX && !a->is_resting)
		rest(s, now_ns + REST_NS);
}

void svc_attend_bells(struct svc_server *server, const struct epoll_event *rung, int count)
{
	struct svc_worker *w = &server->worker;
	uint64_t now_ns = svc_now_ns();
	int i;

	for (i = 0; i < count; i++) {
		struct svc_session *s;

		if (rung[i].data.u64 == SVC_OWN_BELL) {
			sal_doorbell_quiet(w->bell);
			continue;
		}
		s = rung[i].data.u64 == SVC_ALARM ? NULL : find_session(server, rung[i].data.u64);
		if (s && s->state == SVC_OPEN)
			on_bell(s, rung[i].events, now_ns);
	}
}

int svc_attend_listen(struct svc_server *server, int bell, uint64_t session_id, struct sal_err *err)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP,
				     .data = { .u64 = session_id } };

	if (epoll_ctl(server->worker.epoll, EPOLL_CTL_ADD, bell, &event) < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "epoll: %s", strerror(errno));
	return SAL_OK;
}

/* The ring was empty for a while, or must not be read now. */
static bool is_quiet(struct svc_session *s, uint64_t now_ns)
{
	if (!svc_attend_is_read(s))
		return true;
	return !s->parked && s->attention.pollers == 0 &&
	       now_ns - s->attention.heard_ns > ATTEND_NS && sal_ring_sleep(&s->submit);
}

void svc_attend_forget_quiet(struct svc_server *server, uint64_t now_ns)
{
	struct svc_session *s, *next;

	for (s = TAILQ_FIRST(&server->worker.attended); s; s = next) {
		next = TAILQ_NEXT(s, attention.link);
		if (is_quiet(s, now_ns))
			unattend(s);
	}
}

bool svc_attend_sleep(struct svc_server *server)
{
	struct svc_session *s;
	bool quiet = true;

	TAILQ_FOREACH(s, &server->worker.attended, attention.link) {
		if (!svc_attend_is_read(s) || s->attention.pollers > 0)
			continue;
		quiet = !s->parked && sal_ring_sleep(&s->submit) && quiet;
	}
	return quiet;
}

void svc_attend_awake(struct svc_server *server)
{
	struct svc_session *s;

	TAILQ_FOREACH(s, &server->worker.attended, attention.link)
		sal_ring_awake(&s->submit);
}

void svc_attend_poll_begin(struct svc_session *s)
{
	s->attention.pollers++;
	sal_ring_awake(&s->submit);
}

bool svc_attend_poll_end(struct svc_session *s)
{
	if (--s->attention.pollers > 0 || s->state != SVC_OPEN)
		return false;
	if (sal_ring_sleep(&s->submit))
		return false;
	svc_attend(s);
	sal_ring_awake(&s->submit);
	s->server->worker.is_called = true;
	return true;
}
