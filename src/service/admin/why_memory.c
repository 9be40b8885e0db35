/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why_memory - how much a job needs, how much is free, and who has the rest.
 */
#include "service/admin/why.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/units.h"
#include "core/engine.h"
#include "service/admin/admin.h"
#include "service/client/session.h"
#include "service/server.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* How much must be free, or its own, before it goes on. */
static struct sal_needs needs_of(const struct sal_session *core)
{
	const struct sal_iteration *head = TAILQ_FIRST(&core->queue);
	struct sal_needs needs = {
		.persist_bytes = larger(core->tracked_bytes, core->job.declared.persist_bytes),
		.ephem_bytes = larger(core->seen_ephem_bytes, core->job.declared.ephem_bytes),
	};

	if (core->need_open)
		needs.persist_bytes = larger(needs.persist_bytes, core->asked_bytes);
	if (head) {
		needs.persist_bytes = larger(needs.persist_bytes, head->needs.persist_bytes);
		needs.ephem_bytes = larger(needs.ephem_bytes, head->needs.ephem_bytes);
	}
	return needs;
}

static int by_bytes(const void *a, const void *b)
{
	const struct svc_session *x = *(struct svc_session *const *)a;
	const struct svc_session *y = *(struct svc_session *const *)b;

	return x->core->held_bytes < y->core->held_bytes   ? 1
	       : x->core->held_bytes > y->core->held_bytes ? -1
							   : 0;
}

/* Sessions that hold persistent bytes, the largest first. */
static void say_holders(struct svc_why *why)
{
	struct svc_session *s, **all;
	size_t count = 0, i;
	char bytes[SAL_UNITS_TEXT];

	TAILQ_FOREACH(s, &why->server->sessions, link)
		count += s != why->s && s->core->held_bytes > 0;
	all = calloc(count + 1, sizeof(struct svc_session *));
	if (!all || count == 0) {
		free(all);
		return;
	}
	i = 0;
	TAILQ_FOREACH(s, &why->server->sessions, link)
		if (s != why->s && s->core->held_bytes > 0)
			all[i++] = s;
	qsort(all, count, sizeof(struct svc_session *), by_bytes);
	for (i = 0; i < count; i++) {
		if (i < WHY_NAMED_MAX)
			sal_words_add(
				&why->words, "%s%s (%s)", i ? ", " : "; held by ", all[i]->name,
				sal_bytes_format(all[i]->core->held_bytes, bytes, sizeof(bytes)));
		(void)json_array_append_new(
			why->holders, json_pack("{s:I, s:o, s:I}", "id", (json_int_t)all[i]->id,
						"name", svc_json_text(all[i]->name), "bytes",
						(json_int_t)all[i]->core->held_bytes));
	}
	free(all);
}

void svc_why_waiting(struct svc_why *why)
{
	const struct sal_memory *memory = sal_engine_memory(why->server->engine);
	struct sal_needs needs = needs_of(why->s->core);
	char sum[SAL_UNITS_TEXT], p[SAL_UNITS_TEXT], e[SAL_UNITS_TEXT];
	char free_text[SAL_UNITS_TEXT], all[SAL_UNITS_TEXT];

	why->waits_for = "memory";
	sal_words_add(&why->words, "waiting: it needs %s (%s P + %s E)",
		      sal_bytes_format(needs.persist_bytes + needs.ephem_bytes, sum, sizeof(sum)),
		      sal_bytes_format(needs.persist_bytes, p, sizeof(p)),
		      sal_bytes_format(needs.ephem_bytes, e, sizeof(e)));
	if (why->s->core->held_bytes > 0)
		sal_words_add(&why->words, " and holds %s",
			      sal_bytes_format(why->s->core->held_bytes, p, sizeof(p)));
	sal_words_add(&why->words, "; %s of %s is free",
		      sal_bytes_format(sal_memory_free(memory), free_text, sizeof(free_text)),
		      sal_bytes_format(memory->capacity_bytes, all, sizeof(all)));
	say_holders(why);
	sal_words_add(&why->words, ".");
	if (why->s->core->aged)
		sal_words_add(&why->words,
			      " It was passed over %u times: nobody is let in before "
			      "it any more.",
			      why->s->core->passed_over);
}

void svc_why_refused(struct svc_why *why)
{
	const struct sal_session *core = why->s->core;
	uint64_t capacity = sal_engine_memory(why->server->engine)->capacity_bytes;
	uint64_t limit = core->job.limit_bytes;
	char needs[SAL_UNITS_TEXT], most[SAL_UNITS_TEXT];

	why->waits_for = "nothing";
	sal_words_add(
		&why->words, "refused: it declared that it needs %s, and may have %s at most.",
		sal_bytes_format(core->job.declared.persist_bytes + core->job.declared.ephem_bytes,
				 needs, sizeof(needs)),
		sal_bytes_format(limit && limit < capacity ? limit : capacity, most, sizeof(most)));
	if (limit && limit < capacity)
		sal_words_add(&why->words, " `salus set %" PRIu64 " memory=SIZE` raises its limit.",
			      why->s->id);
}
