/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canvas - rows of text of a given width, each with a style. The caller puts them on a terminal or
 * into a pipe.
 */
#ifndef SAL_CLI_CANVAS_H
#define SAL_CLI_CANVAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define CLI_ROW_BYTES 1024

enum cli_style {
	CLI_STYLE_PLAIN,
	CLI_STYLE_TITLE,
	CLI_STYLE_HEAD,
	CLI_STYLE_CHOSEN,
	CLI_STYLE_BUSY, /* it runs */
	CLI_STYLE_HELD, /* it waits for something */
	CLI_STYLE_ALERT
};

struct cli_row {
	char text[CLI_ROW_BYTES];
	size_t used;
	enum cli_style style;
};

struct cli_canvas {
	size_t width, height;
	struct cli_row *rows; /* owned; `height` of them */
	size_t count; /* begun */
	bool is_utf8; /* false: it takes ASCII only */
};

/* False: out of memory. */
bool cli_canvas_init(struct cli_canvas *c, size_t width, size_t height, bool is_utf8);
void cli_canvas_fini(struct cli_canvas *c);

/* The next row, or NULL if all are begun. */
struct cli_row *cli_canvas_row(struct cli_canvas *c, enum cli_style style);
static inline size_t cli_canvas_left(const struct cli_canvas *c)
{
	return c->height - c->count;
}

/* Adds text to a row, which may be NULL. Text that does not fit is cut. */
void cli_row_add(struct cli_row *row, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds text that others chose, in exactly so many cells. */
enum cli_side {
	CLI_LEFT,
	CLI_RIGHT
};
void cli_row_cell(const struct cli_canvas *c, struct cli_row *row, const char *text, size_t cells,
		  enum cli_side side);

/* Prints the rows without looks, and without blanks at their ends. */
void cli_canvas_print(const struct cli_canvas *c, FILE *out);

#endif
