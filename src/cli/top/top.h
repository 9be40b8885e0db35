/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top - what the files of `salus top` share.
 *
 *     cmd/top.c      options, the loop
 *     top/model.c    the daemon's answers, and what changed between them
 *     top/frame.c    one frame as rows of text: the screen's and `--once` are the same
 *     top/jobs.c     the table of jobs in it
 *     top/keys.c     what a key does
 *     top/terminal.c   the terminal (ncurses)
 *
 * All numbers come from the daemon: shares and rates are differences of its counters over its own
 * clock.
 */
#ifndef SAL_CLI_TOP_H
#define SAL_CLI_TOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/top/canvas.h"

#define CLI_TOP_WINDOW_S 5.0
#define CLI_TOP_SAMPLES 64
#define CLI_TOP_LANES 64

/* Counters that only grow, as they were at some moments; the last CLI_TOP_SAMPLES of them. */
struct cli_meter {
	struct cli_reading {
		double now_s, used_s, iterations;
	} at[CLI_TOP_SAMPLES];
	size_t count; /* ever taken */
};

/* One that comes sooner than least_s after the last is passed over. */
void cli_meter_add(struct cli_meter *m, struct cli_reading reading, double least_s);

/* How much they grew in the last CLI_TOP_WINDOW_S; false while there is only one reading. */
bool cli_meter_growth(const struct cli_meter *m, struct cli_reading *out);

/*
 * Share of the time between the n-th last reading (0: the last) and its predecessor; < 0: unknown.
 */
double cli_meter_share(const struct cli_meter *m, size_t n);

struct cli_top_job {
	uint64_t id;
	const json_t *session; /* borrowed: top->reply */
	double due; /* share of its weight among the jobs with work; < 0: it has none */
	struct cli_meter meter;
};

enum cli_top_sort {
	CLI_SORT_ID,
	CLI_SORT_SHARE,
	CLI_SORT_WAIT,
	CLI_SORT_MEMORY,
	CLI_SORT_NAME,
	CLI_SORTS
};

enum cli_top_mode {
	CLI_TOP_LIST,
	CLI_TOP_KILL, /* asks whether */
	CLI_TOP_POLICY, /* asks which */
	CLI_TOP_HELP
};

struct cli_top {
	json_t *reply; /* owned: the last answer to "ps" */
	struct cli_top_job *jobs; /* owned; sorted */
	size_t job_count;
	struct cli_meter device, lanes[CLI_TOP_LANES];
	enum cli_top_sort sort;
	enum cli_top_mode mode;
	uint64_t chosen; /* id of a job; 0: none */
	uint64_t victim; /* whom CLI_TOP_KILL asks about */
	json_t *policies; /* owned: the answer that CLI_TOP_POLICY shows */
	size_t policy; /* chosen in it */
	char message[200]; /* what the last key led to */
	double least_s; /* between two readings that count */
	bool is_utf8;
	bool quit;
};

void cli_top_fini(struct cli_top *top);

/* The daemon's next answer. False: out of memory. */
bool cli_top_update(struct cli_top *top, json_t *take_reply);
void cli_top_sort(struct cli_top *top);
const char *cli_top_sort_name(enum cli_top_sort sort);

/* NULL if it is gone. */
const struct cli_top_job *cli_top_find(const struct cli_top *top, uint64_t id);
void cli_top_move(struct cli_top *top, int by);

/* All of it. interactive: with the chosen job, the message and the keys. */
void cli_top_draw(const struct cli_top *top, struct cli_canvas *canvas, bool interactive);

/* The table, on what is left but for `below` rows; scrolled so that the chosen one shows. */
void cli_top_draw_jobs(const struct cli_top *top, struct cli_canvas *canvas, size_t below,
		       bool interactive);

enum cli_key {
	CLI_KEY_NONE,
	CLI_KEY_UP,
	CLI_KEY_DOWN,
	CLI_KEY_ENTER,
	CLI_KEY_ESCAPE,
	CLI_KEY_RESIZE,
	CLI_KEY_TEXT = 0x100 /* + the character */
};

/* May ask the daemon; what came of it is in the message. */
void cli_top_key(struct cli_top *top, int key);

struct cli_terminal;

/* NULL if there is none, or of an unknown kind. */
struct cli_terminal *cli_terminal_open(void);
/* As it was before. Accepts NULL. */
void cli_terminal_close(struct cli_terminal *t);
void cli_terminal_size(const struct cli_terminal *t, size_t *out_width, size_t *out_height);
void cli_terminal_show(struct cli_terminal *t, const struct cli_canvas *canvas);
/*
 * The next key, or CLI_KEY_NONE after the wait. *out_signal: a signal that ends the program, or 0.
 */
int cli_terminal_key(struct cli_terminal *t, int wait_ms, int *out_signal);

#endif
