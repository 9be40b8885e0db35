/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nearest - finds the known name that a misspelt word most resembles, and the sentence about a bad
 * option.
 *
 * Threads: any. There is no shared state.
 */
#ifndef SAL_BASE_NEAREST_H
#define SAL_BASE_NEAREST_H

#include <stddef.h>

struct option;
struct sal_err;

/* Starts as { .word = the user's word }. */
struct sal_nearest {
	const char *word; /* borrowed: the caller's */
	char name[64]; /* the nearest name so far; "" if none is near */
	size_t distance;
};

/*
 * Compares the word with one more name. A name is near if its distance is at most one edit for
 * every three letters of the word (but at least one). Of equally near names, the first one stays.
 */
void sal_nearest_offer(struct sal_nearest *n, const char *name);

/*
 * The number of letters to insert, delete, replace, or swap with their neighbour. Words are cut at
 * 63 letters.
 */
size_t sal_edit_distance(const char *a, const char *b);

/*
 * Call this right after getopt_long returned `option`, which is '?' or ':'. Puts a sentence about
 * the option at which getopt_long stopped into err. The list of short options must start with ':',
 * so that getopt_long prints nothing itself. Returns -SAL_INVALID_ARGUMENT.
 */
int sal_option_refuse(const struct option *table, int option, char *const *argv,
		      struct sal_err *err);

#endif
