/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/err.h"

#define GAP 2 /* blanks between columns */

/* One character at text: its bytes and its width. A width of -1 cannot be shown. */
static size_t next_char(const char *text, int *out_width)
{
	mbstate_t state = { 0 };
	wchar_t c;
	size_t bytes = mbrtowc(&c, text, strlen(text), &state);

	*out_width = -1;
	if (bytes == 0 || bytes > strlen(text)) /* 0 does not happen, the others say "invalid" */
		return 1;
	*out_width = wcwidth(c);
	return bytes;
}

static size_t width_of(const char *text)
{
	size_t width = 0;

	while (*text) {
		int w;

		text += next_char(text, &w);
		width += w < 0 ? 1 : (size_t)w;
	}
	return width;
}

/* A copy that is safe to show, and no wider than that. */
static char *clean_copy(const char *text, size_t cells_max)
{
	bool cut = cells_max > 3 && width_of(text) > cells_max;
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

void cli_table_init(struct cli_table *table, const struct cli_column *columns, size_t count)
{
	size_t i;

	SAL_ASSERT(count > 0 && count <= CLI_COLUMNS_MAX);
	memset(table, 0, sizeof(*table));
	table->columns = columns;
	table->column_count = count;
	for (i = 0; i < count; i++)
		table->widths[i] = width_of(columns[i].title);
}

void cli_table_fini(struct cli_table *table)
{
	size_t i;

	for (i = 0; i < table->count; i++)
		free(table->texts[i]);
	free(table->texts);
	memset(table, 0, sizeof(*table));
}

static bool make_room(struct cli_table *table)
{
	size_t room = table->room ? table->room * 2 : 64;
	char **texts;

	if (table->count < table->room)
		return true;
	texts = realloc(table->texts, room * sizeof(*texts));
	if (!texts)
		return false;
	table->texts = texts;
	table->room = room;
	return true;
}

void cli_table_add(struct cli_table *table, const char *text)
{
	size_t column = table->count % table->column_count;
	char *copy = make_room(table) ? clean_copy(text, table->columns[column].cells_max) : NULL;

	if (!copy) {
		table->failed = true;
		return;
	}
	table->texts[table->count++] = copy;
	if (width_of(copy) > table->widths[column])
		table->widths[column] = width_of(copy);
}

static void print_text(const struct cli_table *table, size_t column, const char *text, FILE *out)
{
	int blanks = (int)(table->widths[column] - width_of(text));
	bool is_last = column + 1 == table->column_count;

	if (table->columns[column].right)
		(void)fprintf(out, "%*s%s", blanks, "", text);
	else
		(void)fprintf(out, "%s%*s", text, is_last ? 0 : blanks, "");
	(void)fprintf(out, "%*s", is_last ? 0 : GAP, "");
	if (is_last)
		(void)fputc('\n', out);
}

bool cli_table_print(const struct cli_table *table, FILE *out)
{
	size_t i;

	SAL_ASSERT(table->column_count > 0);
	if (table->failed)
		return false;
	for (i = 0; i < table->column_count; i++)
		print_text(table, i, table->columns[i].title, out);
	for (i = 0; i < table->count; i++)
		print_text(table, i % table->column_count, table->texts[i], out);
	return true;
}
