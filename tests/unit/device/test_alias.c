/* SPDX-License-Identifier: Apache-2.0 */
/* alias: reads an optimised program, complete, cut and damaged. */
#include "device/pjrt/alias.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/*
 * A module with a name (field 1), a fixed64 and a fixed32 that are ignored, and three aliases: of
 * parameter 300, of parameter 0 (whose number is absent) and of parameter 300 again (another part
 * of it). A configuration (field 2) follows.
 */
static const unsigned char program[] = {
	0x0a, 45, /* hlo_module */
	0x0a, 3,  'a',	'd',  'd', /* name */
	0x61, 1,  2,	3,    4,    5,	  6,	7,    8, /* field 12, 8 bytes */
	0x6d, 1,  2,	3,    4, /* field 13, 4 bytes */
	0x42, 24, /* input_output_alias */
	0x0a, 6,  0x0a, 1,    1,    0x10, 0xac, 0x02, /* {1} -> 300 */
	0x0a, 4,  0x0a, 0,    0x20, 1, /* {} -> 0, kind 1 */
	0x0a, 8,  0x10, 0xac, 0x02, 0x1a, 1,	1,    0x20, 1, /* 300, part {1} */
	0x12, 2,  0x08, 1, /* config */
};

static int read_bytes(const void *bytes, size_t size, uint32_t **out, size_t *count)
{
	/* A copy of exactly this size, so that the sanitizer detects a read beyond it. */
	char *copy = malloc(size ? size : 1);
	int rc;

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	rc = sal_alias_read((struct sal_text){ copy, size }, out, count, NULL);
	free(copy);
	return rc;
}

static void aliases_are_found(void **state)
{
	uint32_t *found;
	size_t count;

	(void)state;
	assert_int_equal(read_bytes(program, sizeof(program), &found, &count), SAL_OK);
	assert_int_equal(count, 2);
	assert_int_equal(found[0], 0);
	assert_int_equal(found[1], 300);
	free(found);
}

static void none_is_fine(void **state)
{
	static const unsigned char bytes[] = { 0x0a, 5, 0x0a, 3, 'a', 'd', 'd' };
	uint32_t *found;
	size_t count;

	(void)state;
	assert_int_equal(read_bytes(bytes, sizeof(bytes), &found, &count), SAL_OK);
	assert_int_equal(count, 0);
	assert_null(found);
}

/* Every truncation is detected, except one that removes the whole configuration. */
static void cut_programs_are_refused(void **state)
{
	uint32_t *found;
	size_t count;

	(void)state;
	for (size_t size = 0; size < sizeof(program); size++) {
		int rc = read_bytes(program, size, &found, &count);

		assert_int_equal(rc, size == sizeof(program) - 4 ? SAL_OK : -SAL_DATA_LOSS);
		if (rc < 0)
			assert_null(found);
		free(found);
	}
}

static void nonsense_is_refused(void **state)
{
	static const struct {
		size_t size;
		unsigned char bytes[16];
	} nonsense[] = {
		{ 2, { 0x00, 0 } }, /* field 0 */
		{ 2, { 0x0b, 0x0c } }, /* a group */
		{ 3, { 0x0f, 0, 0 } }, /* wire type 7 */
		{ 11, { 0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
		{ 12, { 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
		/* parameter -1 */
		{ 17,
		  { 0x0a, 15, 0x42, 13, 0x0a, 11, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		    0xff, 0xff } },
		{ 2, { 0x12, 0 } }, /* no module */
	};
	uint32_t *found;
	size_t count;

	(void)state;
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		unsigned char bytes[17] = { 0 };

		memcpy(bytes, nonsense[i].bytes, 16);
		bytes[16] = 1;
		assert_int_equal(read_bytes(bytes, nonsense[i].size, &found, &count),
				 -SAL_DATA_LOSS);
	}
}

static void damage_does_no_harm(void **state)
{
	unsigned char bytes[sizeof(program)];
	uint32_t *found;
	size_t count;

	(void)state;
	for (size_t i = 0; i < sizeof(program); i++) {
		for (unsigned int value = 0; value < 256; value++) {
			memcpy(bytes, program, sizeof(bytes));
			bytes[i] = (unsigned char)value;
			read_bytes(bytes, sizeof(bytes), &found, &count);
			for (size_t k = 1; k < count; k++)
				assert_true(found[k - 1] < found[k]);
			free(found);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aliases_are_found),	    cmocka_unit_test(none_is_fine),
		cmocka_unit_test(cut_programs_are_refused), cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(damage_does_no_harm),
	};

	return cmocka_run_group_tests_name("alias", tests, NULL, NULL);
}
