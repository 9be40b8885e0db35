/* SPDX-License-Identifier: Apache-2.0 */
#include "base/words.h"

#include <stdarg.h>
#include <stdio.h>

void sal_words_add(struct sal_words *w, const char *fmt, ...)
{
	size_t room = sizeof(w->at) - w->used;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(w->at + w->used, room, fmt, args);
	va_end(args);
	if (n > 0)
		w->used += (size_t)n < room ? (size_t)n : room - 1;
}
