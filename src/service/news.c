/* SPDX-License-Identifier: Apache-2.0 */
#include "service/news.h"

#include <inttypes.h>
#include <math.h>

#include "base/units.h"
#include "service/service.h"
#include "service/why.h"

#define LOOK_MS 1000
#define TELL_AFTER_NS UINT64_C(5000000000)

static bool has_work(const struct svc_session *s)
{
	return s->parked || s->account.used[SVC_COMPILES] > 0 || sal_session_has_work(s->core);
}

/* With work, and nothing of it was done since we looked last. */
static bool is_left_waiting(const struct svc_session *s)
{
	return has_work(s) && !s->core->running && !s->core->closing &&
	       s->core->done_iterations == s->patience.iterations &&
	       s->patience.jobs_done == s->patience.jobs;
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

static void look_at(struct svc_session *s, uint64_t now_ns)
{
	struct svc_patience *p = &s->patience;

	if (!is_left_waiting(s)) {
		if (p->told)
			tell_end(s, now_ns);
		p->told = false;
		p->since_ns = 0;
		p->iterations = s->core->done_iterations;
		p->jobs = p->jobs_done;
	} else if (p->since_ns == 0) {
		p->since_ns = now_ns;
	} else if (!p->told && now_ns - p->since_ns >= TELL_AFTER_NS) {
		tell_why(s, now_ns);
		p->told = true;
	}
}

static void on_timer(uv_timer_t *timer)
{
	struct svc_server *server = timer->data;
	struct svc_session *s;
	bool any = false;

	svc_lock(server);
	TAILQ_FOREACH(s, &server->sessions, link) {
		if (s->patience.understands)
			look_at(s, svc_now_ns());
		any |= has_work(s);
	}
	server->news.looking = any;
	svc_unlock(server);
	if (!any)
		(void)uv_timer_stop(timer);
}

static void on_work(uv_async_t *bell)
{
	struct svc_server *server = bell->data;

	(void)uv_timer_start(&server->news.timer, on_timer, LOOK_MS, LOOK_MS);
}

void svc_news_open(struct svc_server *server)
{
	server->news.bell.data = server->news.timer.data = server;
	(void)uv_async_init(&server->loop, &server->news.bell, on_work);
	(void)uv_timer_init(&server->loop, &server->news.timer);
}

void svc_news_watch(struct svc_server *server)
{
	if (server->news.looking)
		return;
	server->news.looking = true;
	(void)uv_async_send(&server->news.bell);
}
