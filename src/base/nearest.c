/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define LETTERS_MAX 63
#define LETTERS_PER_EDIT 3

/* The three rows of the table of distances that one step needs. */
struct rows {
	size_t before[LETTERS_MAX + 1], above[LETTERS_MAX + 1], row[LETTERS_MAX + 1];
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * Fills the row of a[i]: the number of edits from the first i + 1 letters of a to each prefix of b.
 */
static void fill_row(struct rows *t, const char *a, size_t i, const char *b, size_t b_length)
{
	size_t j;

	t->row[0] = i + 1;
	for (j = 0; j < b_length; j++) {
		t->row[j + 1] =
			least(least(t->row[j], t->above[j + 1]) + 1, t->above[j] + (a[i] != b[j]));
		if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
			t->row[j + 1] = least(t->row[j + 1], t->before[j - 1] + 1);
	}
}

size_t sal_edit_distance(const char *a, const char *b)
{
	size_t a_length = strnlen(a, LETTERS_MAX), b_length = strnlen(b, LETTERS_MAX), i;
	struct rows t = { 0 };

	for (i = 0; i <= b_length; i++)
		t.row[i] = i;
	for (i = 0; i < a_length; i++) {
		memcpy(t.before, t.above, sizeof(t.before));
		memcpy(t.above, t.row, sizeof(t.above));
		fill_row(&t, a, i, b, b_length);
	}
	return t.row[b_length];
}

void sal_nearest_offer(struct sal_nearest *n, const char *name)
{
	size_t distance = sal_edit_distance(n->word, name);
	size_t most = strlen(n->word) / LETTERS_PER_EDIT;

	if (distance > (most ? most : 1) || distance >= strlen(name))
		return;
	if (n->name[0] && distance >= n->distance)
		return;
	(void)snprintf(n->name, sizeof(n->name), "%s", name);
	n->distance = distance;
}

/* The number of options in the table that begin with the name. */
static int count_meant(const struct option *table, const char *name)
{
	int count = 0;

	for (; table->name; table++)
		count += strncmp(table->name, name, strlen(name)) == 0;
	return count;
}

static int refuse_unknown(const struct option *table, const char *word, struct sal_err *err)
{
	char name[LETTERS_MAX + 1];
	struct sal_nearest near = { .word = name };

	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	if (*name && count_meant(table, name) > 1)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "--%s is ambiguous: several options begin with it", name);
	for (; table->name; table++)
		sal_nearest_offer(&near, table->name);
	if (near.name[0])
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "there is no option --%s; did you mean --%s?", name, near.name);
	return sal_err_set(err, SAL_INVALID_ARGUMENT, "there is no option --%s", name);
}

int sal_option_refuse(const struct option *table, int option, char *const *argv,
		      struct sal_err *err)
{
	const char *word = argv[optind - 1];

	if (option == ':')
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "%.60s needs a value", word);
	if (strncmp(word, "--", 2) != 0)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "there is no option -%c", optopt);
	if (optopt != 0)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "%.*s takes no value",
				   (int)strcspn(word, "="), word);
	return refuse_unknown(table, word, err);
}
