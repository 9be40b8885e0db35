/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key and frame: a program's key depends on everything that changes the outcome, and on nothing
 * else; heads are decoded strictly.
 */
#include "compile/store/key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "compile/frame.h"

struct key {
	uint8_t at[SAL_PROGRAM_KEY_BYTES];
};

struct source {
	const char *format, *program, *platform;
	struct sal_text options;
	uint32_t devices;
};

static struct sal_text text_of(const char *text)
{
	return (struct sal_text){ text, strlen(text) };
}

static struct key key_of(const struct source *s)
{
	struct sal_compile_source source = { .format = text_of(s->format),
					     .program = text_of(s->program),
					     .options = s->options,
					     .devices = s->devices };
	uint8_t identity[SAL_IDENTITY_BYTES] = { 0 };
	struct key key;

	memcpy(identity, s->platform, strlen(s->platform));
	sal_program_key(&source, identity, key.at);
	return key;
}

static bool is_same(const struct source *a, const struct source *b)
{
	struct key x = key_of(a), y = key_of(b);

	return memcmp(x.at, y.at, sizeof(x.at)) == 0;
}

/* One device is as none named: programs from before have the same key. */
static void devices_count(void **state)
{
	struct source one = { .format = "mlir", .program = "p", .platform = "1" }, same = one;

	(void)state;
	same.devices = 1;
	assert_true(is_same(&one, &same));
	one.devices = 2;
	assert_false(is_same(&one, &same));
	same.devices = 3;
	assert_false(is_same(&one, &same));
}

#define OPTIONS(bytes) ((struct sal_text){ bytes, sizeof(bytes) - 1 })

static void each_part_counts(void **state)
{
	const struct source plain = { "mlir", "program", "1.0", OPTIONS("\x08\x01"), 0 };
	const struct source others[] = {
		{ "hlo", "program", "1.0", OPTIONS("\x08\x01"), 0 },
		{ "mlir", "programs", "1.0", OPTIONS("\x08\x01"), 0 },
		{ "mlir", "program", "1.1", OPTIONS("\x08\x01"), 0 },
		{ "mlir", "program", "1.0", OPTIONS("\x08\x02"), 0 },
		{ "mlir", "program", "1.0", OPTIONS(""), 0 },
		{ "mli", "rprogram", "1.0", OPTIONS("\x08\x01"), 0 }, /* other parts */
	};
	size_t i;

	(void)state;
	assert_true(is_same(&plain, &plain));
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(is_same(&plain, &others[i]));
}

/* Field 7 of the options is a map: field 1 of an entry is its key, field 2 its value. */
#define ENTRY_A "\x3a\x03\x0a\x01\x61"
#define ENTRY_B "\x3a\x03\x0a\x01\x62"

static void the_order_of_a_map_does_not_count(void **state)
{
	struct source a = { "mlir", "p", "1", OPTIONS(ENTRY_A ENTRY_B "\x08\x01"), 0 };
	struct source b = { "mlir", "p", "1", OPTIONS(ENTRY_B ENTRY_A "\x08\x01"), 0 };
	struct source one = { "mlir", "p", "1", OPTIONS(ENTRY_A "\x08\x01"), 0 };
	struct source none = { "mlir", "p", "1", OPTIONS("\x08\x01"), 0 };
	struct source twice = { "mlir", "p", "1", OPTIONS(ENTRY_A ENTRY_A "\x08\x01"), 0 };

	(void)state;
	assert_true(is_same(&a, &b));
	assert_false(is_same(&a, &one));
	assert_false(is_same(&one, &none));
	assert_false(is_same(&twice, &none));
	assert_false(is_same(&twice, &one));
}

static void heads_are_read_strictly(void **state)
{
	const struct sal_frame frame = { .id = 7, .code = 3, .sizes = { 1, 2, 3 } };
	uint8_t head[SAL_FRAME_HEAD_BYTES];
	struct sal_frame back;
	int i;

	(void)state;
	sal_frame_encode(&frame, head);
	assert_int_equal(sal_frame_decode(head, &back), SAL_OK);
	assert_int_equal(back.id, 7);
	assert_int_equal(back.code, 3);
	assert_memory_equal(back.sizes, frame.sizes, sizeof(frame.sizes));
	for (i = 0; i < 4; i++) { /* the magic */
		head[i] ^= 1;
		assert_int_equal(sal_frame_decode(head, &back), -SAL_DATA_LOSS);
		head[i] ^= 1;
	}
}

static void parts_are_bounded_together(void **state)
{
	const uint64_t half = SAL_FRAME_BYTES_MAX / 2;

	(void)state;
	assert_true(sal_frame_bytes((uint64_t[]){ half, half, 0 }) == SAL_FRAME_BYTES_MAX);
	assert_true(sal_frame_bytes((uint64_t[]){ half, half, 1 }) == UINT64_MAX);
	assert_true(sal_frame_bytes((uint64_t[]){ UINT64_MAX, 2, 0 }) == UINT64_MAX);
	assert_true(sal_frame_bytes((uint64_t[]){ 0, 0, 0 }) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_count),
		cmocka_unit_test(each_part_counts),
		cmocka_unit_test(the_order_of_a_map_does_not_count),
		cmocka_unit_test(heads_are_read_strictly),
		cmocka_unit_test(parts_are_bounded_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
