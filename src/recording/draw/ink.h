/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ink - axes, text, and hundreds of thousands of turns as a few paths.
 *
 * A turn at least as wide as a column of the time axis is a bar of its own. Shorter turns are
 * summed up by column: the jobs of a column lie above each other, each as high as its share. The
 * smaller the used part of the column, the paler they are. Bars of one colour and paleness become
 * one path. So the size of a picture depends on its width and its rows, not on the number of turns.
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

/* The place of a moment, in columns from the left. Moments outside lie on the border. */
double rec_axis_at(const struct rec_axis *axis, uint64_t now_ns);

/* Add to each column `weight` times the share of the column that lies between the two moments. */
void rec_axis_add(const struct rec_axis *axis, uint64_t from_ns, uint64_t to_ns, double weight,
		  double *columns);

/* Step between the marks of an axis, and the unit of their labels. */
struct rec_scale {
	double step, unit;
	const char *name;
};

struct rec_scale rec_scale_time(double range_s);
struct rec_scale rec_scale_bytes(double range_bytes);

/*
 * Writes text with the escapes of XML. It must be UTF-8 without control characters; the readers
 * check that.
 */
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
 * Draws the turns of one job or one lane, which must be in order of time, into a row. Skips spans
 * that are not REC_RUN. The box is the place of the whole axis.
 */
void rec_ink_row(struct rec_ink *ink, const struct rec_axis *axis, const struct rec_box *row,
		 const struct rec_span *spans, size_t count);

/* Writes all paths and forgets them. Fails if there was not enough memory for all bars. */
int rec_ink_pour(struct rec_ink *ink, FILE *out, struct sal_err *err);

#endif
