/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/canvas.h"

#include <stdarg.h>
#include <stdlib.h>

#include "cli/screen.h"

bool cli_canvas_init(struct cli_canvas *c, size_t width, size_t height, bool is_utf8)
{
	*c = (struct cli_canvas){ .width = width, .height = height, .is_utf8 = is_utf8 };
	c->rows = calloc(height ? height : 1, sizeof(*c->rows));
	return c->rows != NULL;
}

void cli_canvas_fini(struct cli_canvas *c)
{
	free(c->rows);
	*c = (struct cli_canvas){ 0 };
}

struct cli_row *cli_canvas_row(struct cli_canvas *c, enum cli_style style)
{
	struct cli_row *row = c->count < c->height ? &c->rows[c->count++] : NULL;

	if (row)
		row->style = style;
	return row;
}

void cli_row_add(struct cli_row *row, const char *fmt, ...)
{
	size_t room = row ? sizeof(row->text) - row->used : 0;
	va_list args;
	int n;

	if (!row)
		return;
	va_start(args, fmt);
	n = vsnprintf(row->text + row->used, room, fmt, args);
	va_end(args);
	if (n > 0)
		row->used += (size_t)n < room ? (size_t)n : room - 1;
}

void cli_row_cell(const struct cli_canvas *c, struct cli_row *row, const char *text, size_t cells,
		  enum cli_side side)
{
	char *clean = cli_screen_text(text, cells);
	size_t width = clean ? cli_screen_cells(clean) : 0;
	int blanks = width < cells ? (int)(cells - width) : 0;
	char *b;

	for (b = clean; b && *b && !c->is_utf8; b++)
		if ((unsigned char)*b >= 0x80)
			*b = '?';
	if (side == CLI_RIGHT)
		cli_row_add(row, "%*s%s", blanks, "", clean ? clean : "");
	else
		cli_row_add(row, "%s%*s", clean ? clean : "", blanks, "");
	free(clean);
}

void cli_canvas_print(const struct cli_canvas *c, FILE *out)
{
	size_t i;

	for (i = 0; i < c->count; i++) {
		size_t end = c->rows[i].used;

		while (end > 0 && c->rows[i].text[end - 1] == ' ')
			end--;
		(void)fprintf(out, "%.*s\n", (int)end, c->rows[i].text);
	}
}
