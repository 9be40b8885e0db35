/* SPDX-License-Identifier: Apache-2.0 */
/* units: accepted and refused texts, and formatted values that can be parsed again. */
#include "base/units.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

typedef int parser(const char *text, uint64_t *out, struct sal_err *err);

struct sample {
	const char *text;
	uint64_t value;
};

static void accepts(parser *parse, const struct sample *samples, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct sal_err err = { 0 };
		uint64_t value = 1;

		if (parse(samples[i].text, &value, &err) != SAL_OK)
			fail_msg("%s: %s", samples[i].text, err.text);
		if (value != samples[i].value)
			fail_msg("%s gave %" PRIu64, samples[i].text, value);
	}
}

/*
 * The parser refuses the text with this code, in a sentence that quotes the text and has an
 * example.
 */
static void refuses(parser *parse, const char *text, int code, const char *example)
{
	struct sal_err err = { 0 };
	uint64_t value = 1;
	int rc = parse(text, &value, &err);

	if (rc != -code)
		fail_msg("\"%s\" gave %d, value %" PRIu64, text, rc, value);
	assert_int_equal(value, 0);
	assert_int_equal(err.code, code);
	assert_non_null(strstr(err.text, text));
	assert_non_null(strstr(err.text, "expected"));
	assert_non_null(strstr(err.text, example));

	/* The same without an err. */
	assert_int_equal(parse(text, &value, NULL), -code);
}

static void sizes_are_read(void **state)
{
	static const struct sample samples[] = {
		{ "0", 0 },
		{ "0.0", 0 },
		{ "1048576", MIB },
		{ "7B", 7 },
		{ "1KB", 1000 },
		{ "1kB", 1000 },
		{ "3MB", 3000000 },
		{ "2GB", 2000000000 },
		{ "1TB", UINT64_C(1000000000000) },
		{ "1KiB", KIB },
		{ "512MiB", 512 * MIB },
		{ "8GiB", 8 * GIB },
		{ "3TiB", 3 * TIB },
		{ "15.6GiB", UINT64_C(16750372454) },
		{ "0.5KiB", 512 },
		{ "0.10GiB", UINT64_C(107374182) },
		{ "1.6B", 2 },
		{ "007B", 7 },
		{ "0.1234567890123456789012345TB", UINT64_C(123456789012) },
		{ "9223372036854775807", INT64_MAX },
		{ "8388607TiB", 8388607 * TIB },
	};

	(void)state;
	accepts(sal_bytes_parse, samples, COUNT(samples));
}

static void rates_are_read(void **state)
{
	static const struct sample samples[] = {
		{ "0", 0 },
		{ "9000000", 9000000 },
		{ "12GB/s", UINT64_C(12000000000) },
		{ "800MiB/s", 800 * MIB },
		{ "1.5KB/s", 1500 },
		{ "9B/s", 9 },
	};

	(void)state;
	accepts(sal_rate_parse, samples, COUNT(samples));
}

static void durations_are_read(void **state)
{
	static const struct sample samples[] = {
		{ "0", 0 },	      { "7ns", 7 },	     { "50us", 50 * US },
		{ "20ms", 20 * MS },  { "1.5s", 1500 * MS }, { "3min", 180 * SEC },
		{ "2h", 7200 * SEC }, { "0.3ms", 300 * US },
	};

	(void)state;
	accepts(sal_duration_parse, samples, COUNT(samples));
}

static void nonsense_is_refused(void **state)
{
	static const char *const everywhere[] = {
		"",	"-1",	 "-8GiB",    "+1",     " 1",	"1 ",	 "1.",	       ".5",
		"1..5", "1.5.2", "1,5",	     "nan",    "NaN",	"inf",	 "1e3",	       "0x10",
		"GiB",	"s",	 "five",     "1 GiB",  "1GiBx", "1sx",	 "8gib",       "8Gib",
		"1G",	"1m",	 "1S",	     "8GiB\n", "1/s",	"\xff",	 "1\xc2\xb5s", "--1",
		"1-",	"1%",	 "1GiB/s/s", "1s/s",   "1//s",	"1.-5s", "1_000",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(everywhere); i++) {
		refuses(sal_bytes_parse, everywhere[i], SAL_INVALID_ARGUMENT, "8GiB");
		refuses(sal_rate_parse, everywhere[i], SAL_INVALID_ARGUMENT, "12GB/s");
		refuses(sal_duration_parse, everywhere[i], SAL_INVALID_ARGUMENT, "20ms");
	}
	refuses(sal_bytes_parse, "12GB/s", SAL_INVALID_ARGUMENT, "8GiB");
	refuses(sal_bytes_parse, "12ms", SAL_INVALID_ARGUMENT, "8GiB");
	refuses(sal_rate_parse, "12GB", SAL_INVALID_ARGUMENT, "12GB/s");
	refuses(sal_duration_parse, "12GB", SAL_INVALID_ARGUMENT, "20ms");
}

static void overflow_is_refused(void **state)
{
	(void)state;
	refuses(sal_bytes_parse, "9223372036854775808", SAL_OUT_OF_RANGE, "8GiB");
	refuses(sal_bytes_parse, "18446744073709551616", SAL_OUT_OF_RANGE, "8GiB");
	refuses(sal_bytes_parse, "99999999999999999999999999999GiB", SAL_OUT_OF_RANGE, "8GiB");
	refuses(sal_bytes_parse, "8388608TiB", SAL_OUT_OF_RANGE, "8GiB");
	refuses(sal_rate_parse, "8388608TiB/s", SAL_OUT_OF_RANGE, "12GB/s");
	refuses(sal_duration_parse, "2562048h", SAL_OUT_OF_RANGE, "20ms");
	refuses(sal_duration_parse, "9223372037s", SAL_OUT_OF_RANGE, "20ms");
}

/* "64" does not mean 64 bytes: the sentence says how to write a unit. */
static void a_missing_unit_is_named(void **state)
{
	(void)state;
	refuses(sal_bytes_parse, "64", SAL_INVALID_ARGUMENT, "64GiB or 64MiB");
	refuses(sal_bytes_parse, "15.6", SAL_INVALID_ARGUMENT, "15.6GiB");
	refuses(sal_bytes_parse, "1048575", SAL_INVALID_ARGUMENT, "no unit");
	refuses(sal_bytes_parse, "2000000.5", SAL_INVALID_ARGUMENT, "no unit");
	refuses(sal_rate_parse, "12", SAL_INVALID_ARGUMENT, "12GB/s");
	refuses(sal_duration_parse, "20", SAL_INVALID_ARGUMENT, "20s or 20min");
	refuses(sal_duration_parse, "0.25", SAL_INVALID_ARGUMENT, "no unit");
	refuses(sal_duration_parse, "9000000", SAL_INVALID_ARGUMENT, "no unit");
}

static void no_text_is_refused(void **state)
{
	uint64_t value = 1;

	(void)state;
	assert_int_equal(sal_bytes_parse(NULL, &value, NULL), -SAL_INVALID_ARGUMENT);
	assert_int_equal(value, 0);
}

static void long_text_is_quoted_in_part(void **state)
{
	struct sal_err err = { 0 };
	char text[1000];
	uint64_t value;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[0] = '1';
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(sal_duration_parse(text, &value, &err), -SAL_INVALID_ARGUMENT);
	assert_non_null(strstr(err.text, "expected a duration such as 20ms"));
}

static void sizes_are_shown(void **state)
{
	static const struct sample samples[] = {
		{ "0B", 0 },
		{ "1B", 1 },
		{ "1023B", 1023 },
		{ "1KiB", KIB },
		{ "1.5KiB", 1536 },
		{ "1.25GiB", GIB + GIB / 4 },
		{ "15.6GiB", UINT64_C(16750372454) },
		{ "512MiB", 512 * MIB },
		{ "1MiB", MIB - 1 },
		{ "1000KiB", 1000 * KIB },
		{ "1.05KiB", 1075 },
		{ "16777216TiB", UINT64_MAX },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(samples); i++) {
		char buf[SAL_UNITS_TEXT];

		assert_string_equal(sal_bytes_format(samples[i].value, buf, sizeof(buf)),
				    samples[i].text);
	}
}

static void durations_are_shown(void **state)
{
	static const struct sample samples[] = {
		{ "0ns", 0 },		{ "999ns", 999 },
		{ "1us", US },		{ "20ms", 20 * MS },
		{ "1.5s", 1500 * MS },	{ "1.25s", 1250 * MS },
		{ "1ms", 999900 },	{ "12.3ms", 12345678 },
		{ "3min", 180 * SEC },	{ "1min", 60 * SEC - 1 },
		{ "2.5h", 9000 * SEC }, { "5124096h", UINT64_MAX },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(samples); i++) {
		char buf[SAL_UNITS_TEXT];

		assert_string_equal(sal_duration_format(samples[i].value, buf, sizeof(buf)),
				    samples[i].text);
	}
}

static void little_room_is_respected(void **state)
{
	char buf[4] = "zzz";

	(void)state;
	assert_string_equal(sal_bytes_format(512 * MIB, buf, sizeof(buf)), "512");
}

static bool is_near(uint64_t a, uint64_t b)
{
	uint64_t gap = a > b ? a - b : b - a;

	return gap <= b / 150;
}

/* Any value, formatted and parsed again, is equal in the three digits shown. */
static void shown_values_read_back(void **state)
{
	uint64_t seed = 20200302;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		char buf[SAL_UNITS_TEXT];
		uint64_t value;
		uint64_t back;

		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		value = seed >> (2 + i % 60);
		if (sal_bytes_parse(sal_bytes_format(value, buf, sizeof(buf)), &back, NULL) ||
		    !is_near(back, value))
			fail_msg("%" PRIu64 " bytes shown as %s", value, buf);
		if (sal_duration_parse(sal_duration_format(value, buf, sizeof(buf)), &back, NULL) ||
		    !is_near(back, value))
			fail_msg("%" PRIu64 " ns shown as %s", value, buf);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read),
		cmocka_unit_test(rates_are_read),
		cmocka_unit_test(durations_are_read),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(overflow_is_refused),
		cmocka_unit_test(a_missing_unit_is_named),
		cmocka_unit_test(no_text_is_refused),
		cmocka_unit_test(long_text_is_quoted_in_part),
		cmocka_unit_test(sizes_are_shown),
		cmocka_unit_test(durations_are_shown),
		cmocka_unit_test(little_room_is_respected),
		cmocka_unit_test(shown_values_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
