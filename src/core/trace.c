/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trace.h"

#include <string.h>

#include "core/session.h"

static void fill_job(struct sal_trace_entry *entry, const struct sal_job *job)
{
	entry->record.persist_bytes = job->declared.persist_bytes;
	entry->record.ephem_bytes = job->declared.ephem_bytes;
	entry->job = (struct sal_trace_job){
		.limit_bytes = job->limit_bytes,
		.deadline_ns = job->deadline_ns,
		.weight_milli = job->weight_milli,
		.priority = job->priority,
		.kind = (uint8_t)job->kind,
		.kind_undeclared = job->kind_undeclared,
	};
}

static void fill_work(struct sal_trace_entry *entry, const struct sal_iteration *it)
{
	entry->work =
		(struct sal_trace_work){ .program = it->program, .margin_bytes = it->margin_bytes };
	if (it->pace)
		entry->work.pace = *it->pace;
}

void sal_trace_fill(struct sal_trace_entry *entry, const struct sal_engine *engine,
		    const struct sal_record *r, const struct sal_session *s,
		    const struct sal_iteration *it)
{
	const struct sal_memory *memory = engine ? sal_engine_memory(engine) : NULL;

	entry->record = *r;
	if (r->what == SAL_SET_TUNING && engine) {
		entry->tuning = *sal_engine_tuning(engine);
		return;
	}
	entry->memory = (struct sal_trace_memory){
		.persist_bytes = memory ? memory->persist_bytes : 0,
		.lane_sum_bytes = memory ? memory->lane_sum_bytes : 0,
	};
	entry->span = (struct sal_trace_span){ 0 };
	entry->busy_ns = entry->took_bytes = 0;
	if (r->what == SAL_SUBMIT && it)
		fill_work(entry, it);
	if (r->what == SAL_DONE && it) {
		entry->busy_ns = it->busy_ns;
		entry->took_bytes = it->took_bytes;
	}
	if (r->what == SAL_SET_POLICY && engine)
		sal_trace_copy_name(entry->policy, sizeof(entry->policy),
				    sal_policy_name(sal_engine_policy(engine)));
	if (sal_trace_has_job(entry) && s)
		fill_job(entry, &s->job);
}

/* Length in bytes of the UTF-8 character at `at`; 0: invalid. */
static size_t character(const unsigned char *at)
{
	size_t size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
	size_t i;

	if (at[0] > 0xf4 || (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
	    (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	for (i = 1; i < size; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return size;
}

void sal_trace_copy_name(char *to, size_t size, const char *from)
{
	const unsigned char *at = (const unsigned char *)from;
	size_t used = 0;

	while (*at) {
		size_t n = character(at);

		if (used + (n ? n : 1) >= size)
			break;
		if (n)
			memcpy(to + used, at, n);
		else
			to[used] = '?';
		used += n ? n : 1;
		at += n ? n : 1;
	}
	memset(to + used, 0, size - used);
}
