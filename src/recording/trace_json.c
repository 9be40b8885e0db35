/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "recording/events.h"
#include "recording/trace_impl.h"

/* Writes the pairs of an object. */
struct pairs {
	FILE *out;
	const char *before; /* written before the next pair */
};

static void put_key(struct pairs *p, const char *key)
{
	(void)fprintf(p->out, "%s\"%s\":", p->before, key);
	p->before = ",";
}

static void put_fields(struct pairs *p, const struct rec_field *f, const void *from)
{
	for (; f->name; f++) {
		put_key(p, f->name);
		rec_json_number(p->out, rec_field_get(f, from));
	}
}

static void put_tuning(struct pairs *p, const struct sal_tuning *tuning)
{
	struct pairs inner = { p->out, "" };

	put_key(p, "tuning");
	(void)fputc('{', p->out);
	put_fields(&inner, rec_tuning_fields, tuning);
	(void)fputc('}', p->out);
}

static void put_text(struct pairs *p, const char *key, const char *text)
{
	put_key(p, key);
	rec_json_text(p->out, text);
}

/* Writes [persistent, lanes] if they changed. */
static void put_memory(struct pairs *p, const struct sal_trace_memory *now,
		       struct sal_trace_memory *last)
{
	if (memcmp(now, last, sizeof(*now)) == 0)
		return;
	put_key(p, "memory");
	(void)fprintf(p->out, "[%" PRIu64 ",%" PRIu64 "]", now->persist_bytes, now->lane_sum_bytes);
	*last = *now;
}

static void put_done(struct pairs *p, const struct sal_trace_entry *entry)
{
	put_fields(p, rec_span_fields, &entry->span);
	put_fields(p, rec_done_fields, entry);
}

/* Writes the parts of an entry that are not in its record. */
static void put_extras(struct pairs *p, const struct sal_trace_entry *entry,
		       struct sal_trace_memory *last)
{
	if (sal_record_is_decision(&entry->record))
		return;
	if (entry->record.what == SAL_SET_TUNING) {
		put_tuning(p, &entry->tuning);
		return;
	}
	put_memory(p, &entry->memory, last);
	if (sal_trace_has_job(entry))
		put_fields(p, rec_job_fields, &entry->job);
	if (entry->record.what == SAL_OPEN)
		put_text(p, "name", entry->job.name);
	else if (entry->record.what == SAL_SUBMIT)
		put_fields(p, rec_work_fields, &entry->work);
	else if (entry->record.what == SAL_DONE)
		put_done(p, entry);
	else if (entry->record.what == SAL_SET_POLICY)
		put_text(p, "policy", rec_entry_policy(entry));
}

static int lane_number(const struct sal_record *r)
{
	return r->lane == SAL_NO_LANE ? -1 : (int)r->lane;
}

static void put_row(FILE *out, const struct sal_trace_entry *entry, struct sal_trace_memory *last)
{
	struct pairs extras = { out, ",{" };
	const struct sal_record *r = &entry->record;
	const struct rec_field *f;

	(void)fprintf(out, "[\"%s\",%d,%u", sal_what_name(r->what), lane_number(r), r->reason);
	for (f = rec_record_fields; f->name; f++) {
		(void)fputc(',', out);
		rec_json_number(out, rec_field_get(f, r));
	}
	put_extras(&extras, entry, last);
	(void)fputs(strcmp(extras.before, ",") == 0 ? "}]" : "]", out);
}

/* Writes what all entries share. */
static void put_head(struct pairs *p, const struct sal_trace_head *head)
{
	put_key(p, "capacity_bytes");
	rec_json_number(p->out, head->capacity_bytes);
	put_key(p, "dropped");
	rec_json_number(p->out, head->dropped);
	put_key(p, "start_ns");
	rec_json_number(p->out, head->start_ns);
	put_key(p, "realtime_ns");
	(void)fprintf(p->out, "%" PRId64, head->realtime_ns);
	put_text(p, "policy", head->policy);
	put_tuning(p, &head->tuning);
	put_key(p, "memory");
	(void)fprintf(p->out, "[%" PRIu64 ",%" PRIu64 "]", head->memory.persist_bytes,
		      head->memory.lane_sum_bytes);
}

void rec_trace_put(FILE *out, const struct rec_trace *trace)
{
	struct pairs p = { out, "{" };
	struct sal_trace_memory last = { 0 };
	const struct rec_field *f;
	uint64_t i;

	put_key(&p, "version");
	(void)fprintf(out, "%d", REC_TRACE_VERSION);
	put_head(&p, trace->head);
	(void)fputs(",\n\"columns\":[\"what\",\"lane\",\"reason\"", out);
	for (f = rec_record_fields; f->name; f++)
		(void)fprintf(out, ",\"%s\"", f->name);
	(void)fputs("],\n\"entries\":[", out);
	for (i = 0; i < trace->head->count; i++) {
		(void)fputs(i ? ",\n" : "\n", out);
		put_row(out, &trace->entries[i], &last);
	}
	(void)fputs("\n]}", out);
}

void rec_trace_list(FILE *out, const struct rec_trace *trace, const struct rec_progress *progress)
{
	struct pairs p = { out, "{" };
	struct sal_trace_memory last = { 0 };
	uint64_t i;

	put_key(&p, "records");
	rec_json_number(out, trace->head->count);
	put_head(&p, trace->head);
	(void)fputs(",\n\"entries\":[", out);
	for (i = 0; i < trace->head->count; i++) {
		const struct sal_record *r = &trace->entries[i].record;
		struct pairs row = { out, i ? ",\n{" : "\n{" };

		put_text(&row, "what", sal_what_name(r->what));
		put_key(&row, "lane");
		(void)fprintf(out, "%d", lane_number(r));
		if (r->reason)
			put_text(&row, "reason", sal_reason_name(r->reason));
		put_fields(&row, rec_record_fields, r);
		put_extras(&row, &trace->entries[i], &last);
		(void)fputc('}', out);
		rec_progress_tell(progress, i, trace->head->count);
	}
	(void)fputs("\n]}\n", out);
}
