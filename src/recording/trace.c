/* SPDX-License-Identifier: Apache-2.0 */
#include "recording/trace.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "recording/trace_impl.h"

#define FIELD(type, field)                                                                        \
	{                                                                                         \
#field, offsetof(struct type, field), sizeof(((struct type *)NULL)->field), false \
	}

/* The oldest traces lack this field; it reads as 0. */
#define LATER(type, field)                                                                       \
	{                                                                                        \
#field, offsetof(struct type, field), sizeof(((struct type *)NULL)->field), true \
	}

const struct rec_field rec_record_fields[] = {
	FIELD(sal_record, now_ns),	FIELD(sal_record, session),
	FIELD(sal_record, iteration),	FIELD(sal_record, persist_bytes),
	FIELD(sal_record, ephem_bytes), FIELD(sal_record, grow_bytes),
	FIELD(sal_record, value),	{ NULL, 0, 0, false },
};

const struct rec_field rec_tuning_fields[] = {
	FIELD(sal_tuning, lanes),
	FIELD(sal_tuning, lane_cap),
	FIELD(sal_tuning, page_bytes_per_s),
	FIELD(sal_tuning, page_margin),
	FIELD(sal_tuning, anticipate_ns),
	FIELD(sal_tuning, short_ns),
	FIELD(sal_tuning, idle_ns),
	FIELD(sal_tuning, pass_bound),
	FIELD(sal_tuning, guess_ns),
	LATER(sal_tuning, stuck_ns),
	LATER(sal_tuning, move_ns),
	LATER(sal_tuning, slow_percent),
	LATER(sal_tuning, tiers),
	{ NULL, 0, 0, false },
};

const struct rec_field rec_job_fields[] = {
	FIELD(sal_trace_job, kind),
	FIELD(sal_trace_job, weight_milli),
	FIELD(sal_trace_job, priority),
	FIELD(sal_trace_job, limit_bytes),
	LATER(sal_trace_job, deadline_ns),
	LATER(sal_trace_job, kind_undeclared),
	{ NULL, 0, 0, false },
};

const struct rec_field rec_work_fields[] = {
	LATER(sal_trace_work, program),		LATER(sal_trace_work, pace.alone_ns),
	LATER(sal_trace_work, pace.runs),	LATER(sal_trace_work, pace.alone_runs),
	LATER(sal_trace_work, pace.util_milli), LATER(sal_trace_work, pace.beside_runs),
	LATER(sal_trace_work, pace.told_milli), LATER(sal_trace_work, pace.beside_ns),
	LATER(sal_trace_work, pace.retries),	LATER(sal_trace_work, pace.scratch_bytes),
	LATER(sal_trace_work, margin_bytes),	{ NULL, 0, 0, false },
};

const struct rec_field rec_span_fields[] = {
	FIELD(sal_trace_span, start_ns),
	FIELD(sal_trace_span, end_ns),
	{ NULL, 0, 0, false },
};

const struct rec_field rec_done_fields[] = {
	LATER(sal_trace_entry, busy_ns),
	LATER(sal_trace_entry, took_bytes),
	{ NULL, 0, 0, false },
};

/* Add new fields of these structs to the lists above: a replay needs them. */
_Static_assert(sizeof(struct sal_record) == 64, "rec_record_fields has them all");
_Static_assert(sizeof(struct sal_tuning) == 80, "rec_tuning_fields has them all");

uint64_t rec_field_get(const struct rec_field *f, const void *from)
{
	const char *at = (const char *)from + f->offset;
	uint64_t value = 0;
	uint32_t half;

	if (f->size == sizeof(value)) {
		memcpy(&value, at, sizeof(value));
		return value;
	}
	if (f->size == sizeof(half)) {
		memcpy(&half, at, sizeof(half));
		return half;
	}
	return *(const uint8_t *)at;
}

bool rec_field_set(const struct rec_field *f, void *to, uint64_t value)
{
	char *at = (char *)to + f->offset;
	uint32_t half = (uint32_t)value;

	if (f->size == sizeof(value))
		memcpy(at, &value, sizeof(value));
	else if (f->size == sizeof(half))
		memcpy(at, &half, sizeof(half));
	else
		*(uint8_t *)at = (uint8_t)value;
	return rec_field_get(f, to) == value;
}

bool rec_entry_is_valid(const struct sal_trace_entry *entry)
{
	const struct sal_record *r = &entry->record;

	if (r->what < SAL_OPEN || r->what >= SAL_WHAT_END || r->reason >= SAL_REASON_END)
		return false;
	if (r->lane >= SAL_LANES_MAX && r->lane != SAL_NO_LANE)
		return false;
	if ((r->what == SAL_GRANT || r->what == SAL_DONE) && r->lane == SAL_NO_LANE)
		return false;
	if (r->what == SAL_SET_POLICY && !memchr(entry->policy, '\0', sizeof(entry->policy)))
		return false;
	return !sal_trace_has_job(entry) ||
	       (entry->job.kind < SAL_KINDS && entry->job.kind_undeclared <= 1 &&
		memchr(entry->job.name, '\0', sizeof(entry->job.name)));
}

const char *rec_entry_policy(const struct sal_trace_entry *entry)
{
	const struct sal_policy *policy = sal_policy_numbered(entry->record.value);

	return policy ? sal_policy_name(policy) : entry->policy;
}

static bool is_valid(const struct rec_trace *trace)
{
	const struct sal_trace_head *head = trace->head;
	uint64_t i;

	if (!memchr(head->policy, '\0', sizeof(head->policy)))
		return false;
	for (i = 0; i < head->count; i++)
		if (!rec_entry_is_valid(&trace->entries[i]))
			return false;
	for (i = 0; i < head->name_count; i++)
		if (!memchr(trace->names[i].name, '\0', sizeof(trace->names[i].name)))
			return false;
	return true;
}

static void *copy(const void *from, size_t size)
{
	void *p = malloc(size + 1);

	if (p)
		memcpy(p, from, size);
	return p;
}

/* Do size bytes hold everything that the head announces? */
static bool is_whole(const struct sal_trace_head *head, size_t size)
{
	uint64_t rest = size - sizeof(*head);

	if (head->magic != SAL_TRACE_MAGIC || head->entry_bytes != sizeof(struct sal_trace_entry) ||
	    head->count > rest / sizeof(struct sal_trace_entry))
		return false;
	rest -= head->count * sizeof(struct sal_trace_entry);
	return head->name_count <= rest / sizeof(struct sal_trace_name);
}

/* Uses the copy of the head: the original may change. */
static int copy_all(const struct sal_trace_head *head, size_t size, struct rec_trace *out,
		    struct sal_err *err)
{
	const struct sal_trace_entry *entries = (const struct sal_trace_entry *)(head + 1);

	out->head = copy(head, sizeof(*head));
	if (out->head && !is_whole(out->head, size))
		return sal_err_set(err, SAL_DATA_LOSS, "the trace is of another version of salusd");
	if (out->head) {
		size_t count = out->head->count;

		out->entries = copy(entries, count * sizeof(*entries));
		out->names = copy(entries + count, out->head->name_count * sizeof(*out->names));
	}
	if (!out->head || !out->entries || !out->names)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	if (!is_valid(out))
		return sal_err_set(err, SAL_DATA_LOSS,
				   "the trace has an entry that makes no sense");
	return SAL_OK;
}

int rec_trace_copy(const void *bytes, size_t size, struct rec_trace *out, struct sal_err *err)
{
	const struct sal_trace_head *head = bytes;
	int rc;

	*out = (struct rec_trace){ 0 };
	if (size < sizeof(*head))
		return sal_err_set(err, SAL_DATA_LOSS, "the trace is of another version of salusd");
	rc = copy_all(head, size, out, err);
	atomic_thread_fence(memory_order_acquire);
	if (*(const volatile uint64_t *)&head->magic == 0) /* also if the copy looked valid */
		rc = sal_err_set(err, SAL_UNAVAILABLE,
				 "salusd took the trace back before it was read: ask again");
	if (rc < 0)
		rec_trace_fini(out);
	return rc;
}

void rec_trace_fini(struct rec_trace *trace)
{
	free(trace->head);
	free(trace->entries);
	free(trace->names);
	*trace = (struct rec_trace){ 0 };
}

size_t rec_trace_count(const struct rec_trace *trace)
{
	return trace->head->count;
}

size_t rec_trace_dropped(const struct rec_trace *trace)
{
	return trace->head->dropped;
}
