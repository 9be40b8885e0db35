/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs - the table of jobs: fixed columns, then as much history as the terminal is wide.
 */
#include <string.h>

#include "base/units.h"
#include "cli/ask.h"
#include "cli/top/top.h"

/* Widths at 80 cells. The additional cells of a wider terminal go to name and history. */
#define NAME_CELLS 12
#define NAME_CELLS_MAX 32
#define FIXED_CELLS 60 /* all columns but these two, with their blanks */
#define LEVELS 8

static size_t name_cells(const struct cli_canvas *c)
{
	size_t more = c->width > 80 ? (c->width - 80) / 2 : 0;

	return NAME_CELLS + more < NAME_CELLS_MAX ? NAME_CELLS + more : NAME_CELLS_MAX;
}

static size_t history_cells(const struct cli_canvas *c)
{
	size_t taken = FIXED_CELLS + name_cells(c);
	size_t left = c->width > taken ? c->width - taken : 0;

	return left < CLI_TOP_SAMPLES - 1 ? left : CLI_TOP_SAMPLES - 1;
}

/* 15.6G for 15.6GiB. */
static const char *short_bytes(double bytes, char *buf, size_t size)
{
	char *unit;

	if (!(bytes >= 0 && bytes < 9e18))
		return "-";
	(void)sal_bytes_format((uint64_t)bytes, buf, size);
	unit = strchr(buf, 'i');
	if (!unit)
		unit = strchr(buf, 'B');
	if (unit)
		*unit = '\0';
	return buf;
}

static void add_percent(const struct cli_canvas *c, struct cli_row *row, double share)
{
	char text[16] = "-";

	if (share >= 0)
		(void)snprintf(text, sizeof(text), "%.0f%%", share < 9.99 ? share * 100 : 999);
	cli_row_cell(c, row, text, 4, CLI_RIGHT);
	cli_row_add(row, " ");
}

/* The share of each interval, the last one at the right. */
static void add_history(const struct cli_canvas *c, struct cli_row *row,
			const struct cli_meter *meter)
{
	static const char *const blocks[LEVELS + 1] = {
		" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"
	};
	static const char *const plain[LEVELS + 1] = { " ", ".", ":", "-", "=", "+", "*", "#", "@" };
	size_t n;

	for (n = history_cells(c); n-- > 0;) {
		double share = cli_meter_share(meter, n);
		size_t level = share >= 1  ? LEVELS
			       : share > 0 ? 1 + (size_t)(share * (LEVELS - 1))
					   : 0;

		cli_row_add(row, "%s", c->is_utf8 ? blocks[level] : plain[level]);
	}
}

static void add_speed(const struct cli_canvas *c, struct cli_row *row,
		      const struct cli_top_job *job)
{
	struct cli_reading grown = { 0 };
	char rate[24] = "-", each[SAL_UNITS_TEXT] = "-";

	if (cli_meter_growth(&job->meter, &grown))
		(void)snprintf(rate, sizeof(rate), "%.*f",
			       grown.iterations < 10 * grown.now_s ? 1 : 0,
			       grown.iterations / grown.now_s);
	if (grown.iterations < 1) { /* nothing ran lately: use the totals */
		grown.used_s = cli_json_number(job->session, "used_s");
		grown.iterations = cli_json_number(job->session, "iterations");
	}
	if (grown.iterations > 0)
		(void)sal_duration_format(cli_seconds_to_ns(grown.used_s / grown.iterations), each,
					  sizeof(each));
	cli_row_cell(c, row, rate, 5, CLI_RIGHT);
	cli_row_add(row, " ");
	cli_row_cell(c, row, each, 6, CLI_RIGHT);
	cli_row_add(row, " ");
}

static void add_numbers(const struct cli_canvas *c, struct cli_row *row,
			const struct cli_top_job *job)
{
	const json_t *s = job->session;
	double lane = cli_json_number(s, "lane");
	struct cli_reading grown;
	char text[SAL_UNITS_TEXT] = "-";

	if (lane >= 0)
		(void)snprintf(text, sizeof(text), "%.0f", lane);
	cli_row_cell(c, row, text, 2, CLI_RIGHT);
	cli_row_add(row, " ");
	add_percent(c, row,
		    cli_meter_growth(&job->meter, &grown) ? grown.used_s / grown.now_s : -1);
	add_percent(c, row, job->due);
	cli_row_cell(c, row,
		     sal_duration_format(cli_seconds_to_ns(cli_json_number(s, "waited_s")), text,
					 sizeof(text)),
		     7, CLI_RIGHT);
	cli_row_add(row, " ");
	cli_row_cell(c, row, short_bytes(cli_json_number(s, "held_bytes"), text, sizeof(text)), 5,
		     CLI_RIGHT);
	cli_row_add(row, " ");
	cli_row_cell(c, row, short_bytes(cli_json_number(s, "ephem_bytes"), text, sizeof(text)), 5,
		     CLI_RIGHT);
	cli_row_add(row, " ");
}

static enum cli_style style_of(const char *state)
{
	if (strcmp(state, "running") == 0)
		return CLI_STYLE_BUSY;
	if (strcmp(state, "idle") == 0 || strcmp(state, "ready") == 0)
		return CLI_STYLE_PLAIN;
	return strcmp(state, "refused") == 0 ? CLI_STYLE_ALERT : CLI_STYLE_HELD;
}

static void draw_job(const struct cli_top *top, struct cli_canvas *c, const struct cli_top_job *job,
		     bool interactive)
{
	const char *state = cli_json_text(job->session, "state");
	bool chosen = interactive && job->id == top->chosen;
	struct cli_row *row = cli_canvas_row(c, chosen ? CLI_STYLE_CHOSEN : style_of(state));
	char id[24];

	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)job->id);
	cli_row_cell(c, row, id, 4, CLI_RIGHT);
	cli_row_add(row, " ");
	cli_row_cell(c, row, cli_json_text(job->session, "name"), name_cells(c), CLI_LEFT);
	cli_row_add(row, " ");
	if (strncmp(state, "paging", strlen("paging")) == 0) /* the whole word does not fit */
		state = strcmp(state, "paging out") == 0 ? "pag.out" : "pag.in";
	cli_row_cell(c, row, state, 7, CLI_LEFT);
	cli_row_add(row, " ");
	add_numbers(c, row, job);
	add_speed(c, row, job);
	add_history(c, row, &job->meter);
}

void cli_top_draw_jobs(const struct cli_top *top, struct cli_canvas *canvas, size_t below,
		       bool interactive)
{
	const struct cli_top_job *chosen = cli_top_find(top, top->chosen);
	struct cli_row *head = cli_canvas_row(canvas, CLI_STYLE_HEAD);
	size_t rows = cli_canvas_left(canvas) > below ? cli_canvas_left(canvas) - below : 0;
	size_t at = chosen ? (size_t)(chosen - top->jobs) : 0;
	size_t first = at >= rows ? at - rows + 1 : 0, i;

	cli_row_add(head, "%4s %-*s %-7s %2s %4s %4s %7s %5s %5s %5s %6s history", "id",
		    (int)name_cells(canvas), "name", "state", "ln", "got", "due", "waited", "P",
		    "E", "it/s", "iter");
	if (top->job_count == 0)
		cli_row_add(cli_canvas_row(canvas, CLI_STYLE_PLAIN),
			    "no jobs; `salus run -- CMD` starts one");
	for (i = first; i < top->job_count && i < first + rows; i++)
		draw_job(top, canvas, &top->jobs[i], interactive);
}
