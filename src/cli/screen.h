/* SPDX-License-Identifier: Apache-2.0 */
/*
 * screen - what the user's terminal can show.
 */
#ifndef SAL_CLI_SCREEN_H
#define SAL_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

/* Cells in a line of stdout; 0: stdout is no terminal, and no line needs to fit. */
size_t cli_screen_width(void);

/* Whether the user's locale says that the terminal shows UTF-8. */
bool cli_screen_is_utf8(void);

/*
 * A copy without control characters, at most so many cells wide (0: any width). The caller frees
 * it. NULL: no memory.
 */
char *cli_screen_text(const char *text, size_t cells_max);

/* How many cells a text takes. */
size_t cli_screen_cells(const char *text);

/* How many bytes of it fit into so many cells. */
size_t cli_screen_fit(const char *text, size_t cells);

#endif
