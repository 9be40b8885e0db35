/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_words - sentences and refusals.
 */
#include "service/admin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void svc_words_add(struct svc_words *w, const char *fmt, ...)
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

json_t *svc_json_text(const char *text)
{
	json_t *json = json_string(text);
	char *copy, *c;

	if (json)
		return json;
	copy = strdup(text);
	for (c = copy; c && *c; c++)
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	json = json_string(copy ? copy : "?");
	free(copy);
	return json;
}

json_t *svc_refusal(int code, const char *fmt, ...)
{
	char text[sizeof(((struct svc_words *)NULL)->at) + 200];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return json_pack("{s:b, s:s, s:o}", "ok", 0, "code", sal_code_name(code), "error",
			 svc_json_text(text));
}
