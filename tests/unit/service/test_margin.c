/* SPDX-License-Identifier: Apache-2.0 */
/* margin: kinds of operations are found, and the guess follows what first runs took. */
#include "service/real/margin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/facts.h"

#define MIB (UINT64_C(1) << 20)

static const struct sal_program_facts facts = {
	.memory = { .argument = 16 << 20, .output = 16 << 20, .temp = 8 << 20 },
};

static uint32_t scan(const char *text)
{
	return svc_margin_scan((struct sal_text){ text, strlen(text) });
}

static void test_kinds(void **state)
{
	(void)state;
	assert_int_equal(scan("\n\x03one\x12\x0b"
			      "convolution"),
			 1u << SVC_MARGIN_CONVOLUTION);
	assert_int_equal(scan("\x12\x04sort\x12\x03"
			      "dot"),
			 1u << SVC_MARGIN_SORT | 1u << SVC_MARGIN_DOT);
	assert_int_equal(scan("\x12\x03"
			      "add, a name with sort and dot"),
			 0);
	assert_int_equal(svc_margin_scan((struct sal_text){ NULL, 0 }), 0);
}

static void test_guess(void **state)
{
	struct svc_margins m;

	(void)state;
	svc_margins_init(&m);
	assert_int_equal(svc_margin_guess(&m, 0, &facts), 0);
	/* The largest of all kinds in the program. */
	assert_int_equal(svc_margin_guess(&m, 1u << SVC_MARGIN_SORT | 1u << SVC_MARGIN_FFT, &facts),
			 svc_margin_guess(&m, 1u << SVC_MARGIN_FFT, &facts));
	assert_true(svc_margin_guess(&m, 1u << SVC_MARGIN_CONVOLUTION, &facts) > 200 * MIB);
}

static void test_learning(void **state)
{
	uint32_t sort = 1u << SVC_MARGIN_SORT;
	struct svc_margins m;
	uint64_t before;

	(void)state;
	svc_margins_init(&m);
	svc_margin_learn(&m, sort, &facts, 400 * MIB);
	before = svc_margin_guess(&m, sort, &facts);
	assert_true(before > 400 * MIB && before < 600 * MIB);
	svc_margin_learn(&m, sort, &facts, 0);
	assert_true(svc_margin_guess(&m, sort, &facts) < before);
	assert_true(svc_margin_guess(&m, sort, &facts) > before / 2);
	for (int i = 0; i < 100; i++)
		svc_margin_learn(&m, sort, &facts, 40 * MIB);
	before = svc_margin_guess(&m, sort, &facts);
	assert_true(before >= 40 * MIB && before < 60 * MIB);
	/* An outlier has a bound, and a program without arrays teaches nothing. */
	svc_margin_learn(&m, sort, &facts, UINT64_MAX);
	assert_true(svc_margin_guess(&m, sort, &facts) <= 40 * MIB * 32);
	before = svc_margin_guess(&m, sort, &facts);
	svc_margin_learn(&m, sort, &(struct sal_program_facts){ 0 }, 5 * MIB);
	assert_int_equal(svc_margin_guess(&m, sort, &facts), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_guess),
		cmocka_unit_test(test_learning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
