/* SPDX-License-Identifier: Apache-2.0 */
/*
 * picture: changes that people make to running jobs show in pictures and tracks, and so does a
 * small use of memory.
 */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "recording/draw/svg.h"
#include "recording/trace.h"
#include "support/driver.h"
#include "support/recorder.h"

#define MIB (UINT64_C(1) << 20)

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

static void start(struct stage *stage)
{
	struct sal_engine_config cfg = {
		.capacity_bytes = 8 * GIB,
		.policy = &sal_policy_fair,
		.tuning = drv_plain_tuning(),
	};

	recorder_start(&stage->recorder, &cfg);
	drv_start(&stage->d, cfg.capacity_bytes, cfg.policy, &cfg.tuning);
	stage->d.tap = on_record;
	stage->d.tap_ctx = stage;
}

static void stop(struct stage *stage)
{
	drv_stop(&stage->d);
	recorder_stop(&stage->recorder);
}

/* A job that uses little memory, with many changes by people. */
static void steer(struct stage *stage)
{
	struct sal_job job = { .weight_milli = 1000, .declared = { 5 * MIB, 9 * MIB } };
	struct drv_job *a, *b;

	start(stage);
	a = drv_open_job(&stage->d, &job);
	b = drv_open_job(&stage->d, &job);
	drv_submit(&stage->d, a, 5 * MIB, 9 * MIB);
	drv_done(&stage->d, a, 10 * MS);
	drv_set_policy(&stage->d, &sal_policy_fair); /* the current policy: no change */
	drv_pause(&stage->d, a);
	drv_pass(&stage->d, 10 * MS);
	drv_set_policy(&stage->d, &sal_policy_srtf);
	job.limit_bytes = 64 * MIB;
	drv_declare(&stage->d, a, &job);
	drv_pass(&stage->d, 10 * MS);
	drv_resume(&stage->d, a);
	job.priority = 3; /* the limit stays */
	drv_declare(&stage->d, a, &job);
	drv_pause(&stage->d, b); /* paused until the end */
	drv_pass(&stage->d, 10 * MS);
	job.limit_bytes = 0;
	drv_declare(&stage->d, a, &job);
	drv_set_policy(&stage->d, &sal_policy_rr);
	drv_pass(&stage->d, 10 * MS);
	drv_close(&stage->d, a);
}

static char *picture_of(const struct stage *stage, size_t dropped)
{
	struct rec_trace trace = recorder_take(&stage->recorder, dropped);
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	assert_non_null(file);
	assert_int_equal(rec_trace_draw(file, &trace, NULL), SAL_OK);
	assert_int_equal(fclose(file), 0);
	rec_trace_fini(&trace);
	return text;
}

static size_t count_of(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

/* The number of subpaths in the last path of a class. The first path belongs to the legend. */
static size_t parts_of(const char *text, const char *class)
{
	const char *at = NULL, *end;
	size_t n = 0;

	for (; (end = strstr(text, class)); text = end + 1)
		at = end;
	assert_non_null(at);
	for (end = at ? strstr(at, "/>") : NULL; at < end; at++)
		n += *at == 'M';
	return n;
}

static void a_picture_shows_what_people_did(void **state)
{
	struct stage stage;
	char *text;

	(void)state;
	steer(&stage);
	text = picture_of(&stage, 0);
	assert_non_null(strstr(text, ">fair \u2192 srtf \u2192 rr</tspan><tspan"));
	assert_int_equal(count_of(text, "<path class=\"change\" "), 2 + 1); /* plus the legend */
	assert_non_null(strstr(text, ">srtf</text>"));
	assert_non_null(strstr(text, ">rr</text>"));
	assert_int_equal(parts_of(text, "<path class=\"paused\""), 2);
	assert_int_equal(count_of(text, "<path class=\"limit\" "), 2 + 1);
	assert_non_null(strstr(text, "limit 64MiB from 20ms on"));
	assert_non_null(strstr(text, "no limit from 40ms on"));
	free(text);
	stop(&stage);
}

/* The policy is unknown for a time whose records are lost. */
static void a_picture_without_a_beginning_says_so(void **state)
{
	struct stage stage;
	char *text;

	(void)state;
	steer(&stage);
	text = picture_of(&stage, 3);
	assert_non_null(strstr(text, ">fair at first \u2192 srtf \u2192 rr</tspan>"));
	free(text);
	stop(&stage);
}

static void many_policies_fit_the_title(void **state)
{
	struct stage stage;
	char *text;
	int i;

	(void)state;
	start(&stage);
	(void)drv_open(&stage.d, MIB, MIB);
	for (i = 0; i < 40; i++) {
		drv_pass(&stage.d, MS);
		drv_set_policy(&stage.d, i % 2 ? &sal_policy_priority : &sal_policy_fifo);
	}
	text = picture_of(&stage, 0);
	assert_non_null(strstr(text, ">fair \u2192 fifo \u2192 priority \u2192 fifo"));
	assert_non_null(strstr(text, " \u2192 \u2026</tspan></text>\n<text class=\"numbers\""));
	assert_int_equal(count_of(text, "<path class=\"change\" "), 40 + 1);
	free(text);
	stop(&stage);
}

/* To scale, 19 MiB of 8 GiB are a fifth of a pixel. */
static void little_memory_is_seen(void **state)
{
	struct stage stage;
	char *text;

	(void)state;
	steer(&stage);
	text = picture_of(&stage, 0);
	assert_non_null(strstr(text, "the lowest 30MiB of 8GiB: persistent bytes, lanes on top"));
	free(text);
	stop(&stage);
	start(&stage);
	(void)drv_open(&stage.d, 2 * GIB, GIB);
	drv_pass(&stage.d, MS);
	(void)drv_open(&stage.d, MIB, MIB);
	text = picture_of(&stage, 0);
	assert_non_null(strstr(text, "persistent bytes from below, lanes from above"));
	free(text);
	stop(&stage);
}

static size_t events_named(const struct stage *stage, const char *name)
{
	struct rec_trace trace = recorder_take(&stage->recorder, 0);
	char *text = NULL;
	size_t size = 0, i, n = 0;
	FILE *file = open_memstream(&text, &size);
	json_t *root, *e;

	assert_non_null(file);
	assert_int_equal(rec_trace_write(file, &trace, NULL, NULL), SAL_OK);
	assert_int_equal(fclose(file), 0);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	for (i = 0; (e = json_array_get(json_object_get(root, "traceEvents"), i)); i++)
		n += strcmp(json_string_value(json_object_get(e, "name")), name) == 0;
	json_decref(root);
	free(text);
	rec_trace_fini(&trace);
	return n;
}

static void tracks_mark_what_people_did(void **state)
{
	struct stage stage;

	(void)state;
	steer(&stage);
	assert_int_equal(events_named(&stage, "limit"), 1);
	assert_int_equal(events_named(&stage, "no limit"), 1);
	assert_int_equal(events_named(&stage, "paused"), 2); /* also the job without work */
	assert_int_equal(events_named(&stage, "set_policy"), 3);
	stop(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_picture_shows_what_people_did),
		cmocka_unit_test(a_picture_without_a_beginning_says_so),
		cmocka_unit_test(many_policies_fit_the_title),
		cmocka_unit_test(little_memory_is_seen),
		cmocka_unit_test(tracks_mark_what_people_did),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
