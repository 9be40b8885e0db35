/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A column of the time axis is a pixel, if there are not very many jobs. The bars come from ink.c, which keeps the file small;
 * what is told when the pointer rests on something comes from invisible boxes over the bars.
 */
#include "sim/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "sim/ink.h"
#include "sim/report.h"

#define NS_PER_S 1e9
#define WIDTH 1200.0
#define RIGHT 30.0
#define HEAD_HEIGHT 84.0
#define TITLE_HEIGHT 26.0 /* of a block: policy and numbers */
#define GAP 26.0 /* above a panel, with its name in it */
#define FOOT_HEIGHT 52.0 /* below a block, with the time axis in it */
#define MEMORY_HEIGHT 110.0
#define LABEL_ROW 9.0 /* least height of a row that gets a name */
#define LABEL_CHARS 22u
#define LABEL_BYTES ((size_t)4 * LABEL_CHARS)
#define MARK_GAP 5.0 /* between two marks of a row, at least */
#define FINE_ROWS 120 /* with more of them, the columns of a row are wider than a pixel */
#define TIP_WIDTH 2.0 /* least width of a bar in a lane that tells its name */

struct picture {
	FILE *out;
	struct sim_axis axis;
	double left, width;
	double y; /* top of the panel being drawn */
	double row; /* height of a job's row */
	struct sal_err *err;
};

static double x_of(const struct picture *p, uint64_t now_ns)
{
	return p->left + sim_axis_at(&p->axis, now_ns);
}

/* Moments are told as the axis shows them: from the first submission. */
static const char *moment(const struct picture *p, uint64_t now_ns, char *buf)
{
	return sal_duration_format(now_ns - p->axis.from_ns, buf, SAL_UNITS_TEXT);
}

static void open_tip(const struct picture *p, struct sim_box box, const char *name)
{
	(void)fprintf(p->out,
		      "<rect class=\"tip\" x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.4g\">"
		      "<title>",
		      box.x, box.y, box.width, box.height);
	sim_put_xml(p->out, name);
}

static void close_tip(const struct picture *p)
{
	(void)fputs("</title></rect>\n", p->out);
}

static void open_panel(struct picture *p, const char *name, const char *what, double height)
{
	p->y += GAP;
	(void)fprintf(p->out,
		      "<text class=\"panel\" x=\"%g\" y=\"%g\">%s<tspan class=\"dim\" dx=\"8\">%s"
		      "</tspan></text>\n",
		      p->left, p->y - 8, name, what);
	(void)fprintf(p->out, "<path class=\"edge\" d=\"M%g %gh%gv%gh%gz\"/>\n", p->left, p->y,
		      p->width, height, -p->width);
}

/* The spans of each job, or each lane, in order of time. */
struct groups {
	struct sim_span *spans; /* owned */
	size_t *first; /* owned; group i is first[i] up to first[i + 1] */
};

static int group(const struct sim_result *r, bool by_lane, struct groups *out_groups,
		 struct sal_err *err)
{
	size_t groups = by_lane ? SAL_LANES_MAX : r->job_count, i;
	size_t *first = calloc(groups + 2, sizeof(*first));
	struct sim_span *spans = calloc(r->span_count + 1, sizeof(*spans));

	*out_groups = (struct groups){ .spans = spans, .first = first };
	if (!first || !spans)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	/* Count one too far, so that placing the spans moves each start to where it belongs. */
	for (i = 0; i < r->span_count; i++)
		first[(by_lane ? r->spans[i].lane : r->spans[i].job) + 2]++;
	for (i = 2; i < groups + 2; i++)
		first[i] += first[i - 1];
	for (i = 0; i < r->span_count; i++)
		spans[first[(by_lane ? r->spans[i].lane : r->spans[i].job) + 1]++] = r->spans[i];
	return SAL_OK;
}

/* --- jobs ----------------------------------------------------------------------------------------- */

static void draw_label(const struct picture *p, const char *name, double middle)
{
	double size = fmin(10, p->row * 0.8);
	char text[LABEL_BYTES + sizeof("…")];
	size_t at, shown = 0;

	/* Cut between characters, not inside one. */
	for (at = 0; name[at] && at < LABEL_BYTES; at++) {
		shown += ((unsigned char)name[at] & 0xc0) != 0x80;
		if (shown > LABEL_CHARS)
			break;
	}
	(void)snprintf(text, sizeof(text), "%.*s%s", (int)at, name, name[at] ? "…" : "");
	(void)fprintf(p->out, "<text class=\"label\" x=\"%g\" y=\"%.6g\" font-size=\"%.3g\">",
		      p->left - 8, middle + size * 0.36, size);
	sim_put_xml(p->out, text);
	(void)fputs("</text>\n", p->out);
}

/* From submission to end, behind the bars; a cross for who was turned away. */
static void draw_waits(const struct picture *p, const struct sim_result *r, bool refused)
{
	size_t i;

	if (refused)
		(void)fputs("<path class=\"refused\" d=\"", p->out);
	else
		(void)fprintf(p->out, "<path class=\"wait\" stroke-width=\"%.3g\" d=\"",
			      fmin(1.2, p->row * 0.3));
	for (i = 0; i < r->job_count; i++) {
		const struct sim_job_result *j = &r->jobs[r->arrivals[i]];
		double x = x_of(p, j->job->submit_ns), y = p->y + ((double)i + 0.5) * p->row;

		if (j->refused && refused)
			(void)fprintf(p->out, "M%.6g %.6gl6 6m0-6l-6 6", x - 3, y - 3);
		else if (!j->refused && !refused)
			(void)fprintf(p->out, "M%.6g %.6gH%.6g", x, y, x_of(p, j->end_ns));
	}
	(void)fputs("\"/>\n", p->out);
}

/* Triangles: down for a copy to the host, up for one to the device. */
static void draw_copies(const struct picture *p, const struct sim_result *r,
			const struct groups *jobs, enum sim_span_kind kind)
{
	double size = fmin(3.5, p->row * 0.34), down = kind == SIM_PAGE_OUT ? 1 : -1;
	size_t i, k;

	(void)fprintf(p->out, "<path class=\"%s\" d=\"", kind == SIM_PAGE_OUT ? "out" : "in");
	for (i = 0; i < r->job_count; i++) {
		double y = p->y + ((double)i + 0.5) * p->row - down * size, last = -MARK_GAP;

		for (k = jobs->first[r->arrivals[i]]; k < jobs->first[r->arrivals[i] + 1]; k++) {
			double x = x_of(p, jobs->spans[k].from_ns);

			if (jobs->spans[k].kind != kind || x - last < MARK_GAP)
				continue;
			last = x;
			(void)fprintf(p->out, "M%.5g %.6gh%.3gl%.3g %.3gz", x - size, y, 2 * size,
				      -size, down * 2 * size);
		}
	}
	(void)fputs("\"/>\n", p->out);
}

static void tell_job(const struct picture *p, const struct sim_job_result *j, double top)
{
	struct sim_box box = { p->left, top, p->width, p->row };
	char at[SAL_UNITS_TEXT], start[SAL_UNITS_TEXT], end[SAL_UNITS_TEXT], used[SAL_UNITS_TEXT];

	if (p->row >= LABEL_ROW)
		draw_label(p, j->job->name, top + p->row / 2);
	open_tip(p, box, j->job->name);
	(void)fprintf(p->out, "\nsubmitted at %s", moment(p, j->job->submit_ns, at));
	if (j->refused)
		(void)fputs(", refused", p->out);
	else
		(void)fprintf(p->out,
			      ", first ran at %s, ended at %s\n%" PRIu64
			      " iterations, %s on the device, paged out %" PRIu64 " times",
			      moment(p, j->start_ns, start), moment(p, j->end_ns, end),
			      j->iterations, sal_duration_format(j->used_ns, used, sizeof(used)),
			      j->page_outs);
	close_tip(p);
}

static int draw_jobs(struct picture *p, const struct sim_result *r)
{
	struct sim_ink ink = { 0 };
	struct sim_axis axis = p->axis;
	struct sim_box row = { p->left, 0, p->width, p->row * 0.8 };
	struct groups jobs;
	int rc = group(r, false, &jobs, p->err), kind;
	size_t i;

	axis.columns /=
		1 + (uint32_t)(r->job_count / FINE_ROWS); /* or the file would grow and grow */
	open_panel(p, "jobs", "in order of submission", p->row * (double)r->job_count);
	draw_waits(p, r, false);
	for (i = 0; rc >= 0 && i < r->job_count; i++) {
		const size_t *at = &jobs.first[r->arrivals[i]];

		row.y = p->y + ((double)i + 0.1) * p->row;
		sim_ink_row(&ink, &axis, &row, jobs.spans + at[0], at[1] - at[0]);
	}
	if (rc >= 0)
		rc = sim_ink_pour(&ink, p->out, p->err);
	for (kind = SIM_PAGE_OUT; rc >= 0 && kind <= SIM_PAGE_IN; kind++)
		draw_copies(p, r, &jobs, (enum sim_span_kind)kind);
	draw_waits(p, r, true);
	for (i = 0; i < r->job_count; i++)
		tell_job(p, &r->jobs[r->arrivals[i]], p->y + (double)i * p->row);
	p->y += p->row * (double)r->job_count;
	free(jobs.spans);
	free(jobs.first);
	return rc;
}

/* --- lanes ---------------------------------------------------------------------------------------- */

static uint32_t lane_count(const struct sim_result *r)
{
	uint32_t lanes = 1;
	size_t i;

	for (i = 0; i < r->span_count; i++)
		if (r->spans[i].kind == SIM_RUN && r->spans[i].lane >= lanes)
			lanes = r->spans[i].lane + 1u;
	return lanes;
}

static double lane_height(uint32_t lanes)
{
	return fmax(5, fmin(44, 180.0 / lanes));
}

static void tell_turns(const struct picture *p, const struct sim_result *r, struct sim_box row,
		       const struct sim_span *spans, size_t count)
{
	char from[SAL_UNITS_TEXT], to[SAL_UNITS_TEXT];
	size_t i;

	for (i = 0; i < count; i++) {
		row.x = x_of(p, spans[i].from_ns);
		row.width = x_of(p, spans[i].to_ns) - row.x;
		if (spans[i].kind != SIM_RUN || row.width < TIP_WIDTH)
			continue;
		open_tip(p, row, r->jobs[spans[i].job].job->name);
		(void)fprintf(p->out, "\n%s to %s", moment(p, spans[i].from_ns, from),
			      moment(p, spans[i].to_ns, to));
		close_tip(p);
	}
}

static int draw_lanes(struct picture *p, const struct sim_result *r)
{
	uint32_t count = lane_count(r), i;
	double height = lane_height(count);
	struct sim_box row = { p->left, 0, p->width, height * 0.88 };
	struct sim_ink ink = { 0 };
	struct groups lanes;
	int rc = group(r, true, &lanes, p->err);

	open_panel(p, "lanes", "who runs; jobs that take turns lie on each other", count * height);
	for (i = 0; rc >= 0 && i < count; i++) {
		const size_t *at = &lanes.first[i];

		row.y = p->y + (i + 0.06) * height;
		sim_ink_row(&ink, &p->axis, &row, lanes.spans + at[0], at[1] - at[0]);
		if (height >= LABEL_ROW || i % 4 == 0)
			(void)fprintf(p->out,
				      "<text class=\"label\" x=\"%g\" y=\"%.6g\">lane %u</text>\n",
				      p->left - 8, p->y + (i + 0.5) * height + 3.5, i);
	}
	if (rc >= 0)
		rc = sim_ink_pour(&ink, p->out, p->err);
	for (i = 0; rc >= 0 && i < count; i++) {
		const size_t *at = &lanes.first[i];

		row.y = p->y + (i + 0.06) * height;
		tell_turns(p, r, row, lanes.spans + at[0], at[1] - at[0]);
	}
	p->y += count * height;
	free(lanes.spans);
	free(lanes.first);
	return rc;
}

/* Lines through all panels of a block, and the axis below them. */
static void draw_time(const struct picture *p, double top, double bottom)
{
	double range_s = (double)(p->axis.to_ns - p->axis.from_ns) / NS_PER_S;
	struct sim_scale scale = sim_scale_time(range_s);
	int i;

	for (i = 0; i * scale.step <= range_s * (1 + 1e-9); i++) {
		double x = p->left + i * scale.step / range_s * p->width;

		(void)fprintf(p->out,
			      "<path class=\"grid\" d=\"M%.6g %gV%g\"/>"
			      "<text class=\"tick\" x=\"%.6g\" y=\"%g\">%g %s</text>\n",
			      x, top, bottom + 5, x, bottom + 18, i * scale.step / scale.unit,
			      scale.name);
	}
}

/* --- memory --------------------------------------------------------------------------------------- */

/* A step function as an area; `base` is the border it grows from, `scale` pixels for a byte. */
static void draw_area(const struct picture *p, const char *class, const double *bytes, double base,
		      double scale)
{
	double last = base;
	uint32_t i;

	(void)fprintf(p->out, "<path class=\"%s\" d=\"M%g %g", class, p->left, base);
	for (i = 0; i < p->axis.columns; i++) {
		double y = round((base + bytes[i] * scale) * 10) / 10;

		if (y != last)
			(void)fprintf(p->out, "H%gV%g", p->left + i, y);
		last = y;
	}
	(void)fprintf(p->out, "H%gV%gz\"/>\n", p->left + p->width, base);
}

static void draw_bytes_axis(const struct picture *p, double capacity)
{
	struct sim_scale scale = sim_scale_bytes(capacity);
	int i;

	/* The capacity itself is told below, and needs room. */
	for (i = 0; i * scale.step < capacity * 0.9; i++) {
		double y = p->y + MEMORY_HEIGHT * (1 - i * scale.step / capacity);

		(void)fprintf(p->out,
			      "<path class=\"grid\" d=\"M%g %.6gh%g\"/>"
			      "<text class=\"label\" x=\"%g\" y=\"%.6g\">%g %s</text>\n",
			      p->left, y, p->width, p->left - 8, y + 3.5,
			      i * scale.step / scale.unit, i > 0 ? scale.name : "");
	}
	(void)fprintf(p->out,
		      "<path class=\"capacity\" d=\"M%g %gh%g\"/>"
		      "<text class=\"label strong\" x=\"%g\" y=\"%g\">%.3g %s</text>\n",
		      p->left, p->y, p->width, p->left - 8, p->y + 3.5, capacity / scale.unit,
		      scale.name);
}

/* What each column holds on average: a peak shorter than a pixel is as high as it is long. */
static int draw_memory(struct picture *p, const struct sim_result *r)
{
	double *persist = calloc(p->axis.columns, sizeof(*persist));
	double *lanes = calloc(p->axis.columns, sizeof(*lanes));
	double scale = MEMORY_HEIGHT / (double)r->capacity_bytes;
	size_t i;

	open_panel(p, "memory", "persistent bytes from below, lanes from above, free between",
		   MEMORY_HEIGHT);
	for (i = 0; persist && lanes && i < r->sample_count; i++) {
		const struct sim_sample *s = &r->samples[i];
		uint64_t end = i + 1 < r->sample_count ? s[1].now_ns : p->axis.to_ns;

		sim_axis_add(&p->axis, s->now_ns, end, (double)s->persist_bytes, persist);
		sim_axis_add(&p->axis, s->now_ns, end, (double)s->lane_sum_bytes, lanes);
	}
	if (persist && lanes) {
		draw_area(p, "persist", persist, p->y + MEMORY_HEIGHT, -scale);
		draw_area(p, "scratch", lanes, p->y, scale);
		draw_bytes_axis(p, (double)r->capacity_bytes);
	}
	p->y += MEMORY_HEIGHT;
	i = persist && lanes;
	free(persist);
	free(lanes);
	return i ? SAL_OK : sal_err_set(p->err, SAL_RESOURCE_EXHAUSTED, "out of memory");
}

/* --- the whole ------------------------------------------------------------------------------------ */

static double block_height(const struct picture *p, const struct sim_result *r)
{
	uint32_t lanes = lane_count(r);

	return TITLE_HEIGHT + 3 * GAP + p->row * (double)r->job_count + lanes * lane_height(lanes) +
	       MEMORY_HEIGHT + FOOT_HEIGHT;
}

static void draw_number(const struct picture *p, const char *name, double seconds, double longest)
{
	double unit = longest >= 600 ? 60 : 1;

	(void)fprintf(p->out,
		      "<tspan class=\"dim\" dx=\"20\">%s</tspan><tspan dx=\"6\">%.1f %s</tspan>",
		      name, seconds / unit, unit > 1 ? "min" : "s");
}

static int draw_title(struct picture *p, const struct sim_result *r)
{
	struct sim_summary s;
	int rc = sim_summarise(r, &s, p->err);

	if (rc < 0)
		return rc;
	(void)fprintf(
		p->out,
		"<text class=\"numbers\" x=\"%g\" y=\"%g\"><tspan class=\"policy\">%s</tspan>",
		p->left, p->y + 18, r->policy);
	draw_number(p, "makespan", s.makespan_s, s.makespan_s);
	draw_number(p, "mean JCT", s.mean_jct_s, s.makespan_s);
	draw_number(p, "median", s.median_jct_s, s.makespan_s);
	draw_number(p, "95th", s.p95_jct_s, s.makespan_s);
	(void)fprintf(p->out,
		      "<tspan class=\"dim\" dx=\"20\">busy</tspan><tspan dx=\"6\">%.1f %%</tspan>"
		      "<tspan class=\"dim\" dx=\"20\">page-outs</tspan><tspan dx=\"6\">%" PRIu64
		      "</tspan>",
		      s.busy_share * 100, r->page_outs);
	if (r->refused > 0)
		(void)fprintf(
			p->out,
			"<tspan class=\"dim\" dx=\"20\">refused</tspan><tspan dx=\"6\">%" PRIu64
			"</tspan>",
			r->refused);
	(void)fputs("</text>\n", p->out);
	p->y += TITLE_HEIGHT;
	return SAL_OK;
}

static int draw_block(struct picture *p, const struct sim_result *r)
{
	double bottom = p->y + block_height(p, r);
	int rc = draw_title(p, r);

	draw_time(p, p->y + GAP, bottom - FOOT_HEIGHT);
	if (rc >= 0)
		rc = draw_jobs(p, r);
	if (rc >= 0)
		rc = draw_lanes(p, r);
	if (rc >= 0)
		rc = draw_memory(p, r);
	p->y = bottom;
	return rc;
}

static const char style[] =
	"<style>text{font-family:Inter,'Helvetica Neue',Arial,'Liberation Sans',sans-serif;"
	"font-size:11px;fill:#1f2733}.head{font-size:20px;font-weight:600}.policy{font-size:17px;"
	"font-weight:700}.numbers{font-size:12.5px;font-weight:600}.panel{font-weight:600}"
	".dim{fill:#6a7383;font-weight:400}.label{fill:#4c5565;text-anchor:end}"
	".strong{font-weight:600;fill:#1f2733}.tick{fill:#4c5565;text-anchor:middle}"
	".grid{stroke:#e3e7ed;fill:none}.edge{stroke:#d3d9e2;fill:none}.wait{stroke:#aab3c0;"
	"fill:none}.refused{stroke:#c1121f;stroke-width:1.6;fill:none}.out{fill:#d55e00}.in{fill:#0a5c9c}"
	".persist{fill:#4477aa}"
	".scratch{fill:#ee9944}.capacity{stroke:#1f2733;stroke-dasharray:5 3;fill:none}"
	".tip{fill:none;pointer-events:all}</style>\n";

static void draw_legend(const struct picture *p)
{
	static const char *const items[][2] = {
		{ "<path fill=\"#332288\" d=\"M0-8h22v8h-22z\"/>", "runs" },
		{ "<path fill=\"#ada7cf\" d=\"M0-8h22v8h-22z\"/>", "takes turns (paler: less)" },
		{ "<path class=\"wait\" d=\"M0-4h22\"/>", "waits" },
		{ "<path class=\"out\" d=\"M7-8h8l-4 8z\"/>", "paged out" },
		{ "<path class=\"in\" d=\"M7 0h8l-4-8z\"/>", "paged in" },
		{ "<path class=\"refused\" d=\"M8-7l6 6m0-6l-6 6\"/>", "refused" },
		{ "<path class=\"persist\" d=\"M0-8h22v8h-22z\"/>", "persistent" },
		{ "<path class=\"scratch\" d=\"M0-8h22v8h-22z\"/>", "lanes" },
		{ "<path class=\"capacity\" d=\"M0-4h22\"/>", "capacity" },
	};
	double x = p->left;
	size_t i;

	for (i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
		(void)fprintf(
			p->out,
			"<g transform=\"translate(%g %g)\">%s<text x=\"28\" class=\"dim\">%s</text></g>\n",
			x, HEAD_HEIGHT - 20, items[i][0], items[i][1]);
		x += 54 + 5.5 * (double)strlen(items[i][1]);
	}
}

static void set_layout(struct picture *p, const struct sim_result *results, size_t count)
{
	size_t jobs = results[0].job_count, i, k;
	bool labels;

	p->row = fmin(18, fmax(480.0 / (double)jobs, fmin(1.5, 900.0 / (double)jobs)));
	labels = p->row >= LABEL_ROW;
	p->left = labels ? 158 : 76;
	p->width = WIDTH - p->left - RIGHT;
	p->axis.columns = (uint32_t)p->width;
	p->axis.from_ns = results[0].first_submit_ns;
	p->axis.to_ns = p->axis.from_ns + 1;
	for (i = 0; i < count; i++)
		for (k = 0; k < jobs; k++) {
			const struct sim_job_result *j = &results[i].jobs[k];
			uint64_t end = j->refused ? j->job->submit_ns : j->end_ns;

			if (end > p->axis.to_ns)
				p->axis.to_ns = end;
		}
}

int sim_svg_write(FILE *out, const struct sim_result *results, size_t count, struct sal_err *err)
{
	struct picture p = { .out = out, .y = HEAD_HEIGHT, .err = err };
	char memory[SAL_UNITS_TEXT];
	double height = HEAD_HEIGHT;
	size_t i;
	int rc = SAL_OK;

	set_layout(&p, results, count);
	for (i = 0; i < count; i++)
		height += block_height(&p, &results[i]);
	(void)fprintf(
		out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\">\n",
		WIDTH, ceil(height), WIDTH, ceil(height));
	(void)fputs(style, out);
	(void)fprintf(out,
		      "<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"#fff\"/>\n"
		      "<text class=\"head\" x=\"%g\" y=\"36\">%zu job%s on a device of %s</text>\n",
		      p.left, results[0].job_count, results[0].job_count == 1 ? "" : "s",
		      sal_bytes_format(results[0].capacity_bytes, memory, sizeof(memory)));
	draw_legend(&p);
	for (i = 0; rc >= 0 && i < count; i++)
		rc = draw_block(&p, &results[i]);
	(void)fputs("</svg>\n", out);
	return rc;
}
