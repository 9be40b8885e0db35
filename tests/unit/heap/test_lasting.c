/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "heap/lasting.h"

/* Two outputs of a size: the first two blocks of it last, the third is scratch. */
static void test_first_blocks_last(void **state)
{
	struct sal_lasting l = { 0 };

	(void)state;
	sal_lasting_add(&l.outputs, 100);
	sal_lasting_add(&l.outputs, 100);
	sal_lasting_add(&l.outputs, 100 + SAL_LASTING_SLOTS); /* the same slot */
	assert_true(sal_lasting_claim(&l, 100));
	assert_false(sal_lasting_claim(&l, 99));
	assert_true(sal_lasting_claim(&l, 100));
	assert_false(sal_lasting_claim(&l, 100));
	assert_true(sal_lasting_claim(&l, 100 + SAL_LASTING_SLOTS));
	assert_false(sal_lasting_claim(&l, 100 + SAL_LASTING_SLOTS));
}

/* An output that takes over the memory of an argument needs no block. */
static void test_donated(void **state)
{
	struct sal_lasting l = { 0 };

	(void)state;
	sal_lasting_subtract(&l.outputs, 7); /* unknown: nothing happens */
	sal_lasting_add(&l.outputs, 7);
	sal_lasting_add(&l.outputs, 7);
	sal_lasting_subtract(&l.outputs, 7);
	assert_true(sal_lasting_claim(&l, 7));
	assert_false(sal_lasting_claim(&l, 7));
}

static void test_learned(void **state)
{
	struct sal_lasting l = { 0 };
	uint32_t i;

	(void)state;
	for (i = 1; i <= SAL_LASTING_LEARNED; i++) {
		assert_false(sal_lasting_claim(&l, i));
		sal_lasting_learn(&l, i);
		sal_lasting_learn(&l, i); /* known already: takes no place */
	}
	for (i = 1; i <= SAL_LASTING_LEARNED; i++)
		assert_true(sal_lasting_claim(&l, i));
	sal_lasting_learn(&l, 1000);
	assert_true(sal_lasting_claim(&l, 1000));
	assert_false(sal_lasting_claim(&l, 1));
	assert_true(sal_lasting_claim(&l, 2));
}

static void test_nested(void **state)
{
	struct sal_lasting_outputs nested = { 0 };
	struct sal_lasting l = { 0 };

	(void)state;
	sal_lasting_add(&l.outputs, 5);
	sal_lasting_add(&nested, 5);
	sal_lasting_add(&nested, 6);
	sal_lasting_join(&l, &nested);
	assert_true(sal_lasting_claim(&l, 5));
	assert_true(sal_lasting_claim(&l, 5));
	assert_false(sal_lasting_claim(&l, 5));
	assert_true(sal_lasting_claim(&l, 6));
}

/* More sizes than can be told apart: then nothing is scratch. */
static void test_too_many_sizes(void **state)
{
	struct sal_lasting l = { 0 };
	uint32_t i;

	(void)state;
	for (i = 1; i <= 10 * SAL_LASTING_SLOTS; i++)
		sal_lasting_add(&l.outputs, i);
	for (i = 1; i <= 20 * SAL_LASTING_SLOTS; i++)
		assert_true(sal_lasting_claim(&l, i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_blocks_last), cmocka_unit_test(test_donated),
		cmocka_unit_test(test_learned),		  cmocka_unit_test(test_nested),
		cmocka_unit_test(test_too_many_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
