/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nearest - which known name a misspelt word was meant to be, and the sentence about a bad option.
 *
 * Threads: any. There is no shared state.
 */
#ifndef SAL_BASE_NEAREST_H
#define SAL_BASE_NEAREST_H

#include <stddef.h>

struct option;
struct sal_err;

/* Starts as { .word = what was typed }. */
struct sal_nearest {
	const char *word; /* borrowed: the caller's */
	char name[64]; /* the nearest name so far; "" if none is near */
	size_t distance;
};

/*
 * Compare the word with one more name. A name is near if at most one edit per three letters of the
 * word (but at least one) leads to it; of equally near names the first one stays.
 */
void sal_nearest_offer(struct sal_nearest *n, const char *name);

/* Letters to insert, delete, replace, or swap with their neighbour. Words are cut at 63 letters. */
size_t sal_edit_distance(const char *a, const char *b);

/*
 * Right after getopt_long returned `option`, which is '?' or ':': says in err what is wrong with the
 * option it stopped at. Silence getopt_long first, by a ':' that starts the list of short options.
 * Returns -SAL_INVALID_ARGUMENT.
 */
int sal_option_refuse(const struct option *table, int option, char *const *argv,
		      struct sal_err *err);

#endif
