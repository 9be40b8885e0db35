/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table - aligned columns for people.
 *
 * A cell may hold text that others chose, such as a job's name. Characters that would control the
 * terminal become "?". Columns are aligned by cells on the screen, not by bytes.
 */
#ifndef SAL_CLI_TABLE_H
#define SAL_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define CLI_COLUMNS_MAX 20

struct cli_column {
	const char *title;
	bool right; /* numbers */
	size_t cells_max; /* of the terminal; longer texts are cut. 0: no limit */
	unsigned spare; /* the largest is hidden first if there is no room; 0: never */
};

struct cli_table {
	const struct cli_column *columns; /* borrowed */
	size_t column_count;
	size_t widths[CLI_COLUMNS_MAX]; /* of the widest text so far */
	char **texts; /* owned, row by row */
	size_t count, room;
	unsigned hidden; /* bit i: column i is not shown */
	bool failed; /* out of memory */
};

void cli_table_init(struct cli_table *table, const struct cli_column *columns, size_t count);
void cli_table_fini(struct cli_table *table);

/* Adds the next cell, from left to right and top to bottom. Copies the text. */
void cli_table_add(struct cli_table *table, const char *text);

/* Hides columns until the rest is at most so wide, if possible; 0: hides none. */
void cli_table_fit(struct cli_table *table, size_t cells);

/* Returns false and prints nothing if a text was lost for lack of memory. */
bool cli_table_print(const struct cli_table *table, FILE *out);

#endif
