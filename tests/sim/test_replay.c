/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay - recordings of engines that are steered while they work. A replay repeats the recording,
 * finds differences, and refuses impossible events. Tracks are sound, from the beginning or from
 * the middle of a recording.
 */
#include "recording/replay.h"

#include <inttypes.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/recorder.h"

struct stage {
	struct drv d;
	struct recorder recorder;
};

static void on_record(void *ctx, const struct sal_record *r, struct sal_session *s,
		      struct sal_iteration *it)
{
	struct stage *stage = ctx;

	recorder_put(&stage->recorder, stage->d.engine, r, s, it);
}

/* Copies take almost no time, so that paging often pays. */
static struct sal_tuning quick_tuning(void)
{
	struct sal_tuning tuning = drv_plain_tuning();

	tuning.page_bytes_per_s = 10000 * GIB;
	tuning.page_margin = 1;
	return tuning;
}

static void start(struct stage *stage, const struct sal_policy *policy)
{
	struct sal_engine_config cfg = {
		.capacity_bytes = 8 * GIB,
		.policy = policy,
		.tuning = quick_tuning(),
	};

	recorder_start(&stage->recorder, &cfg);
	drv_start(&stage->d, cfg.capacity_bytes, policy, &cfg.tuning);
	stage->d.tap = on_record;
	stage->d.tap_ctx = stage;
}

static void stop(struct stage *stage)
{
	drv_stop(&stage->d);
	recorder_stop(&stage->recorder);
}

/* Adds more jobs of all kinds than the device has room for. */
static void add_jobs(struct stage *stage)
{
	uint32_t i;

	for (i = 0; i < 8; i++) {
		struct drv_load load = {
			.job = { .kind = i % 3 ? SAL_TRAINING : SAL_INFERENCE,
				 .weight_milli = 500 + 500 * (i % 3),
				 .priority = i % 2,
				 .total_ns = i % 4 ? i * SEC : 0,
				 .deadline_ns = i % 6 ? 0 : 4 * MS,
				 .declared = { (1 + i % 3) * GIB, GIB / (1 + i) } },
			.start_ns = 20 * MS * i,
			.count = 40,
			.iter_ns = (1 + i) * MS,
			.jitter_ns = MS,
			.gap_ns = i % 2 ? MS / 2 : 0,
		};

		(void)drv_add(&stage->d, &load);
	}
}

/* Changes the policy twice and the tuning once during a run. */
static void steer(struct stage *stage, const struct sal_policy *policy)
{
	struct sal_tuning tuning = quick_tuning();

	start(stage, policy);
	add_jobs(stage);
	drv_run_until(&stage->d, 50 * MS);
	for (uint32_t i = 0; policy->params && policy->params[i].name; i++)
		sal_engine_set_param(stage->d.engine, stage->d.now_ns, i, policy->params[i].min);
	drv_run_until(&stage->d, 100 * MS);
	drv_set_policy(&stage->d, &sal_policy_fair);
	drv_run_until(&stage->d, 200 * MS);
	tuning.anticipate_ns = 2 * MS;
	tuning.lanes = 2;
	drv_set_tuning(&stage->d, &tuning);
	drv_run_until(&stage->d, 300 * MS);
	drv_set_policy(&stage->d, &sal_policy_srtf);
	drv_run(&stage->d, 100000);
}

static size_t count(const struct recorder *r, enum sal_what what)
{
	size_t i, n = 0;

	for (i = 0; i < r->head.count; i++)
		n += r->entries[i].record.what == what;
	return n;
}

static void test_every_policy_repeats_through_changes(void **state)
{
	struct stage stage;
	size_t i;

	(void)state;
	for (i = 0; sal_policies[i]; i++) {
		steer(&stage, sal_policies[i]);
		assert_int_equal(count(&stage.recorder, SAL_SET_POLICY), 2);
		assert_int_equal(count(&stage.recorder, SAL_SET_TUNING), 1);
		assert_int_equal(count(&stage.recorder, SAL_GRANT), 8 * 40);
		assert_int_equal(count(&stage.recorder, SAL_CLOSE), 8);
		assert_true(count(&stage.recorder, SAL_PAGE_OUT) > 10);
		recorder_replay(&stage.recorder, sal_policies[i]->name);
		stop(&stage);
	}
}

/* Errors in recordings */

static size_t find(const struct recorder *r, enum sal_what what, size_t nth)
{
	size_t i;

	for (i = 0; i < r->head.count; i++)
		if (r->entries[i].record.what == what && nth-- == 0)
			return i;
	fail_msg("there are not so many %s", sal_what_name((uint16_t)what));
	return 0;
}

static struct rec_replay replay(const struct recorder *r, int want)
{
	struct rec_trace rec = recorder_take(r, 0);
	struct sal_err err = { 0 };
	struct rec_replay out;

	assert_int_equal(rec_replay_run(&rec, NULL, &out, &err), want);
	assert_true(want >= 0 || strlen(err.text) > 0);
	rec_trace_fini(&rec);
	return out;
}

static void test_another_decision_is_found(void **state)
{
	struct stage stage;
	struct sal_record *r;
	struct rec_replay out;
	size_t at;

	(void)state;
	steer(&stage, &sal_policy_fifo);
	at = find(&stage.recorder, SAL_GRANT, 100);
	r = &stage.recorder.entries[at].record;
	r->session++;
	out = replay(&stage.recorder, SAL_OK);
	assert_false(out.identical);
	assert_int_equal(out.at, at);
	assert_int_equal(out.grants, 100);
	assert_int_equal(out.recorded.session, r->session);
	assert_int_equal(out.replayed.session, r->session - 1);
	stop(&stage);
}

/* Removes an entry from the recording. */
static void forget(struct recorder *r, size_t at)
{
	memmove(&r->entries[at], &r->entries[at + 1],
		(r->head.count - at - 1) * sizeof(*r->entries));
	r->head.count--;
}

static void test_missing_and_surplus_decisions_are_found(void **state)
{
	struct stage stage;
	struct rec_replay out;
	size_t at;

	(void)state;
	steer(&stage, &sal_policy_rr);
	at = find(&stage.recorder, SAL_GRANT, count(&stage.recorder, SAL_GRANT) - 1);
	forget(&stage.recorder, at);
	out = replay(&stage.recorder, SAL_OK);
	assert_false(out.identical);
	assert_int_equal(out.at, at);
	assert_int_equal(out.recorded.what, 0);
	assert_int_equal(out.replayed.what, SAL_GRANT);
	stop(&stage);

	steer(&stage, &sal_policy_rr);
	at = find(&stage.recorder, SAL_CLOSE, 7) + 1;
	stage.recorder.head.count = at + 1; /* the last event, and a decision that was not made */
	stage.recorder.entries[at] = stage.recorder.entries[find(&stage.recorder, SAL_GRANT, 0)];
	out = replay(&stage.recorder, SAL_OK);
	assert_false(out.identical);
	assert_int_equal(out.recorded.what, SAL_GRANT);
	assert_int_equal(out.replayed.what, 0);
	stop(&stage);
}

static void test_another_policy_decides_otherwise(void **state)
{
	struct stage stage;

	(void)state;
	steer(&stage, &sal_policy_srtf);
	sal_trace_copy_name(stage.recorder.head.policy, SAL_TRACE_POLICY_BYTES, "rr");
	assert_false(replay(&stage.recorder, SAL_OK).identical);
	sal_trace_copy_name(stage.recorder.head.policy, SAL_TRACE_POLICY_BYTES, "best");
	(void)replay(&stage.recorder, -SAL_DATA_LOSS);
	stop(&stage);
}

static void test_what_could_not_have_happened(void **state)
{
	static const struct {
		enum sal_what what;
		uint64_t session;
	} cases[] = {
		{ SAL_DONE, 0 },	   { SAL_DONE, 9 },	  { SAL_CLOSE, UINT64_MAX },
		{ SAL_PAGED_OUT, 1 },	   { SAL_PAGED_IN, 1 },	  { SAL_OPEN, 1 },
		{ SAL_OPEN, 10 },	   { SAL_SET_POLICY, 0 }, { SAL_PAGE_OUT_FAILED, 1 },
		{ SAL_PAGE_IN_FAILED, 1 },
	};
	struct stage stage;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sal_trace_entry *e;

		steer(&stage, &sal_policy_fair);
		e = &stage.recorder.entries[find(&stage.recorder, SAL_SUBMIT, 9)];
		e->record.what = (uint16_t)cases[i].what;
		e->record.session = cases[i].session;
		e->record.value = 0;
		e->job.kind = 0;
		if (e->record.lane == SAL_NO_LANE)
			e->record.lane = 0;
		(void)replay(&stage.recorder, -SAL_DATA_LOSS);
		stop(&stage);
	}
}

static void test_the_end_of_another_iteration(void **state)
{
	struct stage stage;

	(void)state;
	steer(&stage, &sal_policy_fair);
	stage.recorder.entries[find(&stage.recorder, SAL_DONE, 9)].record.iteration++;
	(void)replay(&stage.recorder, -SAL_DATA_LOSS);
	stop(&stage);
}

/*
 * A session that is closed while it runs exists until its iteration ends, but cannot be closed
 * again.
 */
static void test_closed_twice(void **state)
{
	struct sal_trace_entry *entries;
	struct stage stage;
	struct drv_job *a;

	(void)state;
	start(&stage, &sal_policy_fair);
	a = drv_open(&stage.d, GIB, GIB);
	drv_submit(&stage.d, a, GIB, GIB);
	drv_close(&stage.d, a);
	drv_done(&stage.d, a, MS);
	assert_true(replay(&stage.recorder, SAL_OK).identical);
	entries = stage.recorder.entries;
	entries[find(&stage.recorder, SAL_DONE, 0)] = entries[find(&stage.recorder, SAL_CLOSE, 0)];
	(void)replay(&stage.recorder, -SAL_DATA_LOSS);
	stop(&stage);
}

static void test_a_beginning_is_needed(void **state)
{
	struct sal_err err = { 0 };
	struct rec_trace rec;
	struct rec_replay out;
	struct stage stage;

	(void)state;
	steer(&stage, &sal_policy_fair);
	rec = recorder_take(&stage.recorder, 1);
	assert_int_equal(rec_replay_run(&rec, NULL, &out, &err), -SAL_FAILED_PRECONDITION);
	assert_non_null(strstr(err.text, "empty engine"));
	assert_false(out.identical);
	rec_trace_fini(&rec);
	stop(&stage);
}

static void test_bytes_of_another_version(void **state)
{
	struct sal_trace_head head = {
		.magic = SAL_TRACE_MAGIC,
		.entry_bytes = sizeof(struct sal_trace_entry),
	};
	struct sal_trace_head wrong;
	struct rec_trace rec;

	(void)state;
	assert_int_equal(rec_trace_copy(&head, sizeof(head), &rec, NULL), SAL_OK);
	rec_trace_fini(&rec);
	assert_int_equal(rec_trace_copy(&head, sizeof(head) - 1, &rec, NULL), -SAL_DATA_LOSS);
	wrong = head;
	wrong.magic++;
	assert_int_equal(rec_trace_copy(&wrong, sizeof(wrong), &rec, NULL), -SAL_DATA_LOSS);
	wrong.magic = 0; /* not another version: a snapshot that was taken back */
	assert_int_equal(rec_trace_copy(&wrong, sizeof(wrong), &rec, NULL), -SAL_UNAVAILABLE);
	wrong = head;
	wrong.count = UINT64_MAX / sizeof(struct sal_trace_entry) + 2;
	assert_int_equal(rec_trace_copy(&wrong, sizeof(wrong), &rec, NULL), -SAL_DATA_LOSS);
	wrong = head;
	wrong.name_count = 1;
	assert_int_equal(rec_trace_copy(&wrong, sizeof(wrong), &rec, NULL), -SAL_DATA_LOSS);
	wrong = head;
	memset(wrong.policy, 'x', sizeof(wrong.policy));
	assert_int_equal(rec_trace_copy(&wrong, sizeof(wrong), &rec, NULL), -SAL_DATA_LOSS);
}

/* A recording of a few entries, as salusd returns it. */
struct short_trace {
	struct sal_trace_head head;
	struct sal_trace_entry entries[2];
	struct sal_trace_name name;
};

static struct short_trace short_trace(void)
{
	return (struct short_trace){
		.head = { .magic = SAL_TRACE_MAGIC,
			  .entry_bytes = sizeof(struct sal_trace_entry),
			  .count = 2,
			  .name_count = 1,
			  .capacity_bytes = GIB,
			  .policy = "fair" },
		.entries = { { .record = { .what = SAL_OPEN, .session = 1, .lane = SAL_NO_LANE },
			       .job = { .name = "an example of" } },
			     { .record = { .what = SAL_TICK, .now_ns = 1, .lane = SAL_NO_LANE } } },
		.name = { .session = 1, .name = "an example of a long name" },
	};
}

static void test_entries_that_make_no_sense(void **state)
{
	static const struct {
		enum sal_what what;
		uint16_t lane, reason;
	} cases[] = {
		{ 0, 0, 0 },
		{ SAL_WHAT_END, 0, 0 },
		{ SAL_TICK, SAL_LANES_MAX, 0 },
		{ SAL_TICK, 0, SAL_REASON_END },
		{ SAL_GRANT, SAL_NO_LANE, 0 },
		{ SAL_DONE, SAL_NO_LANE, 0 },
	};
	struct short_trace good = short_trace(), many = good;
	struct sal_err err = { 0 };
	struct rec_trace rec;
	size_t i;

	(void)state;
	assert_int_equal(rec_trace_copy(&good, sizeof(good), &rec, NULL), SAL_OK);
	rec_trace_fini(&rec);
	many.head.count = UINT64_MAX / sizeof(good.entries[0]) + 1; /* over 2^64 bytes */
	assert_int_equal(rec_trace_copy(&many, sizeof(many), &rec, &err), -SAL_DATA_LOSS);
	assert_non_null(strstr(err.text, "another version")); /* found before an entry is read */
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct short_trace bad = good;

		bad.entries[1].record.what = (uint16_t)cases[i].what;
		bad.entries[1].record.lane = cases[i].lane;
		bad.entries[1].record.reason = cases[i].reason;
		assert_int_equal(rec_trace_copy(&bad, sizeof(bad), &rec, NULL), -SAL_DATA_LOSS);
	}
}

/* Tracks */

static json_t *tracks_of(const struct rec_trace *rec)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	json_t *root;

	assert_non_null(file);
	assert_int_equal(rec_trace_write(file, rec, NULL, NULL), SAL_OK);
	assert_int_equal(fclose(file), 0);
	root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	free(text);
	assert_non_null(root);
	return root;
}

struct slice {
	json_int_t track;
	double from, to;
};

static int by_start(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;

	if (x->track != y->track)
		return x->track < y->track ? -1 : 1;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

static double number(const json_t *event, const char *key)
{
	assert_true(json_is_number(json_object_get(event, key)));
	return json_number_value(json_object_get(event, key));
}

/* Checks that slices of a track do not overlap. Returns the number of slices with this name. */
static size_t check_slices(const json_t *root, const char *name)
{
	const json_t *events = json_object_get(root, "traceEvents"), *e;
	struct slice *slices = calloc(json_array_size(events) + 1, sizeof(*slices));
	size_t i, n = 0, named = 0;

	assert_non_null(slices);
	json_array_foreach(events, i, e)
	{
		if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0)
			continue;
		slices[n].track = json_integer_value(json_object_get(e, "tid"));
		slices[n].from = number(e, "ts");
		slices[n].to = slices[n].from + number(e, "dur");
		named += strcmp(json_string_value(json_object_get(e, "name")), name) == 0;
		n++;
	}
	qsort(slices, n, sizeof(*slices), by_start);
	for (i = 1; i < n; i++)
		if (slices[i].track == slices[i - 1].track &&
		    slices[i].from < slices[i - 1].to - 1e-4)
			fail_msg("on track %lld, at %f", (long long)slices[i].track,
				 slices[i].from);
	free(slices);
	return named;
}

/* Failed copies are replayed and drawn. */
static void test_failed_copies(void **state)
{
	struct rec_trace rec;
	struct stage stage;
	struct drv_job *a, *b;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	json_t *root;

	(void)state;
	start(&stage, &sal_policy_pack);
	a = drv_open(&stage.d, 5 * GIB, GIB);
	drv_submit(&stage.d, a, 5 * GIB, GIB);
	drv_done(&stage.d, a, MS);
	b = drv_open(&stage.d, 5 * GIB, GIB);
	drv_submit(&stage.d, b, 5 * GIB, GIB);
	drv_pass(&stage.d, 2 * SEC);
	drv_copy_failed(&stage.d, a);
	drv_pass(&stage.d, 3 * SEC);
	drv_copied(&stage.d, a);
	drv_done(&stage.d, b, MS);
	drv_close(&stage.d, b);
	drv_submit(&stage.d, a, 5 * GIB, GIB);
	drv_copy_failed(&stage.d, a);
	drv_pass(&stage.d, 2 * SEC);
	drv_copied(&stage.d, a);
	assert_true(drv_runs(a));
	recorder_replay(&stage.recorder, "copies that failed");
	rec = recorder_take(&stage.recorder, 0);
	assert_non_null(out);
	assert_int_equal(rec_trace_write(out, &rec, NULL, NULL), SAL_OK);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(text, "\"page_out_failed\""));
	assert_non_null(strstr(text, "\"page_in_failed\""));
	/* The session is outside while b runs, and for a second after the copy back has failed. */
	root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	assert_int_equal(check_slices(root, "paged out"), 2);
	json_decref(root);
	free(text);
	rec_trace_fini(&rec);
	stop(&stage);
}

static void test_tracks_from_any_point_on(void **state)
{
	struct stage stage;
	size_t dropped;

	(void)state;
	steer(&stage, &sal_policy_fair);
	for (dropped = 0; dropped < stage.recorder.head.count;
	     dropped += 1 + stage.recorder.head.count / 50) {
		struct rec_trace rec = recorder_take(&stage.recorder, dropped);
		json_t *root = tracks_of(&rec);
		size_t turns = check_slices(root, "waiting for its turn");

		if (dropped == 0) {
			assert_true(turns > 50);
			assert_true(check_slices(root, "waiting for memory") > 0);
			assert_true(check_slices(root, "paged out") > 0);
			assert_true(check_slices(root, "page_in") > 0);
			assert_true(check_slices(root, "session 3") == 40); /* without a name */
		}
		json_decref(root);
		rec_trace_fini(&rec);
	}
	stop(&stage);
}

/* The nth event of this name. Fails if there is none. */
static const json_t *event_named(const json_t *root, const char *name, size_t nth)
{
	const json_t *e;
	size_t i;

	json_array_foreach(json_object_get(root, "traceEvents"), i,
			   e) if (strcmp(json_string_value(json_object_get(e, "name")), name) ==
					  0 &&
				  nth-- == 0) return e;
	fail_msg("there are not so many %s", name);
	return NULL;
}

/*
 * An iteration granted before the recording begins is drawn from the start that the device reports.
 * Names are complete.
 */
static void test_tracks_of_what_began_before(void **state)
{
	struct short_trace trace = short_trace();
	struct rec_trace rec;
	const json_t *slice;
	json_t *root;

	(void)state;
	trace.head.dropped = 5;
	trace.entries[1] = (struct sal_trace_entry){
		.record = { .what = SAL_DONE, .now_ns = 9000, .session = 1, .iteration = 1 },
		.span = { 2000, 7000 },
	};
	assert_int_equal(rec_trace_copy(&trace, sizeof(trace), &rec, NULL), SAL_OK);
	root = tracks_of(&rec);
	slice = event_named(root, trace.name.name, 0);
	assert_float_equal(number(slice, "ts"), 2, 1e-9);
	assert_float_equal(number(slice, "dur"), 5, 1e-9);
	json_decref(root);
	rec_trace_fini(&rec);
}

/* Only a grant tells a tier. The value of other records is something else. */
static void test_tracks_show_tiers(void **state)
{
	struct short_trace trace = short_trace();
	struct rec_trace rec;
	json_t *root;
	int tier;

	(void)state;
	for (tier = 0; tier < 2; tier++) {
		trace.entries[0].record = (struct sal_record){ .what = SAL_GRANT,
							       .now_ns = 1000,
							       .session = 1,
							       .iteration = 1,
							       .value = (uint64_t)tier };
		trace.entries[1] = (struct sal_trace_entry){
			.record = { .what = SAL_DONE,
				    .now_ns = 9000,
				    .session = 1,
				    .iteration = 1,
				    .value = 7 },
			.span = { 2000, 7000 },
		};
		assert_int_equal(rec_trace_copy(&trace, sizeof(trace), &rec, NULL), SAL_OK);
		root = tracks_of(&rec);
		assert_int_equal(
			json_integer_value(json_object_get(
				json_object_get(event_named(root, "iteration 1", 0), "args"),
				"tier")),
			tier);
		json_decref(root);
		rec_trace_fini(&rec);
	}
}

/* Iterations wait until they are granted, or until their session is closed. */
static void test_tracks_count_iterations(void **state)
{
	static const struct {
		double waiting, running;
	} steps[] = { { 2, 1 }, { 1, 1 }, { 0, 1 }, { 0, 0 } };
	struct rec_trace rec;
	struct stage stage;
	struct drv_job *a;
	json_t *root;
	size_t i;

	(void)state;
	start(&stage, &sal_policy_fair);
	a = drv_open(&stage.d, GIB, GIB);
	for (i = 0; i < 3; i++)
		drv_submit(&stage.d, a, GIB, GIB);
	drv_done(&stage.d, a, MS);
	stage.d.now_ns += MS;
	drv_close(&stage.d, a);
	drv_done(&stage.d, a, MS);
	rec = recorder_take(&stage.recorder, 0);
	root = tracks_of(&rec);
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		const json_t *args = json_object_get(event_named(root, "iterations", i), "args");

		assert_float_equal(number(args, "waiting"), steps[i].waiting, 0);
		assert_float_equal(number(args, "running"), steps[i].running, 0);
	}
	json_decref(root);
	rec_trace_fini(&rec);
	stop(&stage);
}

/* Pictures */

static char *picture_of(const struct rec_trace *rec)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	assert_non_null(file);
	assert_int_equal(rec_trace_draw(file, rec, NULL), SAL_OK);
	assert_int_equal(fclose(file), 0);
	return text;
}

static void test_pictures_from_any_point_on(void **state)
{
	struct stage stage;
	size_t dropped;

	(void)state;
	steer(&stage, &sal_policy_fair);
	for (dropped = 0; dropped < stage.recorder.head.count;
	     dropped += 1 + stage.recorder.head.count / 50) {
		struct rec_trace rec = recorder_take(&stage.recorder, dropped);
		char *text = picture_of(&rec);

		assert_non_null(strstr(text, "</svg>"));
		if (dropped == 0) {
			assert_non_null(strstr(text, ">8 jobs on a device of "));
			assert_non_null(strstr(text, ">lane 1</text>"));
			assert_non_null(strstr(text, "40 iterations, "));
			assert_null(strstr(text, "nan"));
		}
		free(text);
		rec_trace_fini(&rec);
	}
	stop(&stage);
}

static void test_a_picture_of_nothing(void **state)
{
	struct sal_trace_head head = {
		.magic = SAL_TRACE_MAGIC,
		.entry_bytes = sizeof(struct sal_trace_entry),
	};
	struct sal_err err = { 0 };
	struct rec_trace rec;

	(void)state;
	assert_int_equal(rec_trace_copy(&head, sizeof(head), &rec, NULL), SAL_OK);
	assert_int_equal(rec_trace_draw(stderr, &rec, &err), -SAL_FAILED_PRECONDITION);
	assert_non_null(strstr(err.text, "no job"));
	rec_trace_fini(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_policy_repeats_through_changes),
		cmocka_unit_test(test_another_decision_is_found),
		cmocka_unit_test(test_missing_and_surplus_decisions_are_found),
		cmocka_unit_test(test_another_policy_decides_otherwise),
		cmocka_unit_test(test_what_could_not_have_happened),
		cmocka_unit_test(test_the_end_of_another_iteration),
		cmocka_unit_test(test_closed_twice),
		cmocka_unit_test(test_a_beginning_is_needed),
		cmocka_unit_test(test_bytes_of_another_version),
		cmocka_unit_test(test_entries_that_make_no_sense),
		cmocka_unit_test(test_failed_copies),
		cmocka_unit_test(test_tracks_from_any_point_on),
		cmocka_unit_test(test_tracks_of_what_began_before),
		cmocka_unit_test(test_tracks_show_tiers),
		cmocka_unit_test(test_tracks_count_iterations),
		cmocka_unit_test(test_pictures_from_any_point_on),
		cmocka_unit_test(test_a_picture_of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
