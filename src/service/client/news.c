/* SPDX-License-Identifier: Apache-2.0 */
#include "service/client/news.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/log/log.h"
#include "base/units.h"
#include "service/admin/walk.h"
#include "service/admin/why.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/run/closing.h"
#include "service/run/dispatch.h"
#include "service/run/worker.h"
#include "service/server.h"

#define ROUND_MS 1000
/*
 * Sessions that get news in one round, because finding the reason takes time under the lock. Other
 * sessions get theirs in the next round.
 */
#define TELL_MAX 16
#define TELL_AFTER_NS UINT64_C(5000000000)

static bool has_work(const struct svc_session *s)
{
	struct sal_session_view view;

	sal_engine_view(s->server->engine, s->core, &view);
	return s->parked || s->account.used[SVC_COMPILES] > 0 || view.has_work;
}

/*
 * A callback needs an array while iterations are queued behind the one that calls. If one of them
 * makes the array, both wait until the job is killed.
 */
static bool is_entangled(const struct svc_session *s)
{
	return s->nested_waits > 0 && s->queued_count > 0;
}

/* The session has work, and none of the work was done since the last check. */
static bool is_left_waiting(const struct svc_session *s)
{
	struct sal_session_view view;

	sal_engine_view(s->server->engine, s->core, &view);
	return has_work(s) && (!view.running || is_entangled(s)) && !view.closing &&
	       view.done_iterations == s->patience.iterations &&
	       s->patience.tasks_done == s->patience.tasks;
}

static void tell_why(struct svc_session *s, uint64_t now_ns)
{
	struct svc_why why = { .server = s->server, .s = s, .now_ns = now_ns, .estimate_s = NAN };
	struct sal_words words = { 0 };

	why.holders = json_array();
	svc_why_say(&why);
	json_decref(why.holders);
	sal_words_add(&words, "salus: %s (id %" PRIu64 ") is %s", s->name, s->id, why.words.at);
	svc_outbox_news(&s->outbox, words.at);
}

static void tell_end(struct svc_session *s, uint64_t now_ns)
{
	struct sal_words words = { 0 };
	char waited[SAL_UNITS_TEXT];

	sal_words_add(
		&words, "salus: %s (id %" PRIu64 ") goes on after %s", s->name, s->id,
		sal_duration_format((now_ns - s->patience.since_ns) / 1000000000u * 1000000000u,
				    waited, sizeof(waited)));
	svc_outbox_news(&s->outbox, words.at);
}

static uint64_t done_iterations(const struct svc_session *s)
{
	struct sal_session_view view;

	sal_engine_view(s->server->engine, s->core, &view);
	return view.done_iterations;
}

/* One round over all sessions. */
struct round {
	struct svc_server *server; /* borrowed */
	bool has_work;
	uint32_t told;
};

static void check_patience(struct round *r, struct svc_session *s, uint64_t now_ns)
{
	struct svc_patience *p = &s->patience;

	if (!is_left_waiting(s)) {
		if (p->told)
			tell_end(s, now_ns);
		p->told = false;
		p->since_ns = 0;
		p->iterations = done_iterations(s);
		p->tasks = p->tasks_done;
	} else if (p->since_ns == 0) {
		p->since_ns = now_ns;
	} else if (!p->told && now_ns - p->since_ns >= TELL_AFTER_NS && r->told < TELL_MAX) {
		r->told++;
		tell_why(s, now_ns);
		p->told = true;
	}
}

/* An iteration cannot be interrupted, but its session can be killed. */
static void enforce_limit(struct svc_session *s, uint64_t now_ns) SVC_LOCKED
{
	uint64_t limit_ns = s->server->options.iteration_limit_ns;
	const struct svc_execution *x = svc_session_running(s);
	char limit[SAL_UNITS_TEXT], why[200];

	if (!limit_ns || !x || s->state != SVC_OPEN || now_ns < x->start_ns + limit_ns)
		return;
	(void)snprintf(why, sizeof(why),
		       "salus: the job was ended: an iteration took longer than %s "
		       "(salusd --iteration-limit)",
		       sal_duration_format(limit_ns, limit, sizeof(limit)));
	sal_log_warn("session", "ended id=%" PRIu64 " name=%s: its iteration runs longer than %s",
		     s->id, s->name, limit);
	svc_session_kill(s, why);
}

static void visit(void *ctx, const struct svc_session *seen) SVC_LOCKED
{
	/* The walk does not change the session; this function does. */
	struct svc_session *s = (struct svc_session *)seen;
	struct round *r = ctx;
	uint64_t now_ns = svc_now_ns();

	if (!s) {
		r->server->news.is_running = r->has_work;
		return;
	}
	if (s->patience.understands && s->state == SVC_OPEN)
		check_patience(r, s, now_ns);
	enforce_limit(s, now_ns);
	r->has_work |= has_work(s);
}

static void on_timer(uv_timer_t *timer)
{
	struct svc_server *server = timer->data;
	struct svc_walk walk = { .server = server };
	struct round r = { .server = server };

	while (svc_walk_on(&walk, visit, &r))
		;
	svc_worker_wake(server); /* a session may have been killed */
	if (!r.has_work)
		(void)uv_timer_stop(timer);
}

static void on_work(uv_async_t *bell)
{
	struct svc_server *server = bell->data;

	(void)uv_timer_start(&server->news.timer, on_timer, ROUND_MS, ROUND_MS);
}

void svc_news_open(struct svc_server *server)
{
	server->news.bell.data = server->news.timer.data = server;
	(void)uv_async_init(&server->loop, &server->news.bell, on_work);
	(void)uv_timer_init(&server->loop, &server->news.timer);
}

void svc_news_watch(struct svc_server *server)
{
	if (server->news.is_running)
		return;
	server->news.is_running = true;
	(void)uv_async_send(&server->news.bell);
}
