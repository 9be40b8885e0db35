/* SPDX-License-Identifier: Apache-2.0 */
/*
 * svg_impl - what the files that draw a picture share.
 *
 *     svg.c         the whole: head, legend, time axis
 *     svg_rows.c    the panels of jobs and lanes
 *     svg_memory.c  the panel of memory
 */
#ifndef SAL_RECORDING_DRAW_SVG_IMPL_H
#define SAL_RECORDING_DRAW_SVG_IMPL_H

#include <stdio.h>

#include "recording/draw/ink.h"

#define REC_GAP 26.0 /* above a panel, with its name in it */
#define REC_MEMORY_HEIGHT 110.0
#define REC_LABEL_ROW 9.0 /* lowest row that gets a name */

/* The page, and the position reached. */
struct rec_canvas {
	FILE *out;
	struct rec_axis axis;
	double left, width;
	double y; /* top of the panel being drawn */
	double row; /* height of a job's row */
	struct sal_err *err;
};

double rec_canvas_x(const struct rec_canvas *p, uint64_t now_ns);

/* A moment as the axis shows it: from the first submission. buf has SAL_UNITS_TEXT bytes. */
const char *rec_canvas_moment(const struct rec_canvas *p, uint64_t now_ns, char *buf);

/*
 * An invisible box with a tooltip that starts with a name. The caller may add text before it closes
 * the box.
 */
void rec_canvas_open_tip(const struct rec_canvas *p, struct rec_box box, const char *name);
void rec_canvas_close_tip(const struct rec_canvas *p);

void rec_canvas_open_panel(struct rec_canvas *p, const char *name, const char *what, double height);

/* Number of lanes, up to the last one that ran anything, and the height of a lane's row. */
uint32_t rec_lane_count(const struct rec_picture *pic);
double rec_lane_height(uint32_t lanes);

/* Each draws one panel at p->y, and moves p->y below it. */
int rec_draw_jobs(struct rec_canvas *p, const struct rec_picture *pic);
int rec_draw_lanes(struct rec_canvas *p, const struct rec_picture *pic);
int rec_draw_memory(struct rec_canvas *p, const struct rec_picture *pic);

#endif
