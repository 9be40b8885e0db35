/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why_compile - a job's programs wait for the compiler: how long, how many programs are ahead, and
 * for whom the compiler works now.
 */
#include "service/admin/why.h"

#include <inttypes.h>

#include "base/units.h"
#include "compile/pool/pool.h"
#include "service/admin/admin.h"
#include "service/client/session.h"
#include "service/run/tasks.h"
#include "service/server.h"

/* The first task of the session that the pool has; NULL: the pool has none yet. */
static const struct svc_task *first_pending(const struct svc_session *s)
{
	const struct svc_task *task;

	TAILQ_FOREACH(task, &s->tasks, link)
		if (task->pending)
			return task;
	return NULL;
}

static const struct svc_session *find(const struct svc_why *why, uint64_t id)
{
	const struct svc_session *s;

	TAILQ_FOREACH(s, &why->server->sessions, link)
		if (s->id == id)
			return s;
	return NULL;
}

static void say_run(struct svc_why *why, const struct sal_compile_run *run, uint32_t index)
{
	const struct svc_session *s = find(why, run->owner);
	char ran[SAL_UNITS_TEXT];

	sal_words_add(&why->words, "%s", index == 0 ? "; the compiler is at work for " : ", ");
	if (!s)
		sal_words_add(&why->words, "a job that has left");
	else if (s == why->s)
		sal_words_add(&why->words, "another of its programs");
	else
		sal_words_add(&why->words, "%s (id %" PRIu64 ")", s->name, s->id);
	sal_words_add(&why->words, ", for %s", sal_duration_format(run->ran_ns, ran, sizeof(ran)));
	if (s && s != why->s)
		(void)json_array_append_new(why->holders,
					    json_pack("{s:I, s:o}", "id", (json_int_t)s->id, "name",
						      svc_json_text(s->name)));
}

static void say_queued(struct svc_why *why, const struct sal_compile_wait *wait)
{
	struct sal_compile_run runs[WHY_NAMED_MAX];
	uint32_t count = sal_compile_runs(why->server->pool, runs, WHY_NAMED_MAX);
	char waited[SAL_UNITS_TEXT];

	sal_words_add(&why->words, "its program has waited for %s and is number %u in the queue",
		      sal_duration_format(wait->waited_ns, waited, sizeof(waited)),
		      wait->ahead + 1);
	for (uint32_t i = 0; i < count && i < WHY_NAMED_MAX; i++)
		say_run(why, &runs[i], i);
}

static void say_running(struct svc_why *why, const struct sal_compile_wait *wait)
{
	char ran[SAL_UNITS_TEXT], limit[SAL_UNITS_TEXT];

	sal_words_add(&why->words,
		      "its program has been compiled for %s; the limit is %s (--compile-time)",
		      sal_duration_format(wait->ran_ns, ran, sizeof(ran)),
		      sal_duration_format(why->server->options.compile_time_ns, limit,
					  sizeof(limit)));
}

void svc_why_compile(struct svc_why *why)
{
	const struct svc_task *task = first_pending(why->s);
	uint32_t others = (uint32_t)why->s->account.used[SVC_COMPILES] - 1;
	struct sal_compile_wait wait = { .stage = SAL_COMPILE_FINDING };

	why->waits_for = "compile";
	sal_words_add(&why->words, "waiting for the compiler: ");
	if (task)
		sal_compile_waiting(task->pending, &wait);
	if (wait.stage == SAL_COMPILE_QUEUED)
		say_queued(why, &wait);
	else if (wait.stage == SAL_COMPILE_RUNNING)
		say_running(why, &wait);
	else
		sal_words_add(&why->words, "its program is being looked for in the cache");
	if (others > 0)
		sal_words_add(&why->words, "; %u more of its programs %s", others,
			      others == 1 ? "waits" : "wait");
	sal_words_add(&why->words, ".");
}
