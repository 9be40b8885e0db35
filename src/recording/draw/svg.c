/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A column of the time axis is a pixel, if there are not very many jobs.
 */
#include "recording/draw/svg.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "recording/draw/svg_impl.h"

#define NS_PER_S 1e9
#define WIDTH 1200.0
#define RIGHT 30.0
#define HEAD_HEIGHT 84.0
#define TITLE_HEIGHT 26.0 /* of a block: policy and numbers, or one of them */
#define TITLE_BYTES_MAX 32 /* of a policy's name, so that the numbers fit beside it */
#define CHAR_WIDTH 6.5 /* of a name, approximately */
#define FOOT_HEIGHT 52.0 /* below a block, with the time axis in it */

double rec_canvas_x(const struct rec_canvas *p, uint64_t now_ns)
{
	return p->left + rec_axis_at(&p->axis, now_ns);
}

const char *rec_canvas_moment(const struct rec_canvas *p, uint64_t now_ns, char *buf)
{
	return sal_duration_format(now_ns - p->axis.from_ns, buf, SAL_UNITS_TEXT);
}

void rec_canvas_open_tip(const struct rec_canvas *p, struct rec_box box, const char *name)
{
	(void)fprintf(p->out,
		      "<rect class=\"tip\" x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.4g\">"
		      "<title>",
		      box.x, box.y, box.width, box.height);
	rec_put_xml(p->out, name);
}

void rec_canvas_close_tip(const struct rec_canvas *p)
{
	(void)fputs("</title></rect>\n", p->out);
}

void rec_canvas_open_panel(struct rec_canvas *p, const char *name, const char *what, double height)
{
	p->y += REC_GAP;
	(void)fprintf(p->out,
		      "<text class=\"panel\" x=\"%g\" y=\"%g\">%s<tspan class=\"dim\" dx=\"8\">%s"
		      "</tspan></text>\n",
		      p->left, p->y - 8, name, what);
	(void)fprintf(p->out, "<path class=\"edge\" d=\"M%g %gh%gv%gh%gz\"/>\n", p->left, p->y,
		      p->width, height, -p->width);
}

/* Lines through all panels of a block, and the axis below them. */
static void draw_time(const struct rec_canvas *p, double top, double bottom)
{
	double range_s = (double)(p->axis.to_ns - p->axis.from_ns) / NS_PER_S;
	struct rec_scale scale = rec_scale_time(range_s);
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

/* A line through all panels where another policy took over, and its name below the time axis. */
static void draw_policies(const struct rec_canvas *p, const struct rec_picture *pic, double top,
			  double bottom)
{
	double free_from = 0; /* where the last name ends */
	size_t i;

	for (i = 0; i < pic->change_count; i++) {
		const struct rec_change *c = &pic->changes[i];
		double x = rec_canvas_x(p, c->now_ns);

		if (c->kind != REC_POLICY)
			continue;
		(void)fprintf(p->out, "<path class=\"change\" d=\"M%.6g %gV%gm0 14v5\"/>\n", x, top,
			      bottom + 5);
		if (x < free_from)
			continue;
		(void)fprintf(p->out, "<text class=\"change-name\" x=\"%.6g\" y=\"%g\">%s</text>\n",
			      x, bottom + 35, c->policy);
		free_from = x + CHAR_WIDTH * (double)strlen(c->policy) + CHAR_WIDTH;
	}
}

/* Do the names of all policies that ruled take so much room that the numbers go below them? */
static bool is_long_title(const struct rec_picture *pic)
{
	return strlen(pic->policy) > TITLE_BYTES_MAX;
}

static double block_height(const struct rec_canvas *p, const struct rec_picture *pic)
{
	uint32_t lanes = rec_lane_count(pic);

	return (is_long_title(pic) ? 2 : 1) * TITLE_HEIGHT + 3 * REC_GAP +
	       p->row * (double)pic->job_count + lanes * rec_lane_height(lanes) +
	       REC_MEMORY_HEIGHT + FOOT_HEIGHT;
}

static void draw_number(const struct rec_canvas *p, const char *name, double seconds,
			double longest)
{
	double unit = longest >= 600 ? 60 : 1;

	(void)fprintf(p->out,
		      "<tspan class=\"dim\" dx=\"20\">%s</tspan><tspan dx=\"6\">%.1f %s</tspan>",
		      name, seconds / unit, unit > 1 ? "min" : "s");
}

static int draw_title(struct rec_canvas *p, const struct rec_picture *pic)
{
	struct rec_summary s;
	int rc = rec_summarise(pic, &s, p->err);

	if (rc < 0)
		return rc;
	(void)fprintf(
		p->out,
		"<text class=\"numbers\" x=\"%g\" y=\"%g\"><tspan class=\"policy\">%s</tspan>",
		p->left, p->y + 18, pic->policy);
	if (is_long_title(pic)) {
		p->y += TITLE_HEIGHT;
		(void)fprintf(p->out, "</text>\n<text class=\"numbers\" x=\"%g\" y=\"%g\">",
			      p->left, p->y + 18);
	}
	draw_number(p, "makespan", s.makespan_s, s.makespan_s);
	draw_number(p, "mean JCT", s.mean_jct_s, s.makespan_s);
	draw_number(p, "median", s.median_jct_s, s.makespan_s);
	draw_number(p, "95th", s.p95_jct_s, s.makespan_s);
	(void)fprintf(p->out,
		      "<tspan class=\"dim\" dx=\"20\">busy</tspan><tspan dx=\"6\">%.1f %%</tspan>"
		      "<tspan class=\"dim\" dx=\"20\">page-outs</tspan><tspan dx=\"6\">%" PRIu64
		      "</tspan>",
		      s.busy_share * 100, pic->page_outs);
	if (pic->refused > 0)
		(void)fprintf(
			p->out,
			"<tspan class=\"dim\" dx=\"20\">refused</tspan><tspan dx=\"6\">%" PRIu64
			"</tspan>",
			pic->refused);
	(void)fputs("</text>\n", p->out);
	p->y += TITLE_HEIGHT;
	return SAL_OK;
}

static int draw_block(struct rec_canvas *p, const struct rec_picture *pic)
{
	double bottom = p->y + block_height(p, pic);
	int rc = draw_title(p, pic);
	double top = p->y + REC_GAP;

	draw_time(p, top, bottom - FOOT_HEIGHT);
	if (rc >= 0)
		rc = rec_draw_jobs(p, pic);
	if (rc >= 0)
		rc = rec_draw_lanes(p, pic);
	if (rc >= 0)
		rc = rec_draw_memory(p, pic);
	draw_policies(p, pic, top, bottom - FOOT_HEIGHT);
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
	".paused{fill:#f3dfa2}.limit{stroke:#1f2733;stroke-width:1.4;fill:none}"
	".change{stroke:#7b2d8b;stroke-dasharray:2 2;fill:none}"
	".change-name{fill:#7b2d8b;font-weight:600;text-anchor:middle}"
	".tip{fill:none;pointer-events:all}</style>\n";

/* Is there anything of this kind in one of the pictures? */
static bool has_span(const struct rec_picture *pictures, size_t count, enum rec_span_kind kind)
{
	size_t i, k;

	for (i = 0; i < count; i++)
		for (k = 0; k < pictures[i].span_count; k++)
			if (pictures[i].spans[k].kind == kind)
				return true;
	return false;
}

static bool has_change(const struct rec_picture *pictures, size_t count, enum rec_change_kind kind)
{
	size_t i, k;

	for (i = 0; i < count; i++)
		for (k = 0; k < pictures[i].change_count; k++)
			if (pictures[i].changes[k].kind == kind)
				return true;
	return false;
}

/* Marks of pauses, limits and policies are explained only if there are any. */
static void draw_legend(const struct rec_canvas *p, const struct rec_picture *pictures,
			size_t count)
{
	const struct {
		const char *mark, *name;
		bool is_shown;
	} items[] = {
		{ "<path fill=\"#332288\" d=\"M0-8h22v8h-22z\"/>", "runs", true },
		{ "<path fill=\"#ada7cf\" d=\"M0-8h22v8h-22z\"/>", "takes turns (paler: less)",
		  true },
		{ "<path class=\"wait\" d=\"M0-4h22\"/>", "waits", true },
		{ "<path class=\"paused\" d=\"M0-8h22v8h-22z\"/>", "paused",
		  has_span(pictures, count, REC_PAUSED) },
		{ "<path class=\"limit\" d=\"M11-9v10m-3 0h6m0-10h-6\"/>", "limit",
		  has_change(pictures, count, REC_LIMIT) },
		{ "<path class=\"change\" d=\"M11-10v12\"/>", "policy",
		  has_change(pictures, count, REC_POLICY) },
		{ "<path class=\"out\" d=\"M7-8h8l-4 8z\"/>", "paged out", true },
		{ "<path class=\"in\" d=\"M7 0h8l-4-8z\"/>", "paged in", true },
		{ "<path class=\"refused\" d=\"M8-7l6 6m0-6l-6 6\"/>", "refused", true },
		{ "<path class=\"persist\" d=\"M0-8h22v8h-22z\"/>", "persistent", true },
		{ "<path class=\"scratch\" d=\"M0-8h22v8h-22z\"/>", "lanes", true },
		{ "<path class=\"capacity\" d=\"M0-4h22\"/>", "capacity", true },
	};
	bool is_full = items[3].is_shown || items[4].is_shown || items[5].is_shown;
	double x = p->left;
	size_t i;

	for (i = 0; i < SAL_COUNT(items); i++) {
		if (!items[i].is_shown)
			continue;
		(void)fprintf(p->out,
			      "<g transform=\"translate(%g %g)\">%s<text x=\"28\" class=\"dim\">%s"
			      "</text></g>\n",
			      x, HEAD_HEIGHT - 20, items[i].mark, items[i].name);
		x += (is_full ? 41 : 54) + 5.5 * (double)strlen(items[i].name);
	}
}

static void set_layout(struct rec_canvas *p, const struct rec_picture *pictures, size_t count)
{
	size_t jobs = pictures[0].job_count, i, k;
	bool labels;

	p->row = fmin(18, fmax(480.0 / (double)jobs, fmin(1.5, 900.0 / (double)jobs)));
	labels = p->row >= REC_LABEL_ROW;
	p->left = labels ? 158 : 76;
	p->width = WIDTH - p->left - RIGHT;
	p->axis.columns = (uint32_t)p->width;
	p->axis.from_ns = pictures[0].first_submit_ns;
	p->axis.to_ns = p->axis.from_ns + 1;
	for (i = 0; i < count; i++)
		for (k = 0; k < jobs; k++) {
			const struct rec_job *j = &pictures[i].jobs[k];
			uint64_t end = j->refused ? j->submit_ns : j->end_ns;

			if (end > p->axis.to_ns)
				p->axis.to_ns = end;
		}
}

int rec_svg_write(FILE *out, const struct rec_picture *pictures, size_t count, struct sal_err *err)
{
	struct rec_canvas p = { .out = out, .y = HEAD_HEIGHT, .err = err };
	char memory[SAL_UNITS_TEXT];
	double height = HEAD_HEIGHT;
	size_t i;
	int rc = SAL_OK;

	set_layout(&p, pictures, count);
	for (i = 0; i < count; i++)
		height += block_height(&p, &pictures[i]);
	(void)fprintf(
		out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\">\n",
		WIDTH, ceil(height), WIDTH, ceil(height));
	(void)fputs(style, out);
	(void)fprintf(out,
		      "<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"#fff\"/>\n"
		      "<text class=\"head\" x=\"%g\" y=\"36\">%zu job%s on a device of %s</text>\n",
		      p.left, pictures[0].job_count, pictures[0].job_count == 1 ? "" : "s",
		      sal_bytes_format(pictures[0].capacity_bytes, memory, sizeof(memory)));
	draw_legend(&p, pictures, count);
	for (i = 0; rc >= 0 && i < count; i++)
		rc = draw_block(&p, &pictures[i]);
	(void)fputs("</svg>\n", out);
	return rc;
}
