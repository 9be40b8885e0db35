/* SPDX-License-Identifier: Apache-2.0 */
#include "recording/draw/ink.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* The scheme "muted" of Paul Tol, in an order that keeps neighbours far apart. */
static const unsigned palette[REC_COLOURS] = {
	0x332288, 0xcc6677, 0x44aa99, 0xddcc77, 0x882255, 0x88ccee, 0x117733, 0xaa4499, 0x999933,
};

/* Jobs drawn in one column. With more, each would be too thin to see. */
#define PARTS_MAX 64

enum layer {
	COLUMNS,
	BARS
};

/* A job's part of a column. */
struct part {
	uint32_t job;
	double share;
};

/* A row that is being drawn, and the column that its turns have reached. */
struct row {
	struct rec_ink *ink;
	const struct rec_axis *axis;
	const struct rec_box *box;
	double column_width;
	uint32_t column;
	struct part parts[PARTS_MAX];
	size_t count;
	double wide; /* share of the column under bars of their own */
	struct rec_box bar; /* of equal columns so far; width 0: none */
	size_t bar_ink;
};

double rec_axis_at(const struct rec_axis *axis, uint64_t now_ns)
{
	if (now_ns <= axis->from_ns)
		return 0;
	if (now_ns >= axis->to_ns)
		return axis->columns;
	return (double)(now_ns - axis->from_ns) / (double)(axis->to_ns - axis->from_ns) *
	       axis->columns;
}

void rec_axis_add(const struct rec_axis *axis, uint64_t from_ns, uint64_t to_ns, double weight,
		  double *columns)
{
	double from = rec_axis_at(axis, from_ns), to = rec_axis_at(axis, to_ns);
	uint32_t i;

	for (i = (uint32_t)from; i < axis->columns && i < to; i++)
		columns[i] += weight * (fmin(to, i + 1.0) - fmax(from, i));
}

/*
 * The smallest step of 1, 2 or 5 times a power of ten that divides the range into at most `most`
 * parts.
 */
static double decimal_step(double range, double most)
{
	double tens = pow(10, floor(log10(range / most)));
	double least = range / most / tens * (1 - 1e-9);

	return least <= 1 ? tens : least <= 2 ? 2 * tens : least <= 5 ? 5 * tens : 10 * tens;
}

struct rec_scale rec_scale_time(double range_s)
{
	static const double steps[] = { 1,   2,	  5,	10,   15,   30,	   60,	  120,
					300, 600, 1800, 3600, 7200, 14400, 21600, 43200 };
	double most = 11, step = 86400 * fmax(1, decimal_step(range_s / 86400, most));
	size_t i;

	for (i = SAL_COUNT(steps); i > 0; i--)
		if (range_s / steps[i - 1] <= most)
			step = steps[i - 1];
	if (range_s <= 5)
		step = decimal_step(range_s, most);
	if (step < 1e-3)
		return (struct rec_scale){ step, 1e-6, "µs" };
	if (step < 1)
		return (struct rec_scale){ step, range_s > 1 ? 1 : 1e-3, range_s > 1 ? "s" : "ms" };
	if (step < 60)
		return (struct rec_scale){ step, 1, "s" };
	if (step < 3600)
		return (struct rec_scale){ step, 60, "min" };
	if (step < 86400)
		return (struct rec_scale){ step, 3600, "h" };
	return (struct rec_scale){ step, 86400, "d" };
}

struct rec_scale rec_scale_bytes(double range_bytes)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double unit = 1;
	size_t i = 0;

	while (range_bytes / unit >= 1024 && i + 1 < SAL_COUNT(names)) {
		unit *= 1024;
		i++;
	}
	return (struct rec_scale){ decimal_step(range_bytes / unit, 4) * unit, unit, names[i] };
}

void rec_put_xml(FILE *out, const char *text)
{
	static const char special[] = "<>&\"'";
	static const char *const names[] = { "&lt;", "&gt;", "&amp;", "&quot;", "&#39;" };

	for (; *text; text++) {
		const char *found = strchr(special, *text);

		if (found)
			(void)fputs(names[found - special], out);
		else
			(void)fputc(*text, out);
	}
}

/* A smaller share is paler, but never invisible. */
static unsigned tint_of(double share)
{
	double tint = sqrt(fmax(share, 0)) * (REC_TINTS - 1);

	return tint >= REC_TINTS - 1 ? REC_TINTS - 1 : (unsigned)lround(tint);
}

static unsigned pale(unsigned channel, unsigned tint)
{
	double full = 0.4 + 0.6 * tint / (REC_TINTS - 1);

	return (unsigned)lround(255 - (255 - (double)channel) * full);
}

static unsigned shade(unsigned colour, unsigned tint)
{
	return pale(colour >> 16, tint) << 16 | pale(colour >> 8 & 0xff, tint) << 8 |
	       pale(colour & 0xff, tint);
}

static double cents(double x)
{
	return round(x * 100) / 100;
}

static void add_box(struct rec_ink *ink, size_t which, const struct rec_box *b)
{
	if (!ink->file[which])
		ink->file[which] = open_memstream(&ink->text[which], &ink->size[which]);
	if (!ink->file[which])
		ink->failed = true;
	else
		(void)fprintf(ink->file[which], "M%g %gh%gv%gh%gz", cents(b->x), cents(b->y),
			      cents(b->width), cents(b->height), -cents(b->width));
}

static size_t ink_of(enum layer layer, uint32_t job, unsigned tint)
{
	return (layer * REC_COLOURS + job % REC_COLOURS) * REC_TINTS + tint;
}

static int by_number(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->job < y->job ? -1 : x->job > y->job;
}

/* Draws the bar that columns of equal colour form together. */
static void end_bar(struct row *r)
{
	if (r->bar.width > 0)
		add_box(r->ink, r->bar_ink, &r->bar);
	r->bar.width = 0;
}

static void add_part(struct row *r, const struct rec_box *part, size_t which)
{
	bool joins = r->bar.width > 0 && r->bar_ink == which && r->bar.y == part->y &&
		     r->bar.height == part->height &&
		     fabs(r->bar.x + r->bar.width - part->x) < 1e-6;

	if (joins) {
		r->bar.width += part->width;
		return;
	}
	end_bar(r);
	r->bar = *part;
	r->bar_ink = which;
}

static void end_column(struct row *r)
{
	struct rec_box part = { .y = r->box->y, .width = r->column_width };
	double sum = 0;
	unsigned tint;
	size_t i;

	for (i = 0; i < r->count; i++)
		sum += r->parts[i].share;
	part.x = r->box->x + r->column * r->column_width;
	tint = tint_of(sum / fmax(1 - r->wide, sum));
	qsort(r->parts, r->count, sizeof(r->parts[0]), by_number);
	for (i = 0; i < r->count; i++) {
		part.height = r->box->height * (r->parts[i].share / sum);
		add_part(r, &part, ink_of(COLUMNS, r->parts[i].job, tint));
		part.y += part.height;
	}
	r->count = 0;
	r->wide = 0;
}

static void add_share(struct row *r, uint32_t job, double share)
{
	size_t i;

	for (i = 0; i < r->count && r->parts[i].job != job; i++)
		;
	if (i == PARTS_MAX)
		return;
	if (i == r->count)
		r->parts[r->count++] = (struct part){ .job = job };
	r->parts[i].share += share;
}

static void add_turn(struct row *r, const struct rec_span *span)
{
	double from = rec_axis_at(r->axis, span->from_ns), to = rec_axis_at(r->axis, span->to_ns);
	struct rec_box bar = { r->box->x + from * r->column_width, r->box->y,
			       (to - from) * r->column_width, r->box->height };
	bool is_wide = to - from >= 1;
	uint32_t i;

	if (is_wide)
		add_box(r->ink, ink_of(BARS, span->job, REC_TINTS - 1), &bar);
	for (i = (uint32_t)from; i < r->axis->columns && i < to; i++) {
		double share = fmin(to, i + 1.0) - fmax(from, i);

		if (i != r->column)
			end_column(r);
		r->column = i;
		if (is_wide)
			r->wide += share;
		else
			add_share(r, span->job, share);
	}
}

void rec_ink_row(struct rec_ink *ink, const struct rec_axis *axis, const struct rec_box *box,
		 const struct rec_span *spans, size_t count)
{
	struct row r = { .ink = ink, .axis = axis, .box = box };
	size_t i;

	r.column_width = box->width / axis->columns;
	for (i = 0; i < count; i++)
		if (spans[i].kind == REC_RUN)
			add_turn(&r, &spans[i]);
	end_column(&r);
	end_bar(&r);
}

int rec_ink_pour(struct rec_ink *ink, FILE *out, struct sal_err *err)
{
	bool failed = ink->failed;
	size_t i;

	for (i = 0; i < REC_INKS; i++) {
		if (!ink->file[i])
			continue;
		failed |= ferror(ink->file[i]) != 0;
		failed |= fclose(ink->file[i]) != 0;
		if (!failed)
			(void)fprintf(out, "<path fill=\"#%06x\" d=\"%s\"/>\n",
				      shade(palette[i / REC_TINTS % REC_COLOURS], i % REC_TINTS),
				      ink->text[i]);
		free(ink->text[i]);
	}
	memset(ink, 0, sizeof(*ink));
	return failed ? sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory") : SAL_OK;
}
