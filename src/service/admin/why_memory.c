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

/* A session that holds persistent bytes. */
struct holder {
	const struct svc_session *s;
	uint64_t bytes;
};

static int by_bytes(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

/* All other holders, the largest first. The caller frees them. NULL: none, or no memory. */
static struct holder *find_holders(const struct svc_why *why, size_t *out_count)
{
	const struct svc_session *s;
	struct holder *all;
	size_t count = 0;

	*out_count = 0;
	TAILQ_FOREACH(s, &why->server->sessions, link)
		count++;
	all = calloc(count + 1, sizeof(*all));
	if (!all)
		return NULL;
	count = 0;
	TAILQ_FOREACH(s, &why->server->sessions, link) {
		all[count] = (struct holder){ s, sal_session_memory(s->core).held_bytes };
		count += s != why->s && all[count].bytes > 0;
	}
	qsort(all, count, sizeof(*all), by_bytes);
	*out_count = count;
	return all;
}

static void say_holders(struct svc_why *why)
{
	size_t count, i;
	struct holder *all = find_holders(why, &count);
	char bytes[SAL_UNITS_TEXT];

	for (i = 0; i < count; i++) {
		if (i < WHY_NAMED_MAX)
			sal_words_add(&why->words, "%s%s (%s)", i ? ", " : "; held by ",
				      all[i].s->name,
				      sal_bytes_format(all[i].bytes, bytes, sizeof(bytes)));
		(void)json_array_append_new(
			why->holders, json_pack("{s:I, s:o, s:I}", "id", (json_int_t)all[i].s->id,
						"name", svc_json_text(all[i].s->name), "bytes",
						(json_int_t)all[i].bytes));
	}
	free(all);
}

/* Say what else keeps the job from memory, besides the numbers. */
static void say_order(struct svc_why *why, const struct sal_memory_wait *m)
{
	if (m->lane_is_stuck)
		sal_words_add(&why->words,
			      " The iteration that runs in its lane does not end: it needs room in "
			      "another lane.");
	if (m->first)
		sal_words_add(&why->words, " Free memory goes to %s (id %" PRIu64 ") first.",
			      svc_why_name(m->first), sal_session_id(m->first));
	if (m->aged)
		sal_words_add(&why->words,
			      " It was passed over %u times: nobody is let in before it any more.",
			      m->passed_over);
}

void svc_why_waiting(struct svc_why *why)
{
	const struct sal_memory_wait *m = &why->engine.memory;
	char sum[SAL_UNITS_TEXT], p[SAL_UNITS_TEXT], e[SAL_UNITS_TEXT];
	char free_text[SAL_UNITS_TEXT], all[SAL_UNITS_TEXT];

	why->waits_for = "memory";
	sal_words_add(&why->words, "waiting: it needs %s (%s P + %s E)",
		      sal_bytes_format(m->needs.persist_bytes + m->needs.ephem_bytes, sum,
				       sizeof(sum)),
		      sal_bytes_format(m->needs.persist_bytes, p, sizeof(p)),
		      sal_bytes_format(m->needs.ephem_bytes, e, sizeof(e)));
	if (m->held_bytes > 0)
		sal_words_add(&why->words, " and holds %s",
			      sal_bytes_format(m->held_bytes, p, sizeof(p)));
	sal_words_add(&why->words, "; %s of %s is free",
		      sal_bytes_format(m->free_bytes, free_text, sizeof(free_text)),
		      sal_bytes_format(m->capacity_bytes, all, sizeof(all)));
	say_holders(why);
	sal_words_add(&why->words, ".");
	say_order(why, m);
}

void svc_why_refused(struct svc_why *why)
{
	const struct sal_memory_wait *m = &why->engine.memory;
	uint64_t capacity = m->capacity_bytes;
	uint64_t limit = why->core.job.limit_bytes;
	char needs[SAL_UNITS_TEXT], most[SAL_UNITS_TEXT];

	why->waits_for = "nothing";
	sal_words_add(
		&why->words, "refused: it declared that it needs %s, and may have %s at most.",
		sal_bytes_format(m->needs.persist_bytes + m->needs.ephem_bytes, needs,
				 sizeof(needs)),
		sal_bytes_format(limit && limit < capacity ? limit : capacity, most, sizeof(most)));
	if (limit && limit < capacity)
		sal_words_add(&why->words, " `salus set %" PRIu64 " limit=SIZE` raises its limit.",
			      why->s->id);
}
