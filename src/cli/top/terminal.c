/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal - the terminal, through ncurses. Signals that end the program are read, not caught, so
 * that the terminal is always restored first.
 */
#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/sys/fd.h"
#include "cli/screen.h"
#include "cli/top/top.h"

#define ESCAPE_MS 25
#define ESCAPE 27

struct cli_terminal {
	SCREEN *screen; /* owned */
	int signals; /* owned; a signalfd */
	sigset_t before; /* what was blocked */
};

static void choose_colours(void)
{
	if (!has_colors() || getenv("NO_COLOR") || start_color() == ERR)
		return;
	(void)use_default_colors();
	(void)init_pair(CLI_STYLE_BUSY, COLOR_GREEN, -1);
	(void)init_pair(CLI_STYLE_HELD, COLOR_YELLOW, -1);
	(void)init_pair(CLI_STYLE_ALERT, COLOR_RED, -1);
}

struct cli_terminal *cli_terminal_open(void)
{
	struct cli_terminal *t = calloc(1, sizeof(*t));
	sigset_t ends;

	if (!t)
		return NULL;
	(void)sigemptyset(&ends);
	(void)sigaddset(&ends, SIGHUP);
	(void)sigaddset(&ends, SIGINT);
	(void)sigaddset(&ends, SIGTERM);
	(void)sigaddset(&ends, SIGQUIT);
	(void)sigprocmask(SIG_BLOCK, &ends, &t->before);
	t->signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	t->screen = t->signals < 0 ? NULL : newterm(NULL, stdout, stdin);
	if (!t->screen) {
		cli_terminal_close(t);
		return NULL;
	}
	choose_colours();
	(void)cbreak();
	(void)noecho();
	(void)nonl();
	(void)keypad(stdscr, TRUE);
	(void)nodelay(stdscr, TRUE);
	(void)set_escdelay(ESCAPE_MS);
	(void)curs_set(0);
	return t;
}

void cli_terminal_close(struct cli_terminal *t)
{
	if (!t)
		return;
	if (t->screen) {
		(void)endwin();
		delscreen(t->screen);
	}
	sal_close(&t->signals);
	(void)sigprocmask(SIG_SETMASK, &t->before, NULL);
	free(t);
}

void cli_terminal_size(const struct cli_terminal *t, size_t *out_width, size_t *out_height)
{
	(void)t;
	*out_width = (size_t)getmaxx(stdscr);
	*out_height = (size_t)getmaxy(stdscr);
}

static attr_t attributes_of(enum cli_style style)
{
	switch (style) {
	case CLI_STYLE_TITLE:
		return A_BOLD;
	case CLI_STYLE_HEAD:
		return A_REVERSE;
	case CLI_STYLE_CHOSEN:
		return A_REVERSE | A_BOLD;
	case CLI_STYLE_BUSY:
	case CLI_STYLE_HELD:
	case CLI_STYLE_ALERT:
		return COLOR_PAIR(style);
	default:
		return A_NORMAL;
	}
}

void cli_terminal_show(struct cli_terminal *t, const struct cli_canvas *canvas)
{
	size_t i;

	(void)t;
	(void)erase();
	for (i = 0; i < canvas->count; i++) {
		const struct cli_row *row = &canvas->rows[i];
		attr_t attributes = attributes_of(row->style);

		(void)move((int)i, 0);
		(void)attrset(attributes);
		(void)addnstr(row->text, (int)cli_screen_fit(row->text, canvas->width));
		if (row->style == CLI_STYLE_HEAD || row->style == CLI_STYLE_CHOSEN)
			(void)mvchgat((int)i, 0, -1, attributes, 0, NULL);
	}
	(void)attrset(A_NORMAL);
	(void)refresh();
}

static int key_of(int c)
{
	switch (c) {
	case ERR:
		return CLI_KEY_NONE;
	case KEY_UP:
		return CLI_KEY_UP;
	case KEY_DOWN:
		return CLI_KEY_DOWN;
	case KEY_ENTER:
	case '\r':
	case '\n':
		return CLI_KEY_ENTER;
	case KEY_RESIZE:
		return CLI_KEY_RESIZE;
	case ESCAPE:
		return CLI_KEY_ESCAPE;
	default:
		return c >= ' ' && c < 0x7f ? CLI_KEY_TEXT + c : CLI_KEY_NONE;
	}
}

int cli_terminal_key(struct cli_terminal *t, int wait_ms, int *out_signal)
{
	struct pollfd ready[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
				   { .fd = t->signals, .events = POLLIN } };
	struct signalfd_siginfo info;
	int key = key_of(getch()); /* a key may wait inside ncurses, or the size changed */

	*out_signal = 0;
	if (key != CLI_KEY_NONE)
		return key;
	if (poll(ready, 2, wait_ms) < 0 && errno != EINTR)
		*out_signal = SIGHUP;
	if (ready[1].revents && read(t->signals, &info, sizeof(info)) == sizeof(info))
		*out_signal = (int)info.ssi_signo;
	else if (ready[0].revents & (POLLHUP | POLLERR | POLLNVAL))
		*out_signal = SIGHUP;
	return key_of(getch());
}
