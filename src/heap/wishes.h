/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wishes - which results a session reads in its own process, by size.
 *
 * The vendor does not say which block becomes a result, but a loop makes results of the same sizes
 * again and again. A size is wished for when the session has read some results of that size. It is
 * forgotten when many blocks of that size came and none was read.
 *
 * Threads: none. The caller serialises calls.
 */
#ifndef SAL_HEAP_WISHES_H
#define SAL_HEAP_WISHES_H

#include <stdbool.h>
#include <stdint.h>

/* Sizes that a session may wish for. */
#define SAL_WISHES_MAX 4u
/*
 * So many results of a size must have been read. A new readable block costs as much as some ten
 * copies of its bytes, so one or two results do not pay.
 */
#define SAL_WISH_READS 4u
/* So many blocks of a size may come unread. */
#define SAL_WISH_UNREAD_MAX 32u

/* { 0 }: nothing. */
struct sal_wish {
	uint32_t pages;
	uint16_t reads, unread;
};

struct sal_wishes {
	struct sal_wish sizes[SAL_WISHES_MAX];
};

/* The session reads a result of so many pages. */
void sal_wishes_note(struct sal_wishes *w, uint32_t pages);
/* A block of so many pages comes. True: the session is going to read it, as far as we know. */
bool sal_wishes_ask(struct sal_wishes *w, uint32_t pages);

#endif
