/* SPDX-License-Identifier: Apache-2.0 */
/* proto: the bytes of numbers, texts and nested messages, however long. */
#include "adaptor/proto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void assert_bytes(struct adp_proto *p, const char *bytes, size_t size)
{
	assert_false(p->failed);
	assert_int_equal(p->size, size);
	assert_memory_equal(p->at, bytes, size);
	adp_proto_free(p);
	assert_null(p->at);
}

static void numbers_take_seven_bits_a_byte(void **state)
{
	struct adp_proto p = { 0 };

	(void)state;
	adp_proto_number(&p, 1, 0);
	adp_proto_number(&p, 2, 127);
	adp_proto_number(&p, 3, 300);
	adp_proto_number(&p, 15, UINT64_MAX);
	assert_bytes(&p, "\x08\x00\x10\x7f\x18\xac\x02\x78\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		     18);
}

static void messages_nest(void **state)
{
	struct adp_proto p = { 0 }, child = { 0 }, more = { 0 };

	(void)state;
	adp_proto_text(&child, 2, "ab");
	adp_proto_number(&more, 1, 5);
	adp_proto_append(&child, &more);
	adp_proto_message(&p, 4, &child);
	adp_proto_message(&p, 5, &child); /* empty now */
	assert_null(child.at);
	assert_bytes(&p,
		     "\x22\x06\x12\x02"
		     "ab\x08\x05\x2a\x00",
		     10);
}

static void a_long_text_arrives_whole(void **state)
{
	struct adp_proto p = { 0 };
	char text[5000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	adp_proto_text(&p, 1, text);
	assert_int_equal(p.size, 1 + 2 + sizeof(text) - 1);
	assert_memory_equal(p.at + 3, text, sizeof(text) - 1);
	adp_proto_free(&p);
}

static void a_failure_is_kept(void **state)
{
	struct adp_proto p = { 0 }, child = { .failed = true };

	(void)state;
	adp_proto_message(&p, 1, &child);
	assert_true(p.failed);
	adp_proto_number(&p, 1, 1);
	assert_int_equal(p.size, 0);
	adp_proto_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_take_seven_bits_a_byte),
		cmocka_unit_test(messages_nest),
		cmocka_unit_test(a_long_text_arrives_whole),
		cmocka_unit_test(a_failure_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
