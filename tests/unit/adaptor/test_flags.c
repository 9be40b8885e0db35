/* SPDX-License-Identifier: Apache-2.0 */
/* flags: XLA_FLAGS as option overrides, read with the reader that the daemon uses. */
#include "adaptor/client/flags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compile/options.h"
#include "compile/proto.h"

/* The text of the only such field of a message, as "name". */
static struct sal_text only(struct sal_text message, uint32_t number)
{
	struct sal_text found = { NULL, 0 };
	struct sal_proto_field f;
	int rc;

	while ((rc = sal_proto_next(&message, &f)) > 0)
		if (f.number == number) {
			assert_null(found.at);
			assert_int_equal(f.type, SAL_PROTO_BYTES);
			found = f.bytes;
		}
	assert_int_equal(rc, 0);
	assert_non_null(found.at);
	return found;
}

/* Writes overrides as "name=value;name=value;". */
static void describe(const struct adp_flags *flags, char *out, size_t room)
{
	struct sal_text rest = { flags->bytes, flags->size };
	struct sal_proto_field f;
	size_t n = 0;
	int rc;

	out[0] = '\0';
	while ((rc = sal_proto_next(&rest, &f)) > 0) {
		struct sal_text name, value;

		assert_int_equal(f.number, 7);
		name = only(f.bytes, 1);
		value = only(only(f.bytes, 2), 1);
		n += (size_t)snprintf(out + n, room - n, "%.*s=%.*s;", (int)name.size, name.at,
				      (int)value.size, value.at);
		assert_true(n < room);
	}
	assert_int_equal(rc, 0);
}

static void expect(const char *text, const char *overrides)
{
	struct adp_flags flags;
	char seen[1024];

	assert_true(adp_flags_init(&flags, text));
	describe(&flags, seen, sizeof(seen));
	assert_string_equal(seen, overrides);
	adp_flags_fini(&flags);
}

static void flags_become_overrides(void **state)
{
	(void)state;
	expect(NULL, "");
	expect("", "");
	expect(" \n\t", "");
	expect("--xla_a=1", "xla_a=1;");
	expect("  --xla_a=true\n-xla_b=FALSE --xla_c ", "xla_a=True;xla_b=False;xla_c=True;");
	expect("--xla_a=b=c --xla_d=", "xla_a=b=c;xla_d=;");
	expect("--", "");
	expect("-- --=x", "");
	expect("--xla_true=truer", "xla_true=truer;");
}

static void many_short_flags_fit(void **state)
{
	struct adp_flags flags;
	char text[ADP_FLAGS_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ADP_FLAGS_MAX; i++)
		text[i] = "-a "[i % 3];
	text[ADP_FLAGS_MAX] = '\0';
	assert_true(adp_flags_init(&flags, text));
	assert_true(flags.size > ADP_FLAGS_MAX);
	adp_flags_fini(&flags);
	/* A longer text is not taken in part. */
	text[ADP_FLAGS_MAX] = 'a';
	text[ADP_FLAGS_MAX + 1] = '\0';
	assert_true(adp_flags_init(&flags, text));
	assert_int_equal(flags.size, 0);
	adp_flags_fini(&flags);
}

static void long_values_are_framed(void **state)
{
	char text[700] = "--xla_a=", expected[800];

	(void)state;
	memset(text + strlen(text), 'x', 600);
	(void)snprintf(expected, sizeof(expected), "%s;", text + 2);
	expect(text, expected);
}

static void a_file_has_the_flags(void **state)
{
	char path[] = "/tmp/salus-test-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "--xla_a=3\n--xla_b\n", 18), 18);
	assert_int_equal(close(fd), 0);
	expect(path, "xla_a=3;xla_b=True;");
	assert_int_equal(unlink(path), 0);
	expect(path, "");
}

/* What the daemon makes of options with these flags behind them. */
static void the_daemon_judges_each_flag(void **state)
{
	static const struct {
		const char *text;
		int rc; /* how many are dropped, or negative */
	} cases[] = {
		{ "--xla_cpu_enable_fast_math=false", 0 },
		{ "--xla_dump_to=/tmp/x --xla_cpu_enable_fast_math=false", 1 },
		{ "--xla_gpu_ptx_file=/etc/passwd", -SAL_INVALID_ARGUMENT },
		{ "--xla_no_such_thing=1", -SAL_INVALID_ARGUMENT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct adp_flags flags;
		char *cleaned;
		size_t size;

		assert_true(adp_flags_init(&flags, cases[i].text));
		assert_int_equal(sal_options_clean((struct sal_text){ flags.bytes, flags.size },
						   &cleaned, &size, NULL),
				 cases[i].rc);
		free(cleaned);
		adp_flags_fini(&flags);
	}
}

static void debug_options_are_found(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		bool have;
	} cases[] = {
		{ "", 0, false },
		{ "\x10\x01", 2, false }, /* parameter_is_tupled_arguments */
		{ "\x1a\x00", 2, false }, /* build options, empty */
		{ "\x1a\x02\x20\x01", 4, false }, /* build options: num_replicas */
		{ "\x1a\x04\x20\x01\x1a\x00", 6, false }, /* debug options, empty */
		{ "\x1a\x05\x1a\x03\x90\x06\x01", 7, true },
		{ "\x10\x01\x1a\x07\x20\x01\x1a\x03\x90\x06\x01", 11, true },
		{ "\x1a", 1, true }, /* malformed: left alone */
		{ "\x1a\x09\x20", 3, true },
		{ "\x1a\x02\x1a\x05", 4, true },
		{ "\x1b\x00", 2, true }, /* a group */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(adp_options_have_debug(cases[i].bytes, cases[i].size),
				 cases[i].have);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flags_become_overrides),
		cmocka_unit_test(many_short_flags_fit),
		cmocka_unit_test(long_values_are_framed),
		cmocka_unit_test(a_file_has_the_flags),
		cmocka_unit_test(the_daemon_judges_each_flag),
		cmocka_unit_test(debug_options_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
