/* SPDX-License-Identifier: Apache-2.0 */
/* screen: foreign text made safe for a terminal, and cut and counted by visible cells. */
#include "cli/screen.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WIDE "\xe4\xb8\xad" /* one character, two cells */
#define UMLAUT "\xc3\xbc" /* one character, one cell */

static void expect_text(const char *text, size_t cells_max, const char *shown)
{
	char *copy = cli_screen_text(text, cells_max);

	assert_non_null(copy);
	assert_string_equal(copy, shown);
	if (cells_max > 3)
		assert_true(cli_screen_cells(copy) <= cells_max);
	free(copy);
}

static void what_a_terminal_would_obey_is_not_shown(void **state)
{
	(void)state;
	expect_text("a\x1b[31mb\nc\x7f", 0, "a?[31mb?c?");
	expect_text("\xff\xfe", 0, "??"); /* not UTF-8 */
	expect_text(UMLAUT "\xc3", 0, UMLAUT "?"); /* half a character */
	expect_text("", 0, "");
}

static void long_texts_are_cut(void **state)
{
	(void)state;
	expect_text("12345678", 8, "12345678");
	expect_text("123456789", 8, "12345...");
	expect_text(WIDE WIDE WIDE WIDE WIDE, 8, WIDE WIDE "...");
	expect_text("123456789", 3, "123456789"); /* no room for anything but dots */
	expect_text("123456789", 4, "1...");
}

static void cells_are_what_is_seen(void **state)
{
	(void)state;
	assert_int_equal(cli_screen_cells(""), 0);
	assert_int_equal(cli_screen_cells("abc"), 3);
	assert_int_equal(cli_screen_cells(UMLAUT UMLAUT), 2);
	assert_int_equal(cli_screen_cells(WIDE "x"), 3);
	assert_int_equal(cli_screen_cells("\xff\x1b"), 2);
}

static void a_part_fits(void **state)
{
	(void)state;
	assert_int_equal(cli_screen_fit("abc", 0), 0);
	assert_int_equal(cli_screen_fit("abc", 2), 2);
	assert_int_equal(cli_screen_fit("abc", 9), 3);
	assert_int_equal(cli_screen_fit(WIDE WIDE, 3), 3);
	assert_int_equal(cli_screen_fit(UMLAUT WIDE, 2), 2);
	assert_int_equal(cli_screen_fit(UMLAUT WIDE, 3), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_terminal_would_obey_is_not_shown),
		cmocka_unit_test(long_texts_are_cut),
		cmocka_unit_test(cells_are_what_is_seen),
		cmocka_unit_test(a_part_fits),
	};

	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
