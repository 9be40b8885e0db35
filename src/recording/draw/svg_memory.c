/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/units.h"
#include "recording/draw/svg_impl.h"

/*
 * If the jobs use less than one part in so many of the device, only the lower part of the memory is
 * drawn.
 */
#define ZOOM 4
#define HEADROOM 1.1

/* Draws a step function as an area. It grows from `base`, `scale` pixels per byte. */
static void draw_area(const struct rec_canvas *p, const char *class, const double *bytes,
		      double base, double scale)
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

/* The panel's scale. */
struct axis {
	double top; /* bytes at the upper border */
	bool is_zoomed; /* the top is below the capacity, to make small use visible */
};

/* Shows the whole device, or only the lower part if less than a quarter was used. */
static struct axis choose_axis(const struct rec_picture *pic)
{
	double peak = 0, capacity = (double)pic->capacity_bytes, step;
	size_t i;

	for (i = 0; i < pic->sample_count; i++)
		peak = fmax(peak, (double)pic->samples[i].persist_bytes +
					  (double)pic->samples[i].lane_sum_bytes);
	if (peak <= 0 || peak * ZOOM >= capacity)
		return (struct axis){ capacity, false };
	step = rec_scale_bytes(peak * HEADROOM).step;
	return (struct axis){ ceil(peak * HEADROOM / step) * step, true };
}

static void draw_bytes_axis(const struct rec_canvas *p, const struct axis *axis)
{
	struct rec_scale scale = rec_scale_bytes(axis->top);
	int i;

	/* The label of the top needs room. */
	for (i = 0; i * scale.step < axis->top * 0.9; i++) {
		double y = p->y + REC_MEMORY_HEIGHT * (1 - i * scale.step / axis->top);

		(void)fprintf(p->out,
			      "<path class=\"grid\" d=\"M%g %.6gh%g\"/>"
			      "<text class=\"label\" x=\"%g\" y=\"%.6g\">%g %s</text>\n",
			      p->left, y, p->width, p->left - 8, y + 3.5,
			      i * scale.step / scale.unit, i > 0 ? scale.name : "");
	}
	(void)fprintf(p->out,
		      "<path class=\"%s\" d=\"M%g %gh%g\"/>"
		      "<text class=\"label strong\" x=\"%g\" y=\"%g\">%.3g %s</text>\n",
		      axis->is_zoomed ? "grid" : "capacity", p->left, p->y, p->width, p->left - 8,
		      p->y + 3.5, axis->top / scale.unit, scale.name);
}

/* Average bytes of each column. A peak shorter than a column appears lower. */
struct use {
	double *persist, *lanes; /* owned */
};

static int gather(const struct rec_canvas *p, const struct rec_picture *pic, struct use *out)
{
	size_t i;

	out->persist = calloc(p->axis.columns, sizeof(*out->persist));
	out->lanes = calloc(p->axis.columns, sizeof(*out->lanes));
	if (!out->persist || !out->lanes)
		return sal_err_set(p->err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	for (i = 0; i < pic->sample_count; i++) {
		const struct rec_sample *s = &pic->samples[i];
		uint64_t end = i + 1 < pic->sample_count ? s[1].now_ns : p->axis.to_ns;

		rec_axis_add(&p->axis, s->now_ns, end, (double)s->persist_bytes, out->persist);
		rec_axis_add(&p->axis, s->now_ns, end, (double)s->lane_sum_bytes, out->lanes);
	}
	return SAL_OK;
}

static void draw_zoomed(const struct rec_canvas *p, struct use *use, double scale)
{
	double bottom = p->y + REC_MEMORY_HEIGHT;
	uint32_t i;

	for (i = 0; i < p->axis.columns; i++)
		use->lanes[i] += use->persist[i];
	draw_area(p, "scratch", use->lanes, bottom, -scale);
	draw_area(p, "persist", use->persist, bottom, -scale);
}

static void open_panel(struct rec_canvas *p, const struct rec_picture *pic, const struct axis *axis)
{
	char top[SAL_UNITS_TEXT], all[SAL_UNITS_TEXT], what[120];

	(void)snprintf(what, sizeof(what),
		       "the lowest %s of %s: persistent bytes, lanes on top of them",
		       sal_bytes_format((uint64_t)axis->top, top, sizeof(top)),
		       sal_bytes_format(pic->capacity_bytes, all, sizeof(all)));
	rec_canvas_open_panel(
		p, "memory",
		axis->is_zoomed ? what
				: "persistent bytes from below, lanes from above, free between",
		REC_MEMORY_HEIGHT);
}

int rec_draw_memory(struct rec_canvas *p, const struct rec_picture *pic)
{
	struct axis axis = choose_axis(pic);
	double scale = REC_MEMORY_HEIGHT / axis.top;
	struct use use;
	int rc = gather(p, pic, &use);

	open_panel(p, pic, &axis);
	if (rc >= 0 && axis.is_zoomed) {
		draw_zoomed(p, &use, scale);
	} else if (rc >= 0) {
		draw_area(p, "persist", use.persist, p->y + REC_MEMORY_HEIGHT, -scale);
		draw_area(p, "scratch", use.lanes, p->y, scale);
	}
	draw_bytes_axis(p, &axis);
	p->y += REC_MEMORY_HEIGHT;
	free(use.persist);
	free(use.lanes);
	return rc;
}
