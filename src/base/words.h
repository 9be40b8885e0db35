/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words - a sentence that is built piece by piece, in a fixed buffer.
 *
 * Threads: any. There is no shared state.
 */
#ifndef SAL_BASE_WORDS_H
#define SAL_BASE_WORDS_H

#include <stddef.h>

/* { 0 } is the empty sentence. */
struct sal_words {
	char at[800];
	size_t used;
};

/* Text that does not fit is cut. */
void sal_words_add(struct sal_words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
