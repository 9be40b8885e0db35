/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "recording/draw/svg_impl.h"

/* A step function as an area; `base` is the border it grows from, `scale` pixels for a byte. */
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

static void draw_bytes_axis(const struct rec_canvas *p, double capacity)
{
	struct rec_scale scale = rec_scale_bytes(capacity);
	int i;

	/* The capacity itself is told below, and needs room. */
	for (i = 0; i * scale.step < capacity * 0.9; i++) {
		double y = p->y + REC_MEMORY_HEIGHT * (1 - i * scale.step / capacity);

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
int rec_draw_memory(struct rec_canvas *p, const struct rec_picture *pic)
{
	double *persist = calloc(p->axis.columns, sizeof(*persist));
	double *lanes = calloc(p->axis.columns, sizeof(*lanes));
	double scale = REC_MEMORY_HEIGHT / (double)pic->capacity_bytes;
	size_t i;

	rec_canvas_open_panel(p, "memory",
			      "persistent bytes from below, lanes from above, free between",
			      REC_MEMORY_HEIGHT);
	for (i = 0; persist && lanes && i < pic->sample_count; i++) {
		const struct rec_sample *s = &pic->samples[i];
		uint64_t end = i + 1 < pic->sample_count ? s[1].now_ns : p->axis.to_ns;

		rec_axis_add(&p->axis, s->now_ns, end, (double)s->persist_bytes, persist);
		rec_axis_add(&p->axis, s->now_ns, end, (double)s->lane_sum_bytes, lanes);
	}
	if (persist && lanes) {
		draw_area(p, "persist", persist, p->y + REC_MEMORY_HEIGHT, -scale);
		draw_area(p, "scratch", lanes, p->y, scale);
		draw_bytes_axis(p, (double)pic->capacity_bytes);
	}
	p->y += REC_MEMORY_HEIGHT;
	i = persist && lanes;
	free(persist);
	free(lanes);
	return i ? SAL_OK : sal_err_set(p->err, SAL_RESOURCE_EXHAUSTED, "out of memory");
}
