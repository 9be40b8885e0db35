/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file may come from anywhere. Everything in it is checked before use. Messages name an entry by
 * its number.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "recording/trace_impl.h"

/* what, lane and reason stand before the numbers of the record. */
#define FIRST_NUMBER 3u

/* Numbers that are too large for JSON are texts. */
static bool get_number(const json_t *value, uint64_t *out)
{
	const char *text = json_string_value(value);
	char *end;

	*out = 0;
	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		*out = (uint64_t)json_integer_value(value);
		return true;
	}
	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return *end == '\0' && errno == 0;
}

static bool get_fields(const json_t *object, const struct rec_field *f, void *to)
{
	for (; f->name; f++) {
		const json_t *number = json_object_get(object, f->name);
		uint64_t value = 0;

		if ((number || !f->later) && !get_number(number, &value))
			return false;
		if (!rec_field_set(f, to, value))
			return false;
	}
	return true;
}

/* An entry without "memory" has the memory of the previous entry. */
static bool get_memory(const json_t *object, struct sal_trace_memory *memory)
{
	const json_t *pair = json_object_get(object, "memory");

	return !pair || (get_number(json_array_get(pair, 0), &memory->persist_bytes) &&
			 get_number(json_array_get(pair, 1), &memory->lane_sum_bytes));
}

static uint16_t what_named(const char *name)
{
	int what;

	for (what = SAL_OPEN; what < SAL_WHAT_END; what++)
		if (strcmp(sal_what_name((uint16_t)what), name) == 0)
			return (uint16_t)what;
	return 0;
}

static bool get_record(const json_t *row, struct sal_record *r)
{
	const char *what = json_string_value(json_array_get(row, 0));
	const json_t *lane = json_array_get(row, 1), *reason = json_array_get(row, 2);
	json_int_t index = json_integer_value(lane);
	uint64_t value;
	size_t i;

	if (!what || !json_is_integer(lane) || !json_is_integer(reason) || index < -1 ||
	    index >= SAL_LANES_MAX || json_integer_value(reason) < 0 ||
	    json_integer_value(reason) >= SAL_REASON_END)
		return false;
	r->what = what_named(what);
	r->lane = index < 0 ? SAL_NO_LANE : (uint16_t)index;
	r->reason = (uint16_t)json_integer_value(reason);
	for (i = 0; rec_record_fields[i].name; i++)
		if (!get_number(json_array_get(row, FIRST_NUMBER + i), &value) ||
		    !rec_field_set(&rec_record_fields[i], r, value))
			return false;
	return true;
}

static bool get_entry(const json_t *row, struct sal_trace_entry *entry,
		      struct sal_trace_memory *last)
{
	const json_t *extras = json_array_get(row, json_array_size(row) - 1);
	const char *name = json_string_value(json_object_get(extras, "name"));
	const char *policy = json_string_value(json_object_get(extras, "policy"));

	if (!get_record(row, &entry->record) || !get_memory(extras, last))
		return false;
	if (entry->record.what == SAL_SET_TUNING)
		return get_fields(json_object_get(extras, "tuning"), rec_tuning_fields,
				  &entry->tuning);
	if (!sal_record_is_decision(&entry->record))
		entry->memory = *last;
	if (sal_trace_has_job(entry) && !get_fields(extras, rec_job_fields, &entry->job))
		return false;
	if (entry->record.what == SAL_OPEN)
		sal_trace_copy_name(entry->job.name, sizeof(entry->job.name), name ? name : "");
	if (entry->record.what == SAL_SUBMIT)
		return get_fields(extras, rec_work_fields, &entry->work);
	if (entry->record.what == SAL_DONE)
		return get_fields(extras, rec_span_fields, &entry->span) &&
		       get_fields(extras, rec_done_fields, entry);
	if (entry->record.what == SAL_SET_POLICY) {
		if (!policy)
			return false;
		entry->record.value = sal_policy_number(sal_policy_find(policy));
		sal_trace_copy_name(entry->policy, sizeof(entry->policy), policy);
	}
	return true;
}

static int get_entries(const json_t *rows, struct rec_trace *trace, struct sal_err *err)
{
	struct sal_trace_memory last = { 0 };
	size_t i;

	trace->head->count = json_array_size(rows);
	trace->entries = calloc(trace->head->count + 1, sizeof(*trace->entries));
	trace->names = calloc(1, sizeof(*trace->names));
	if (!trace->entries || !trace->names)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	for (i = 0; i < trace->head->count; i++)
		if (!get_entry(json_array_get(rows, i), &trace->entries[i], &last) ||
		    !rec_entry_is_valid(&trace->entries[i]))
			return sal_err_set(err, SAL_DATA_LOSS, "entry %zu makes no sense", i);
	return SAL_OK;
}

static int get_head(const json_t *object, struct sal_trace_head *head, struct sal_err *err)
{
	const char *policy = json_string_value(json_object_get(object, "policy"));
	json_int_t version = json_integer_value(json_object_get(object, "version"));

	if (!object)
		return sal_err_set(err, SAL_DATA_LOSS,
				   "it has no key \"salus\": no trace of salusd");
	if (version < REC_TRACE_OLDEST || version > REC_TRACE_VERSION)
		return sal_err_set(err, SAL_DATA_LOSS, "a trace of version %lld, not %d to %d",
				   (long long)version, REC_TRACE_OLDEST, REC_TRACE_VERSION);
	if (!policy ||
	    !get_number(json_object_get(object, "capacity_bytes"), &head->capacity_bytes) ||
	    !get_number(json_object_get(object, "dropped"), &head->dropped) ||
	    !get_number(json_object_get(object, "start_ns"), &head->start_ns) ||
	    !get_memory(object, &head->memory) ||
	    !get_fields(json_object_get(object, "tuning"), rec_tuning_fields, &head->tuning))
		return sal_err_set(err, SAL_DATA_LOSS, "its head makes no sense");
	head->realtime_ns = json_integer_value(json_object_get(object, "realtime_ns"));
	head->magic = SAL_TRACE_MAGIC;
	head->entry_bytes = sizeof(struct sal_trace_entry);
	sal_trace_copy_name(head->policy, sizeof(head->policy), policy);
	return SAL_OK;
}

static int load(const char *path, json_t **out_root, struct sal_err *err)
{
	json_error_t why;
	FILE *file = fopen(path, "re");

	*out_root = NULL;
	if (!file)
		return sal_err_set(err, SAL_NOT_FOUND, "%s: %s", path, strerror(errno));
	*out_root = json_loadf(file, JSON_REJECT_DUPLICATES, &why);
	(void)fclose(file);
	if (!*out_root)
		return sal_err_set(err, SAL_DATA_LOSS, "%s:%d: %s", path, why.line, why.text);
	return SAL_OK;
}

static int get_trace(const json_t *object, struct rec_trace *out, struct sal_err *err)
{
	int rc;

	out->head = calloc(1, sizeof(*out->head));
	if (!out->head)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	rc = get_head(object, out->head, err);
	return rc < 0 ? rc : get_entries(json_object_get(object, "entries"), out, err);
}

int rec_trace_read(const char *path, struct rec_trace *out, struct sal_err *err)
{
	struct sal_err why = { 0 };
	json_t *root;
	int rc = load(path, &root, err);

	*out = (struct rec_trace){ 0 };
	if (rc < 0)
		return rc;
	rc = get_trace(json_object_get(root, "salus"), out, &why);
	json_decref(root);
	if (rc < 0) {
		rec_trace_fini(out);
		return sal_err_set(err, why.code, "%s: %s", path, why.text);
	}
	return SAL_OK;
}
