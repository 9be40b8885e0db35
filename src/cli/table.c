/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/screen.h"

#define GAP 2 /* blanks between columns */

void cli_table_init(struct cli_table *table, const struct cli_column *columns, size_t count)
{
	size_t i;

	SAL_ASSERT(count > 0 && count <= CLI_COLUMNS_MAX);
	memset(table, 0, sizeof(*table));
	table->columns = columns;
	table->column_count = count;
	for (i = 0; i < count; i++)
		table->widths[i] = cli_screen_cells(columns[i].title);
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
	char *copy = make_room(table) ? cli_screen_text(text, table->columns[column].cells_max)
				      : NULL;

	if (!copy) {
		table->failed = true;
		return;
	}
	table->texts[table->count++] = copy;
	if (cli_screen_cells(copy) > table->widths[column])
		table->widths[column] = cli_screen_cells(copy);
}

static bool is_hidden(const struct cli_table *table, size_t column)
{
	return (table->hidden >> column) & 1u;
}

static size_t last_shown(const struct cli_table *table)
{
	size_t column = table->column_count - 1;

	while (column > 0 && is_hidden(table, column))
		column--;
	return column;
}

static size_t width_shown(const struct cli_table *table)
{
	size_t width = 0, i;

	for (i = 0; i < table->column_count; i++)
		width += is_hidden(table, i) ? 0 : table->widths[i] + GAP;
	return width - GAP;
}

void cli_table_fit(struct cli_table *table, size_t cells)
{
	while (cells > 0 && width_shown(table) > cells) {
		size_t i, worst = 0;
		unsigned spare = 0;

		for (i = 0; i < table->column_count; i++) {
			if (is_hidden(table, i) || table->columns[i].spare <= spare)
				continue;
			spare = table->columns[i].spare;
			worst = i;
		}
		if (spare == 0)
			return;
		table->hidden |= 1u << worst;
	}
}

static void print_text(const struct cli_table *table, size_t column, const char *text, FILE *out)
{
	int blanks = (int)(table->widths[column] - cli_screen_cells(text));
	bool is_last = column == last_shown(table);

	if (is_hidden(table, column))
		return;
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
