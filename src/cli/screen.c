/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

size_t cli_screen_width(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return 80;
	return size.ws_col;
}

bool cli_screen_is_utf8(void)
{
	locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
	bool is_utf8 = locale && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;

	if (locale)
		freelocale(locale);
	return is_utf8;
}

/* One character at text: its bytes and its width. Width -1: it cannot be shown. */
static size_t next_char(const char *text, int *out_width)
{
	mbstate_t state = { 0 };
	wchar_t c;
	size_t bytes = mbrtowc(&c, text, strlen(text), &state);

	*out_width = -1;
	if (bytes == 0 ||
	    bytes > strlen(text)) /* 0 cannot happen; the other values mean "invalid" */
		return 1;
	*out_width = wcwidth(c);
	return bytes;
}

size_t cli_screen_cells(const char *text)
{
	size_t width = 0;

	while (*text) {
		int w;

		text += next_char(text, &w);
		width += w < 0 ? 1 : (size_t)w;
	}
	return width;
}

size_t cli_screen_fit(const char *text, size_t cells)
{
	const char *at = text;

	while (*at) {
		int w;
		size_t bytes = next_char(at, &w), width = w < 0 ? 1 : (size_t)w;

		if (width > cells)
			break;
		cells -= width;
		at += bytes;
	}
	return (size_t)(at - text);
}

char *cli_screen_text(const char *text, size_t cells_max)
{
	bool cut = cells_max > 3 && cli_screen_cells(text) > cells_max;
	char *copy = malloc(strlen(text) + sizeof("..."));
	size_t width = 0;
	char *to = copy;

	while (copy && *text) {
		int w;
		size_t bytes = next_char(text, &w);

		width += w < 0 ? 1 : (size_t)w;
		if (cut && width > cells_max - 3)
			break;
		memcpy(to, w < 0 ? "?" : text, w < 0 ? 1 : bytes);
		to += w < 0 ? 1 : bytes;
		text += bytes;
	}
	if (copy)
		memcpy(to, cut ? "..." : "", cut ? sizeof("...") : 1);
	return copy;
}
