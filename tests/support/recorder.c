/* SPDX-License-Identifier: Apache-2.0 */
#include "support/recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "recording/trace_impl.h"
#include "recording/replay.h"

void recorder_start(struct recorder *r, const struct sal_engine_config *cfg)
{
	*r = (struct recorder){
		.head = {
			.magic = SAL_TRACE_MAGIC,
			.entry_bytes = sizeof(struct sal_trace_entry),
			.capacity_bytes = cfg->capacity_bytes,
			.tuning = cfg->tuning,
		},
	};
	sal_trace_copy_name(r->head.policy, sizeof(r->head.policy), cfg->policy->name);
}

void recorder_stop(struct recorder *r)
{
	free(r->entries);
	*r = (struct recorder){ 0 };
}

void recorder_put(struct recorder *r, const struct sal_engine *engine,
		  const struct sal_record *record, const struct sal_session *s,
		  const struct sal_iteration *it)
{
	if (r->head.count == r->room) {
		r->room = r->room ? 2 * r->room : 1024;
		r->entries = realloc(r->entries, r->room * sizeof(*r->entries));
		assert_non_null(r->entries);
	}
	memset(&r->entries[r->head.count], 0, sizeof(*r->entries));
	sal_trace_fill(&r->entries[r->head.count++], engine, record, s, it);
}

struct rec_trace recorder_take(const struct recorder *r, size_t dropped)
{
	size_t entry_bytes = (r->head.count - dropped) * sizeof(*r->entries);
	struct sal_trace_head *bytes = malloc(sizeof(*bytes) + entry_bytes);
	struct rec_trace rec;
	struct sal_err err = { 0 };

	assert_non_null(bytes);
	*bytes = r->head;
	bytes->count -= dropped;
	bytes->dropped = dropped;
	memcpy(bytes + 1, r->entries + dropped, entry_bytes);
	if (rec_trace_copy(bytes, sizeof(*bytes) + entry_bytes, &rec, &err) < 0)
		fail_msg("%s", err.text);
	free(bytes);
	return rec;
}

static void check_fields(const struct rec_field *f, const void *a, const void *b)
{
	for (; f->name; f++)
		if (rec_field_get(f, a) != rec_field_get(f, b))
			fail_msg("%s is another", f->name);
}

/* Checks the fields that a file must contain: all of an event; of a decision only the record. */
static void check_same(const struct sal_trace_entry *a, const struct sal_trace_entry *b)
{
	check_fields(rec_record_fields, &a->record, &b->record);
	assert_int_equal(a->record.what, b->record.what);
	assert_int_equal(a->record.lane, b->record.lane);
	assert_int_equal(a->record.reason, b->record.reason);
	if (a->record.what == SAL_SET_TUNING)
		check_fields(rec_tuning_fields, &a->tuning, &b->tuning);
	else if (!sal_record_is_decision(&a->record))
		assert_memory_equal(&a->memory, &b->memory, sizeof(a->memory));
	if (sal_trace_has_job(a))
		assert_memory_equal(&a->job, &b->job, sizeof(a->job));
	else if (a->record.what == SAL_DONE)
		assert_memory_equal(&a->span, &b->span, sizeof(a->span));
}

struct rec_trace recorder_round_trip(const struct rec_trace *rec)
{
	int fd = memfd_create("recording", MFD_CLOEXEC);
	FILE *file = fdopen(dup(fd), "w");
	struct sal_err err = { 0 };
	struct rec_trace back;
	char path[64];
	uint64_t i;

	assert_non_null(file);
	assert_int_equal(rec_trace_write(file, rec, NULL, &err), SAL_OK);
	assert_int_equal(fclose(file), 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (rec_trace_read(path, &back, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(close(fd), 0);
	assert_int_equal(back.head->count, rec->head->count);
	assert_int_equal(back.head->dropped, rec->head->dropped);
	assert_int_equal(back.head->capacity_bytes, rec->head->capacity_bytes);
	assert_string_equal(back.head->policy, rec->head->policy);
	check_fields(rec_tuning_fields, &back.head->tuning, &rec->head->tuning);
	for (i = 0; i < rec->head->count; i++)
		check_same(&rec->entries[i], &back.entries[i]);
	return back;
}

void recorder_replay(const struct recorder *r, const char *what)
{
	struct rec_trace rec = recorder_take(r, 0), back = recorder_round_trip(&rec);
	struct sal_err err = { 0 };
	struct rec_replay replay;
	char was[512] = "nothing", is[512] = "nothing";

	if (rec_replay_run(&back, NULL, &replay, &err) < 0)
		fail_msg("%s: %s", what, err.text);
	if (!replay.identical) {
		if (replay.recorded.what)
			(void)sal_record_format(&replay.recorded, was, sizeof(was));
		if (replay.replayed.what)
			(void)sal_record_format(&replay.replayed, is, sizeof(is));
		fail_msg("%s: entry %zu\n  recorded %s\n  replayed %s", what, replay.at, was, is);
	}
	assert_int_equal(replay.events + replay.decisions, r->head.count);
	rec_trace_fini(&rec);
	rec_trace_fini(&back);
}
