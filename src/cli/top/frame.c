/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame - one frame: the device, its lanes and the jobs, or a question.
 */
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "cli/ask.h"
#include "cli/field.h"
#include "cli/memory_map.h"
#include "cli/screen.h"
#include "cli/top/top.h"

#define BUSY_CELLS 16
#define MAP_CELLS_LEAST 8
#define WIDTH_LEAST 40
#define HEIGHT_LEAST 8
#define NAME_CELLS_MAX 32

static void draw_title(const struct cli_top *top, struct cli_canvas *c)
{
	const json_t *device = json_object_get(top->reply, "device");
	struct cli_row *row = cli_canvas_row(c, CLI_STYLE_TITLE);
	char up[SAL_UNITS_TEXT];

	cli_row_add(row, "salus top: ");
	cli_row_cell(c, row, cli_json_text(device, "platform"),
		     strlen(cli_json_text(device, "platform")), CLI_LEFT);
	cli_row_add(row, ", policy %s, %zu of %.0f lanes, %zu job%s, up %s",
		    cli_json_text(device, "policy"),
		    json_array_size(json_object_get(top->reply, "lanes")),
		    cli_json_number(device, "lane_limit"), top->job_count,
		    top->job_count == 1 ? "" : "s",
		    cli_number_text(cli_json_number(device, "uptime_s"), CLI_SECONDS, up,
				    sizeof(up)));
}

/* Of the time of all lanes that are open. */
static double busy_share(const struct cli_top *top)
{
	size_t lanes = json_array_size(json_object_get(top->reply, "lanes"));
	struct cli_reading grown;
	double share;

	if (!cli_meter_growth(&top->device, &grown))
		return -1;
	share = grown.used_s / grown.now_s / (double)(lanes ? lanes : 1);
	return share < 1 ? share : 1;
}

static void draw_busy(const struct cli_top *top, struct cli_canvas *c, struct cli_row *row)
{
	double share = busy_share(top);
	size_t i, full = share > 0 ? (size_t)(share * BUSY_CELLS + 0.5) : 0;

	cli_row_add(row, "busy [");
	for (i = 0; i < BUSY_CELLS; i++)
		cli_row_add(row, "%s",
			    cli_map_glyph(i < full ? CLI_MAP_SESSION : CLI_MAP_FREE, c->is_utf8));
	if (share < 0)
		cli_row_add(row, "]    - ");
	else
		cli_row_add(row, "] %3.0f%% ", share * 100);
}

/* "memory [map] 2.1GiB P + 512MiB E of 8GiB": fills the rest of the row, or a row of its own. */
static void draw_memory(const struct cli_top *top, struct cli_canvas *c, struct cli_row *row)
{
	const json_t *device = json_object_get(top->reply, "device");
	char texts[3][SAL_UNITS_TEXT], numbers[3 * SAL_UNITS_TEXT + 16];
	struct cli_map map;
	size_t i, taken, busy = BUSY_CELLS + strlen("busy [] 100%   ");

	(void)snprintf(numbers, sizeof(numbers), "] %s P + %s E of %s",
		       cli_number_text(cli_json_number(device, "persist_bytes"), CLI_BYTES,
				       texts[0], SAL_UNITS_TEXT),
		       cli_number_text(cli_json_number(device, "lane_sum_bytes"), CLI_BYTES,
				       texts[1], SAL_UNITS_TEXT),
		       cli_number_text(cli_json_number(device, "capacity_bytes"), CLI_BYTES,
				       texts[2], SAL_UNITS_TEXT));
	taken = strlen("memory [") + strlen(numbers);
	if (c->width < busy + taken + MAP_CELLS_LEAST) {
		row = cli_canvas_row(c, CLI_STYLE_PLAIN);
	} else {
		taken += busy;
		cli_row_add(row, "  ");
	}
	cli_map_make(&map, top->reply, c->width > taken ? c->width - taken : 0);
	cli_row_add(row, "memory [");
	for (i = 0; i < map.cells; i++)
		cli_row_add(row, "%s", cli_map_glyph(map.part[i], c->is_utf8));
	cli_row_add(row, "%s", numbers);
}

static void add_name(const struct cli_canvas *c, struct cli_row *row, const struct cli_top_job *job)
{
	const char *name = job ? cli_json_text(job->session, "name") : "one that has ended";
	size_t cells = cli_screen_cells(name);

	cli_row_cell(c, row, name, cells < NAME_CELLS_MAX ? cells : NAME_CELLS_MAX, CLI_LEFT);
}

static void draw_lane(const struct cli_top *top, struct cli_canvas *c, const json_t *lane)
{
	const json_t *running = json_object_get(lane, "running");
	double index = cli_json_number(lane, "index");
	struct cli_row *row = cli_canvas_row(c, CLI_STYLE_PLAIN);
	const struct cli_top_job *job = NULL;
	struct cli_reading grown;
	char bytes[SAL_UNITS_TEXT], busy[24] = "-";
	size_t members = json_array_size(json_object_get(lane, "sessions"));

	if (index >= 0 && index < CLI_TOP_LANES &&
	    cli_meter_growth(&top->lanes[(size_t)index], &grown))
		(void)snprintf(busy, sizeof(busy), "%.0f%%",
			       grown.used_s < grown.now_s ? 100 * grown.used_s / grown.now_s : 100);
	cli_row_add(row, "lane %.0f %9s E, busy %4s, %zu job%s", index,
		    cli_number_text(cli_json_number(lane, "bytes"), CLI_BYTES, bytes,
				    sizeof(bytes)),
		    busy, members, members == 1 ? "" : "s");
	if (!json_is_integer(running)) {
		cli_row_add(row, ", at rest");
		return;
	}
	job = cli_top_find(top, (uint64_t)json_integer_value(running));
	cli_row_add(row, ", runs ");
	add_name(c, row, job);
}

static void draw_gain(const struct cli_top *top, struct cli_canvas *c)
{
	char gain[CLI_GAIN_TEXT];

	if (*cli_gain_text(json_object_get(top->reply, "device"), gain, sizeof(gain)))
		cli_row_add(cli_canvas_row(c, CLI_STYLE_PLAIN), "%s", gain);
}

/* At most a quarter of the canvas. */
static void draw_lanes(const struct cli_top *top, struct cli_canvas *c)
{
	const json_t *lanes = json_object_get(top->reply, "lanes");
	size_t count = json_array_size(lanes), most = c->height / 4, i;

	for (i = 0; i < count && (i + 1 < most || count <= most); i++)
		draw_lane(top, c, json_array_get(lanes, i));
	if (i < count)
		cli_row_add(cli_canvas_row(c, CLI_STYLE_PLAIN), "... and %zu more lanes",
			    count - i);
}

static void draw_help(struct cli_canvas *c)
{
	static const char *const lines[] = {
		"up, down, j, k   choose a job",
		"s                sort by the next column",
		"p                pause the job, or resume it",
		"K                kill the job: its process gets UNAVAILABLE",
		"o, P             choose a policy",
		"q                quit",
		"",
		"got: share of the time in the last 5 s. due: its weight among jobs with work.",
		"P, E: persistent and ephemeral memory. ln: lane. iter: device time of one.",
		"history: share in each interval, the last at the right.",
	};
	size_t i;

	for (i = 0; i < SAL_COUNT(lines); i++)
		cli_row_add(cli_canvas_row(c, CLI_STYLE_PLAIN), "%s", lines[i]);
}

static void draw_policies(const struct cli_top *top, struct cli_canvas *c)
{
	const json_t *list = json_object_get(top->policies, "policies");
	const char *now = cli_json_text(top->policies, "policy");
	size_t i;

	for (i = 0; i < json_array_size(list); i++) {
		const json_t *policy = json_array_get(list, i);
		const char *name = cli_json_text(policy, "name");
		struct cli_row *row =
			cli_canvas_row(c, i == top->policy ? CLI_STYLE_CHOSEN : CLI_STYLE_PLAIN);

		cli_row_add(row, "%c %c ", i == top->policy ? '>' : ' ',
			    strcmp(name, now) == 0 ? '*' : ' ');
		cli_row_cell(c, row, name, 10, CLI_LEFT);
		cli_row_cell(c, row, cli_json_text(policy, "idea"), c->width - 14, CLI_LEFT);
	}
}

static void draw_last_rows(const struct cli_top *top, struct cli_canvas *c)
{
	struct cli_row *row;
	const struct cli_top_job *victim = cli_top_find(top, top->victim);

	while (cli_canvas_left(c) > 2)
		(void)cli_canvas_row(c, CLI_STYLE_PLAIN);
	row = cli_canvas_row(c, CLI_STYLE_ALERT);
	if (top->mode == CLI_TOP_KILL) {
		cli_row_add(row, "kill ");
		add_name(c, row, victim);
		cli_row_add(row, " (id %llu)? y/n", (unsigned long long)top->victim);
	} else {
		cli_row_cell(c, row, top->message, c->width, CLI_LEFT);
	}
	row = cli_canvas_row(c, CLI_STYLE_HEAD);
	if (top->mode == CLI_TOP_POLICY)
		cli_row_add(row, "up, down choose   Enter sets it   Esc goes back");
	else if (top->mode == CLI_TOP_HELP)
		cli_row_add(row, "any key goes back");
	else
		cli_row_add(row,
			    "q quit  arrows choose  s sort: %s  p pause/resume  K kill  o "
			    "policy  ? help",
			    cli_top_sort_name(top->sort));
}

void cli_top_draw(const struct cli_top *top, struct cli_canvas *canvas, bool interactive)
{
	struct cli_row *row;

	if (interactive && (canvas->width < WIDTH_LEAST || canvas->height < HEIGHT_LEAST)) {
		cli_row_add(cli_canvas_row(canvas, CLI_STYLE_PLAIN), "the window is too small");
		return;
	}
	draw_title(top, canvas);
	row = cli_canvas_row(canvas, CLI_STYLE_PLAIN);
	draw_busy(top, canvas, row);
	draw_memory(top, canvas, row);
	draw_lanes(top, canvas);
	draw_gain(top, canvas);
	(void)cli_canvas_row(canvas, CLI_STYLE_PLAIN);
	if (top->mode == CLI_TOP_HELP)
		draw_help(canvas);
	else if (top->mode == CLI_TOP_POLICY)
		draw_policies(top, canvas);
	else
		cli_top_draw_jobs(top, canvas, interactive ? 2 : 0, interactive);
	if (interactive)
		draw_last_rows(top, canvas);
}
