/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ink: columns add up, turns become bars at the right place, and the output does not grow with the
 * number of turns.
 */
#include "recording/draw/ink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct rec_axis axis = { .from_ns = 1000, .to_ns = 2000, .columns = 100 };
static const struct rec_box row = { 0, 0, 100, 20 };

/* The drawing of these turns, as text that the caller frees. */
static char *drawn(const struct rec_span *spans, size_t count)
{
	struct rec_ink ink = { 0 };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	rec_ink_row(&ink, &axis, &row, spans, count);
	assert_int_equal(rec_ink_pour(&ink, out, NULL), SAL_OK);
	assert_int_equal(fclose(out), 0);
	return text;
}

static size_t count_of(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text += strlen(what);
	}
	return n;
}

static void moments_outside_lie_on_the_border(void **state)
{
	(void)state;
	assert_float_equal(rec_axis_at(&axis, 0), 0, 0);
	assert_float_equal(rec_axis_at(&axis, 1500), 50, 1e-9);
	assert_float_equal(rec_axis_at(&axis, UINT64_MAX), 100, 0);
}

static void columns_add_up(void **state)
{
	double columns[100] = { 0 }, sum = 0;
	uint64_t at;
	size_t i;

	(void)state;
	for (at = 900; at < 2100; at += 7) /* seven in a row, for any columns */
		rec_axis_add(&axis, at, at + 7, 2, columns);
	for (i = 0; i < 100; i++) {
		assert_float_equal(columns[i], 2, 1e-9);
		sum += columns[i];
	}
	assert_float_equal(sum, 200, 1e-9);
}

static void a_wide_turn_is_a_bar_of_its_own(void **state)
{
	struct rec_span spans[] = { { .from_ns = 1105, .to_ns = 1255, .job = 0 },
				    { .from_ns = 1300, .to_ns = 1400, .kind = REC_PAGE_OUT } };
	char *text = drawn(spans, 2);

	(void)state;
	assert_string_equal(text, "<path fill=\"#332288\" d=\"M10.5 0h15v20h-15z\"/>\n");
	free(text);
}

static void short_turns_share_a_column_by_height(void **state)
{
	struct rec_span spans[] = { { .from_ns = 1100, .to_ns = 1106, .job = 1 },
				    { .from_ns = 1106, .to_ns = 1108, .job = 0 },
				    { .from_ns = 1108, .to_ns = 1110, .job = 1 } };
	char *text = drawn(spans, 3);

	(void)state;
	assert_non_null(strstr(text, "fill=\"#332288\" d=\"M10 0h1v4h-1z\""));
	assert_non_null(strstr(text, "fill=\"#cc6677\" d=\"M10 4h1v16h-1z\""));
	free(text);
}

static void a_column_used_less_is_paler(void **state)
{
	struct rec_span span = { .from_ns = 1100, .to_ns = 1101 };
	char *text = drawn(&span, 1);

	(void)state;
	assert_null(strstr(text, "#332288"));
	assert_non_null(strstr(text, "M10 0h1v20h-1z"));
	free(text);
}

/*
 * Two jobs that take turns of 1 ns a thousand times draw as many bars as two that take ten turns.
 */
static void many_turns_are_few_bars(void **state)
{
	enum {
		TURNS = 1000
	};
	struct rec_span spans[TURNS];
	char *text;
	uint32_t i;

	(void)state;
	for (i = 0; i < TURNS; i++)
		spans[i] = (struct rec_span){ 1000 + i, 1001 + i, .job = i % 2 };
	text = drawn(spans, TURNS);
	assert_int_equal(count_of(text, "<path"), 2);
	assert_int_equal(count_of(text, "M"), 200);
	free(text);
}

/* Short turns of one job without a gap are one bar. */
static void equal_columns_are_one_bar(void **state)
{
	struct rec_span spans[200];
	char *text;
	uint32_t i;

	(void)state;
	for (i = 0; i < 200; i++)
		spans[i] = (struct rec_span){ 1000 + 5 * i, 1005 + 5 * i, .job = 0 };
	text = drawn(spans, 200);
	assert_string_equal(text, "<path fill=\"#332288\" d=\"M0 0h100v20h-100z\"/>\n");
	free(text);
}

static void scales_are_round(void **state)
{
	struct rec_scale s = rec_scale_time(18203);

	(void)state;
	assert_float_equal(s.step, 1800, 0);
	assert_string_equal(s.name, "min");
	assert_float_equal(rec_scale_time(99).step, 10, 0);
	assert_float_equal(rec_scale_time(1e-9).step, 1e-10, 1e-15);
	assert_string_equal(rec_scale_time(1e8).name, "d");
	s = rec_scale_bytes(15.6 * 1024 * 1024 * 1024);
	assert_float_equal(s.step / s.unit, 5, 1e-9);
	assert_string_equal(s.name, "GiB");
	assert_string_equal(rec_scale_bytes(1).name, "B");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moments_outside_lie_on_the_border),
		cmocka_unit_test(columns_add_up),
		cmocka_unit_test(a_wide_turn_is_a_bar_of_its_own),
		cmocka_unit_test(short_turns_share_a_column_by_height),
		cmocka_unit_test(a_column_used_less_is_paler),
		cmocka_unit_test(many_turns_are_few_bars),
		cmocka_unit_test(equal_columns_are_one_bar),
		cmocka_unit_test(scales_are_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
