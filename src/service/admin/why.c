/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why - what one job waits for, who has it, and for how long.
 *
 * The answer uses the state of the engine and the service. It says nothing that salusd cannot know.
 */
#include "service/admin/why.h"

#include <inttypes.h>
#include <math.h>

#include "base/units.h"
#include "core/engine.h"
#include "service/admin/admin.h"
#include "service/client/session.h"
#include "service/run/closing.h"
#include "service/run/dispatch.h"
#include "service/server.h"

uint64_t svc_why_run_ns(const struct svc_why *why, struct sal_iteration *running)
{
	const struct svc_execution *x = svc_execution_of(running);

	return svc_execution_has_started(x) && why->now_ns > x->start_ns ? why->now_ns - x->start_ns
									 : 0;
}

const char *svc_why_name(const struct sal_session *core)
{
	return ((const struct svc_session *)sal_session_user(core))->name;
}

/* The iteration called Python in the job's own process, and waits for the return. */
static void say_calling(struct svc_why *why)
{
	uint32_t queued = why->engine.queued;
	char run[SAL_UNITS_TEXT];

	why->waits_for = "python";
	sal_words_add(&why->words,
		      "running: its iteration has run for %s in lane %u, and waits for its own "
		      "Python: a callback of the job has not returned.",
		      sal_duration_format(svc_why_run_ns(why, why->core.running), run, sizeof(run)),
		      why->core.lane);
	if (queued > 0)
		sal_words_add(&why->words,
			      " %u more %s queued behind it: a callback that needs their results "
			      "waits until the job is killed.",
			      queued, queued == 1 ? "is" : "are");
}

static void say_running(struct svc_why *why)
{
	struct sal_iteration *running = why->core.running;
	uint32_t queued = why->engine.queued;
	char run[SAL_UNITS_TEXT], all[SAL_UNITS_TEXT];

	if (!LIST_EMPTY(&why->s->calls)) {
		say_calling(why);
		return;
	}
	why->waits_for = "nothing";
	why->estimate_s = 0;
	sal_words_add(&why->words, "running: its iteration has run for %s in lane %u",
		      sal_duration_format(svc_why_run_ns(why, running), run, sizeof(run)),
		      why->core.lane);
	if (why->s->tier > 0)
		sal_words_add(&why->words, ", behind more urgent jobs");
	if (running->expected_ns)
		sal_words_add(&why->words, ", and takes about %s",
			      sal_duration_format(running->expected_ns, all, sizeof(all)));
	sal_words_add(&why->words, "; %u more %s queued.", queued, queued == 1 ? "is" : "are");
	if (why->core.paused)
		sal_words_add(&why->words, " Then it stops: it is paused by the operator.");
}

static void say_idle(struct svc_why *why)
{
	const struct svc_session *s = why->s;
	char idle[SAL_UNITS_TEXT];

	if (s->account.used[SVC_COMPILES] > 0) {
		svc_why_compile(why);
		return;
	}
	why->waits_for = "input";
	sal_words_add(&why->words, "idle: it has submitted nothing for %s.",
		      sal_duration_format(why->now_ns > why->core.idle_since_ns
						  ? why->now_ns - why->core.idle_since_ns
						  : 0,
					  idle, sizeof(idle)));
}

static void say_paused(struct svc_why *why)
{
	why->waits_for = "operator";
	sal_words_add(&why->words,
		      "paused by the operator, with %u iteration%s queued; `salus resume %" PRIu64
		      "` lets it go on.",
		      why->engine.queued, why->engine.queued == 1 ? "" : "s", why->s->id);
}

static void say_copying(struct svc_why *why)
{
	char bytes[SAL_UNITS_TEXT];

	why->waits_for = "copy";
	sal_words_add(&why->words,
		      why->engine.state == SAL_STATE_PAGING_OUT
			      ? "paging out: its %s go to host memory, to make room for others."
			      : "paging in: its %s come back from host memory.",
		      sal_bytes_format(why->core.paged_bytes, bytes, sizeof(bytes)));
}

/* A page-in of the job failed. The engine tries again. */
static void say_retry(struct svc_why *why)
{
	char wait[SAL_UNITS_TEXT];
	uint64_t wait_ns = why->engine.retry_ns > why->now_ns ? why->engine.retry_ns - why->now_ns
							      : 0;

	why->waits_for = "copy";
	sal_words_add(&why->words,
		      " Bringing them back failed %u times in a row; the next try is in %s.",
		      why->engine.in_failures, sal_duration_format(wait_ns, wait, sizeof(wait)));
}

static void say_paged(struct svc_why *why)
{
	char bytes[SAL_UNITS_TEXT];

	why->waits_for = "input";
	sal_words_add(&why->words,
		      "paged: its %s lie in host memory; they come back when it has work and there "
		      "is room.",
		      sal_bytes_format(why->core.paged_bytes, bytes, sizeof(bytes)));
	if (why->engine.retry_ns)
		say_retry(why);
}

static void say_closing(struct svc_why *why)
{
	const struct svc_execution *x = svc_session_running(why->s);
	char run[SAL_UNITS_TEXT];

	why->waits_for = "nothing";
	if (x && x->program)
		sal_words_add(&why->words,
			      "closing: its iteration of %.*s has run for %s in lane %u and cannot "
			      "be interrupted; what it holds goes with it.",
			      (int)x->program->shared->facts->name.size,
			      x->program->shared->facts->name.at,
			      sal_duration_format(why->now_ns - x->start_ns, run, sizeof(run)),
			      x->lane);
	else
		sal_words_add(&why->words,
			      "closing: its job has ended; what it holds goes with its last copy.");
}

static void say_state(struct svc_why *why)
{
	static void (*const says[])(struct svc_why * why) = {
		[SAL_STATE_REFUSED] = svc_why_refused, [SAL_STATE_RUNNING] = say_running,
		[SAL_STATE_PAGING_OUT] = say_copying,  [SAL_STATE_PAGING_IN] = say_copying,
		[SAL_STATE_PAUSED] = say_paused,       [SAL_STATE_WAITING] = svc_why_waiting,
		[SAL_STATE_PAGED] = say_paged,	       [SAL_STATE_IDLE] = say_idle,
		[SAL_STATE_READY] = svc_why_ready,
	};

	if (why->s->state != SVC_OPEN)
		say_closing(why);
	else
		says[why->engine.state](why);
}

void svc_why_say(struct svc_why *why)
{
	char about[SAL_UNITS_TEXT];

	sal_engine_view(why->server->engine, why->s->core, &why->core);
	sal_engine_explain(why->server->engine, why->s->core, &why->engine);
	say_state(why);
	if (why->estimate_s > 0)
		sal_words_add(&why->words, " About %s.",
			      sal_duration_format((uint64_t)(why->estimate_s * 1e9), about,
						  sizeof(about)));
}

/* Why the job does not run beside others, and what all would do without and with it. */
static json_t *describe_hold(const struct sal_turn_wait *turn)
{
	const char *reason = svc_why_hold_name(turn->hold);

	return reason ? json_pack("{s:s, s:f, s:f}", "reason", reason, "rate",
				  turn->rate_milli / 1000.0, "rate_with",
				  turn->rate_with_milli / 1000.0)
		      : json_null();
}

json_t *svc_answer_why(struct svc_question *q)
{
	struct svc_why why = { .server = q->server, .estimate_s = NAN };
	json_t *reply = NULL;

	svc_lock(q->server);
	why.now_ns = svc_now_ns();
	why.s = svc_find_job(q);
	if (why.s) {
		why.holders = json_array();
		svc_why_say(&why);
		reply = json_pack("{s:b, s:I, s:o, s:s, s:o, s:s, s:o, s:o, s:o}", "ok", 1, "id",
				  (json_int_t)why.s->id, "name", svc_json_text(why.s->name),
				  "state", svc_state_name(why.s), "text",
				  svc_json_text(why.words.at), "waits_for", why.waits_for,
				  "holders", why.holders, "hold", describe_hold(&why.engine.turn),
				  "estimate_s",
				  isnan(why.estimate_s) ? json_null() : json_real(why.estimate_s));
	}
	svc_unlock(q->server);
	return reply;
}
