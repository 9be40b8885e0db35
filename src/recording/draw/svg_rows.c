/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bars come from ink.c, which keeps the file small. Tooltips come from invisible boxes over the
 * bars.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/units.h"
#include "core/policy.h"
#include "recording/draw/svg_impl.h"

#define LABEL_CHARS 22u
#define LABEL_BYTES ((size_t)4 * LABEL_CHARS)
#define MARK_GAP 5.0 /* least distance of two marks in a row */
#define FINE_ROWS 120 /* with more rows, a column is wider than a pixel */
#define TIP_WIDTH 2.0 /* narrowest bar of a lane that has a tooltip */

/* The spans of each job, or each lane, in order of time. */
struct groups {
	struct rec_span *spans; /* owned */
	size_t *first; /* owned; group i is first[i] up to first[i + 1] */
};

static int group(const struct rec_picture *pic, bool by_lane, struct groups *out_groups,
		 struct sal_err *err)
{
	size_t groups = by_lane ? SAL_LANES_MAX : pic->job_count, i;
	size_t *first = calloc(groups + 2, sizeof(*first));
	struct rec_span *spans = calloc(pic->span_count + 1, sizeof(*spans));

	*out_groups = (struct groups){ .spans = spans, .first = first };
	if (!first || !spans)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	/* Counts are stored one place too far: placing the spans moves each start to its place. */
	for (i = 0; i < pic->span_count; i++)
		first[(by_lane ? pic->spans[i].lane : pic->spans[i].job) + 2]++;
	for (i = 2; i < groups + 2; i++)
		first[i] += first[i - 1];
	for (i = 0; i < pic->span_count; i++)
		spans[first[(by_lane ? pic->spans[i].lane : pic->spans[i].job) + 1]++] =
			pic->spans[i];
	return SAL_OK;
}

static void draw_label(const struct rec_canvas *p, const char *name, double middle)
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
	rec_put_xml(p->out, text);
	(void)fputs("</text>\n", p->out);
}

/* A line from submission to end, behind the bars, or a cross for a refused job. */
static void draw_waits(const struct rec_canvas *p, const struct rec_picture *pic, bool refused)
{
	size_t i;

	if (refused)
		(void)fputs("<path class=\"refused\" d=\"", p->out);
	else
		(void)fprintf(p->out, "<path class=\"wait\" stroke-width=\"%.3g\" d=\"",
			      fmin(1.2, p->row * 0.3));
	for (i = 0; i < pic->job_count; i++) {
		const struct rec_job *j = &pic->jobs[pic->rows[i]];
		double x = rec_canvas_x(p, j->submit_ns), y = p->y + ((double)i + 0.5) * p->row;

		if (j->refused && refused)
			(void)fprintf(p->out, "M%.6g %.6gl6 6m0-6l-6 6", x - 3, y - 3);
		else if (!j->refused && !refused)
			(void)fprintf(p->out, "M%.6g %.6gH%.6g", x, y, rec_canvas_x(p, j->end_ns));
	}
	(void)fputs("\"/>\n", p->out);
}

/* Triangles: down for a copy to the host, up for one to the device. */
static void draw_copies(const struct rec_canvas *p, const struct rec_picture *pic,
			const struct groups *jobs, enum rec_span_kind kind)
{
	double size = fmin(3.5, p->row * 0.34), down = kind == REC_PAGE_OUT ? 1 : -1;
	size_t i, k;

	(void)fprintf(p->out, "<path class=\"%s\" d=\"", kind == REC_PAGE_OUT ? "out" : "in");
	for (i = 0; i < pic->job_count; i++) {
		double y = p->y + ((double)i + 0.5) * p->row - down * size, last = -MARK_GAP;

		for (k = jobs->first[pic->rows[i]]; k < jobs->first[pic->rows[i] + 1]; k++) {
			double x = rec_canvas_x(p, jobs->spans[k].from_ns);

			if (jobs->spans[k].kind != kind || x - last < MARK_GAP)
				continue;
			last = x;
			(void)fprintf(p->out, "M%.5g %.6gh%.3gl%.3g %.3gz", x - size, y, 2 * size,
				      -size, down * 2 * size);
		}
	}
	(void)fputs("\"/>\n", p->out);
}

/* Bands behind the bars. */
static void draw_pauses(const struct rec_canvas *p, const struct rec_picture *pic,
			const struct groups *jobs)
{
	size_t i, k;

	(void)fputs("<path class=\"paused\" d=\"", p->out);
	for (i = 0; i < pic->job_count; i++) {
		double y = p->y + ((double)i + 0.1) * p->row;

		for (k = jobs->first[pic->rows[i]]; k < jobs->first[pic->rows[i] + 1]; k++) {
			double x = rec_canvas_x(p, jobs->spans[k].from_ns);
			double width = fmax(1, rec_canvas_x(p, jobs->spans[k].to_ns) - x);

			if (jobs->spans[k].kind == REC_PAUSED)
				(void)fprintf(p->out, "M%.6g %.6gh%.5gv%.4gh%.5gz", x, y, width,
					      p->row * 0.8, -width);
		}
	}
	(void)fputs("\"/>\n", p->out);
}

/* A bar across the row of the job, which tells the new limit. */
static void draw_limit(const struct rec_canvas *p, const struct rec_change *c, size_t row)
{
	struct rec_box box = { rec_canvas_x(p, c->now_ns) - MARK_GAP, p->y + (double)row * p->row,
			       2 * MARK_GAP, p->row };
	char at[SAL_UNITS_TEXT], limit[SAL_UNITS_TEXT];

	(void)fprintf(p->out, "<path class=\"limit\" d=\"M%.6g %.6gv%.4gm-3 0h6m0 -%.4gh-6\"/>\n",
		      box.x + MARK_GAP, box.y + 0.1 * p->row, 0.8 * p->row, 0.8 * p->row);
	rec_canvas_open_tip(p, box, c->limit_bytes ? "limit " : "no limit");
	(void)fprintf(p->out, "%s from %s on",
		      c->limit_bytes ? sal_bytes_format(c->limit_bytes, limit, sizeof(limit)) : "",
		      rec_canvas_moment(p, c->now_ns, at));
	rec_canvas_close_tip(p);
}

static void draw_limits(const struct rec_canvas *p, const struct rec_picture *pic)
{
	size_t i, row;

	for (i = 0; i < pic->change_count; i++) {
		const struct rec_change *c = &pic->changes[i];

		for (row = 0; c->kind == REC_LIMIT && row < pic->job_count; row++)
			if (pic->rows[row] == c->job)
				draw_limit(p, c, row);
	}
}

static void tell_job(const struct rec_canvas *p, const struct rec_job *j, double top)
{
	struct rec_box box = { p->left, top, p->width, p->row };
	char at[SAL_UNITS_TEXT], start[SAL_UNITS_TEXT], end[SAL_UNITS_TEXT], used[SAL_UNITS_TEXT];

	if (p->row >= REC_LABEL_ROW)
		draw_label(p, j->name, top + p->row / 2);
	rec_canvas_open_tip(p, box, j->name);
	(void)fprintf(p->out, "\nsubmitted at %s", rec_canvas_moment(p, j->submit_ns, at));
	if (j->refused)
		(void)fputs(", refused", p->out);
	else
		(void)fprintf(p->out,
			      ", first ran at %s, ended at %s\n%" PRIu64
			      " iterations, %s on the device, paged out %" PRIu64 " times",
			      rec_canvas_moment(p, j->start_ns, start),
			      rec_canvas_moment(p, j->end_ns, end), j->iterations,
			      sal_duration_format(j->used_ns, used, sizeof(used)), j->page_outs);
	rec_canvas_close_tip(p);
}

int rec_draw_jobs(struct rec_canvas *p, const struct rec_picture *pic)
{
	struct rec_ink ink = { 0 };
	struct rec_axis axis = p->axis;
	struct rec_box row = { p->left, 0, p->width, p->row * 0.8 };
	struct groups jobs;
	int rc = group(pic, false, &jobs, p->err), kind;
	size_t i;

	axis.columns /=
		1 + (uint32_t)(pic->job_count / FINE_ROWS); /* limits the size of the file */
	rec_canvas_open_panel(p, "jobs", "in order of submission", p->row * (double)pic->job_count);
	draw_waits(p, pic, false);
	if (rc >= 0)
		draw_pauses(p, pic, &jobs);
	for (i = 0; rc >= 0 && i < pic->job_count; i++) {
		const size_t *at = &jobs.first[pic->rows[i]];

		row.y = p->y + ((double)i + 0.1) * p->row;
		rec_ink_row(&ink, &axis, &row, jobs.spans + at[0], at[1] - at[0]);
	}
	if (rc >= 0)
		rc = rec_ink_pour(&ink, p->out, p->err);
	for (kind = REC_PAGE_OUT; rc >= 0 && kind <= REC_PAGE_IN; kind++)
		draw_copies(p, pic, &jobs, (enum rec_span_kind)kind);
	draw_waits(p, pic, true);
	for (i = 0; i < pic->job_count; i++)
		tell_job(p, &pic->jobs[pic->rows[i]], p->y + (double)i * p->row);
	draw_limits(p, pic); /* last: their tooltips lie above those of the jobs */
	p->y += p->row * (double)pic->job_count;
	free(jobs.spans);
	free(jobs.first);
	return rc;
}

uint32_t rec_lane_count(const struct rec_picture *pic)
{
	uint32_t lanes = 1;
	size_t i;

	for (i = 0; i < pic->span_count; i++)
		if (pic->spans[i].kind == REC_RUN && pic->spans[i].lane >= lanes)
			lanes = pic->spans[i].lane + 1u;
	return lanes;
}

double rec_lane_height(uint32_t lanes)
{
	return fmax(5, fmin(44, 180.0 / lanes));
}

static void tell_turns(const struct rec_canvas *p, const struct rec_picture *pic,
		       struct rec_box row, const struct rec_span *spans, size_t count)
{
	char from[SAL_UNITS_TEXT], to[SAL_UNITS_TEXT];
	size_t i;

	for (i = 0; i < count; i++) {
		row.x = rec_canvas_x(p, spans[i].from_ns);
		row.width = rec_canvas_x(p, spans[i].to_ns) - row.x;
		if (spans[i].kind != REC_RUN || row.width < TIP_WIDTH)
			continue;
		rec_canvas_open_tip(p, row, pic->jobs[spans[i].job].name);
		(void)fprintf(p->out, "\n%s to %s", rec_canvas_moment(p, spans[i].from_ns, from),
			      rec_canvas_moment(p, spans[i].to_ns, to));
		rec_canvas_close_tip(p);
	}
}

int rec_draw_lanes(struct rec_canvas *p, const struct rec_picture *pic)
{
	uint32_t count = rec_lane_count(pic), i;
	double height = rec_lane_height(count);
	struct rec_box row = { p->left, 0, p->width, height * 0.88 };
	struct rec_ink ink = { 0 };
	struct groups lanes;
	int rc = group(pic, true, &lanes, p->err);

	rec_canvas_open_panel(p, "lanes", "who runs; jobs that take turns lie on each other",
			      count * height);
	for (i = 0; rc >= 0 && i < count; i++) {
		const size_t *at = &lanes.first[i];

		row.y = p->y + (i + 0.06) * height;
		rec_ink_row(&ink, &p->axis, &row, lanes.spans + at[0], at[1] - at[0]);
		if (height >= REC_LABEL_ROW || i % 4 == 0)
			(void)fprintf(p->out,
				      "<text class=\"label\" x=\"%g\" y=\"%.6g\">lane %u</text>\n",
				      p->left - 8, p->y + (i + 0.5) * height + 3.5, i);
	}
	if (rc >= 0)
		rc = rec_ink_pour(&ink, p->out, p->err);
	for (i = 0; rc >= 0 && i < count; i++) {
		const size_t *at = &lanes.first[i];

		row.y = p->y + (i + 0.06) * height;
		tell_turns(p, pic, row, lanes.spans + at[0], at[1] - at[0]);
	}
	p->y += count * height;
	free(lanes.spans);
	free(lanes.first);
	return rc;
}
