/* SPDX-License-Identifier: Apache-2.0 */
/* pack: numbers and texts, up to the last byte of the room and not beyond. */
#include "wire/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct sal_text text_of(const char *text)
{
	return (struct sal_text){ text, strlen(text) };
}

static void pack_all(struct sal_pack *p)
{
	sal_pack_u32(p, 0x01020304);
	sal_pack_u64(p, UINT64_C(0x05060708090a0b0c));
	sal_pack_i64(p, -2);
	sal_pack_f32(p, 1.5f);
	sal_pack_text(p, text_of("five!"));
	sal_pack_bytes(p, "\xee\xff", 2);
}

#define ALL_BYTES (4 + 8 + 8 + 4 + 4 + 5 + 2)

static void what_is_written_is_read(void **state)
{
	unsigned char bytes[ALL_BYTES];
	struct sal_unpack u;
	struct sal_pack p;
	struct sal_text text;

	(void)state;
	sal_pack_init(&p, NULL, 0);
	pack_all(&p);
	assert_int_equal(p.used, ALL_BYTES);
	assert_false(p.failed);
	sal_pack_init(&p, bytes, sizeof(bytes));
	pack_all(&p);
	assert_int_equal(p.used, ALL_BYTES);
	assert_false(p.failed);
	assert_memory_equal(bytes, "\4\3\2\1\x0c\x0b\x0a\x09\x08\x07\x06\x05", 12);
	sal_unpack_init(&u, bytes, sizeof(bytes));
	assert_int_equal(sal_unpack_u32(&u), 0x01020304);
	assert_true(sal_unpack_u64(&u) == UINT64_C(0x05060708090a0b0c));
	assert_int_equal(sal_unpack_i64(&u), -2);
	assert_true(sal_unpack_f32(&u) == 1.5f);
	text = sal_unpack_text(&u);
	assert_int_equal(text.size, 5);
	assert_memory_equal(text.at, "five!", 5);
	assert_memory_equal(sal_unpack_bytes(&u, 2), "\xee\xff", 2);
	assert_false(u.failed);
	assert_int_equal(u.left, 0);
}

/* If the room is too small, the byte behind it stays unchanged. */
static void nothing_is_written_beyond_the_room(void **state)
{
	unsigned char bytes[ALL_BYTES + 1];
	struct sal_pack p;
	size_t room;

	(void)state;
	for (room = 0; room < ALL_BYTES; room++) {
		memset(bytes, 0x77, sizeof(bytes));
		sal_pack_init(&p, bytes, room);
		pack_all(&p);
		assert_true(p.failed);
		assert_true(p.used <= room);
		assert_int_equal(bytes[room], 0x77);
	}
}

/* After a value that did not fit, a smaller value fails, too. */
static void a_failure_stays(void **state)
{
	unsigned char bytes[6] = { 0 };
	struct sal_unpack u;
	struct sal_pack p;

	(void)state;
	sal_pack_init(&p, bytes, sizeof(bytes));
	sal_pack_u64(&p, 1);
	assert_true(p.failed);
	sal_pack_u32(&p, 0x01010101);
	assert_int_equal(p.used, 0);
	assert_int_equal(bytes[0], 0);
	memset(bytes, 1, sizeof(bytes));
	sal_unpack_init(&u, bytes, sizeof(bytes));
	assert_true(sal_unpack_u64(&u) == 0);
	assert_true(u.failed);
	assert_int_equal(sal_unpack_u32(&u), 0);
	assert_null(sal_unpack_bytes(&u, 1));
	assert_int_equal(sal_unpack_text(&u).size, 0);
	assert_int_equal(u.left, sizeof(bytes));
}

static void nothing_is_read_beyond_the_end(void **state)
{
	const unsigned char bytes[] = { 3, 0, 0, 0, 'a', 'b', 'c' };
	struct sal_unpack u;
	size_t size;

	(void)state;
	for (size = 0; size < sizeof(bytes); size++) {
		sal_unpack_init(&u, bytes, size);
		assert_int_equal(sal_unpack_text(&u).size, 0);
		assert_true(u.failed);
	}
	sal_unpack_init(&u, bytes, sizeof(bytes));
	assert_int_equal(sal_unpack_text(&u).size, 3);
	assert_false(u.failed);
	assert_non_null(sal_unpack_bytes(&u, 0));
	assert_null(sal_unpack_bytes(&u, 1));
}

static void a_count_is_what_can_be_there(void **state)
{
	const unsigned char bytes[4 + 24] = { 3 };
	struct sal_unpack u;

	(void)state;
	sal_unpack_init(&u, bytes, sizeof(bytes));
	assert_int_equal(sal_unpack_count(&u, 8), 3);
	assert_false(u.failed);
	sal_unpack_init(&u, bytes, sizeof(bytes));
	assert_int_equal(sal_unpack_count(&u, 9), 0);
	assert_true(u.failed);
	sal_unpack_init(&u, bytes, sizeof(bytes) - 1);
	assert_int_equal(sal_unpack_count(&u, 8), 0);
	assert_true(u.failed);
}

/*
 * The text's length does not fit into four bytes. A writer that only counts reads no byte of the
 * text.
 */
static void a_text_of_4_GiB_fails(void **state)
{
	struct sal_pack p;

	(void)state;
	sal_pack_init(&p, NULL, 0);
	sal_pack_text(&p, (struct sal_text){ "", UINT32_MAX });
	assert_false(p.failed);
	sal_pack_text(&p, (struct sal_text){ "", (size_t)UINT32_MAX + 1 });
	assert_true(p.failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(nothing_is_written_beyond_the_room),
		cmocka_unit_test(a_failure_stays),
		cmocka_unit_test(nothing_is_read_beyond_the_end),
		cmocka_unit_test(a_count_is_what_can_be_there),
		cmocka_unit_test(a_text_of_4_GiB_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
