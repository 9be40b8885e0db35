/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ink - what svg.c draws with: axes, text, and hundreds of thousands of turns as a few paths.
 *
 * A turn as wide as a column of the time axis is a bar of its own. Shorter ones are summed up by
 * column: jobs that shared it lie on each other, each as high as its share is large, and the less of
 * the column was used the paler they are. Bars of one colour and paleness become one path. So the
 * size of a picture depends on its width and its rows, not on how often the jobs took turns.
 */
#ifndef SAL_RECORDING_DRAW_INK_H
#define SAL_RECORDING_DRAW_INK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "recording/draw/picture.h"

#define REC_COLOURS 9
#define REC_TINTS 6
#define REC_INKS ((size_t)2 * REC_COLOURS * REC_TINTS)

/* A stretch of time, cut into columns of equal length. */
struct rec_axis {
	uint64_t from_ns, to_ns; /* from < to */
	uint32_t columns;
};

/* Where a moment lies, in columns from the left; moments outside lie on the border. */
double rec_axis_at(const struct rec_axis *axis, uint64_t now_ns);

/* Add to each column `weight` times the share of the column that lies between the two moments. */
void rec_axis_add(const struct rec_axis *axis, uint64_t from_ns, uint64_t to_ns, double weight,
		  double *columns);

/* Steps between the marks of an axis, and the unit to tell them in. */
struct rec_scale {
	double step, unit;
	const char *name;
};

struct rec_scale rec_scale_time(double range_s);
struct rec_scale rec_scale_bytes(double range_bytes);

/* Text as XML wants it. It must be UTF-8 without control characters, as the trace reader sees to. */
void rec_put_xml(FILE *out, const char *text);

struct rec_box {
	double x, y, width, height;
};

/* Starts as { 0 }. Columns lie below bars. */
struct rec_ink {
	FILE *file[REC_INKS]; /* owned; NULL: nothing drawn with it yet */
	char *text[REC_INKS]; /* owned; what the file wrote */
	size_t size[REC_INKS];
	bool failed;
};

/*
 * Draw the turns of one job or one lane, which must be in order of time, into a row. Spans that are
 * not REC_RUN are passed over. The box gives the place of the whole axis.
 */
void rec_ink_row(struct rec_ink *ink, const struct rec_axis *axis, const struct rec_box *row,
		 const struct rec_span *spans, size_t count);

/* Write all paths and forget them. Fails if there was not enough memory for all bars. */
int rec_ink_pour(struct rec_ink *ink, FILE *out, struct sal_err *err);

#endif
