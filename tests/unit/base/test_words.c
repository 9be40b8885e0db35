/* SPDX-License-Identifier: Apache-2.0 */
/* words: pieces are added, and text that does not fit is cut. */
#include "base/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_pieces(void **state)
{
	struct sal_words w = { 0 };

	(void)state;
	assert_string_equal(w.at, "");
	sal_words_add(&w, "%s (id %d)", "a", 3);
	sal_words_add(&w, ", %s", "b");
	assert_string_equal(w.at, "a (id 3), b");
	assert_int_equal(w.used, strlen(w.at));
}

static void test_too_many(void **state)
{
	struct sal_words w = { 0 };
	int i;

	(void)state;
	for (i = 0; i < 1000; i++)
		sal_words_add(&w, "%s", "words");
	assert_int_equal(strlen(w.at), sizeof(w.at) - 1);
	assert_int_equal(w.used, sizeof(w.at) - 1);
	assert_memory_equal(w.at, "wordswords", 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
