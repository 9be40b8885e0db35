/* SPDX-License-Identifier: Apache-2.0 */
/* nearest: counts edits, finds near names and not far ones, names bad options. */
#include "base/nearest.h"

#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

static void edits_are_counted(void **state)
{
	(void)state;
	assert_int_equal(sal_edit_distance("", ""), 0);
	assert_int_equal(sal_edit_distance("pause", "pause"), 0);
	assert_int_equal(sal_edit_distance("", "abc"), 3);
	assert_int_equal(sal_edit_distance("abc", ""), 3);
	assert_int_equal(sal_edit_distance("pasue", "pause"), 1); /* two letters swapped */
	assert_int_equal(sal_edit_distance("pause", "pasue"), 1);
	assert_int_equal(sal_edit_distance("limit", "limits"), 1);
	assert_int_equal(sal_edit_distance("tpo", "top"), 1);
	assert_int_equal(sal_edit_distance("why", "who"), 1);
	assert_int_equal(sal_edit_distance("kitten", "sitting"), 3);
}

static void long_words_are_cut(void **state)
{
	char a[200], b[200];

	(void)state;
	memset(a, 'a', sizeof(a) - 1);
	a[sizeof(a) - 1] = '\0';
	memset(b, 'b', sizeof(b) - 1);
	b[sizeof(b) - 1] = '\0';
	assert_int_equal(sal_edit_distance(a, b), 63);
}

static const char *nearest(const char *word)
{
	static const char *const names[] = { "ps", "top", "pause", "resume", "policy", "limits" };
	static struct sal_nearest n; /* the result points into it */
	size_t i;

	n = (struct sal_nearest){ .word = word };
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		sal_nearest_offer(&n, names[i]);
	return n.name;
}

static void the_nearest_is_found(void **state)
{
	(void)state;
	assert_string_equal(nearest("pasue"), "pause");
	assert_string_equal(nearest("resum"), "resume");
	assert_string_equal(nearest("plicy"), "policy");
	assert_string_equal(nearest("tops"), "top");
	assert_string_equal(nearest("p"), "ps");
}

static void what_is_far_is_not_suggested(void **state)
{
	(void)state;
	assert_string_equal(nearest("train"), "");
	assert_string_equal(nearest("xx"), "");
	assert_string_equal(nearest("paws"), "");
	assert_string_equal(nearest(""), "");
}

static const struct option table[] = {
	{ "memory", required_argument, NULL, 1000 }, { "json", no_argument, NULL, 1001 },
	{ "lanes", required_argument, NULL, 1002 },  { "limit", required_argument, NULL, 1003 },
	{ "output", required_argument, NULL, 'o' },  { NULL, 0, NULL, 0 },
};

/* Checks the sentence about the only bad option of a command line. */
static void complains(const char *word, const char *expected)
{
	char text[40];
	char *argv[] = { (char *)"salus", text, NULL };
	struct sal_err err = { 0 };
	int option;

	(void)snprintf(text, sizeof(text), "%s", word);
	optind = 0;
	option = getopt_long(2, argv, ":o:", table, NULL);
	assert_int_equal(sal_option_refuse(table, option, argv, &err), -SAL_INVALID_ARGUMENT);
	assert_string_equal(err.text, expected);
}

static void bad_options_are_named(void **state)
{
	(void)state;
	complains("--memroy=1", "there is no option --memroy; did you mean --memory?");
	complains("--policy", "there is no option --policy");
	complains("--memory", "--memory needs a value");
	complains("-o", "-o needs a value");
	complains("--json=3", "--json takes no value");
	complains("--l", "--l is ambiguous: several options begin with it");
	complains("-x", "there is no option -x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edits_are_counted),
		cmocka_unit_test(long_words_are_cut),
		cmocka_unit_test(the_nearest_is_found),
		cmocka_unit_test(what_is_far_is_not_suggested),
		cmocka_unit_test(bad_options_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
