/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/wishes.h"

#include <stddef.h>

static struct sal_wish *find(struct sal_wishes *w, uint32_t pages)
{
	for (size_t i = 0; i < SAL_WISHES_MAX; i++)
		if (w->sizes[i].pages == pages)
			return &w->sizes[i];
	return NULL;
}

/* A new size takes the place of the one that was read least. */
static struct sal_wish *replace(struct sal_wishes *w, uint32_t pages)
{
	struct sal_wish *least = &w->sizes[0];

	for (size_t i = 1; i < SAL_WISHES_MAX; i++)
		if (w->sizes[i].reads < least->reads)
			least = &w->sizes[i];
	if (least->reads >= SAL_WISH_READS)
		least->reads--; /* the next new size gets its place */
	else
		*least = (struct sal_wish){ .pages = pages };
	return least;
}

void sal_wishes_note(struct sal_wishes *w, uint32_t pages)
{
	struct sal_wish *wish = find(w, pages);

	if (!wish)
		wish = replace(w, pages);
	if (wish->pages != pages)
		return;
	wish->unread = 0;
	if (wish->reads < 2 * SAL_WISH_READS)
		wish->reads++;
}

bool sal_wishes_ask(struct sal_wishes *w, uint32_t pages)
{
	struct sal_wish *wish = find(w, pages);

	if (!wish || wish->reads < SAL_WISH_READS)
		return false;
	if (++wish->unread <= SAL_WISH_UNREAD_MAX)
		return true;
	*wish = (struct sal_wish){ 0 };
	return false;
}
