/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dimensions that are nested alike on both sides are joined, and runs that are dense on both sides
 * are copied as one element. The two innermost of the remaining dimensions are a plane. If reading
 * would jump where writing is sequential (a transpose), the plane is copied in tiles, so that each
 * cache line is read once.
 */
#include "adaptor/buffer/strided.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "wire/messages.h"

#define TILE 32

struct axis {
	int64_t n, from, to;
};

struct plan {
	size_t rank; /* at least 2 */
	struct axis axes[SAL_RANK_MAX + 2]; /* outermost first; the last two are the plane */
	size_t element;
	int64_t tile;
};

static int by_place(const void *a, const void *b)
{
	int64_t x = llabs(((const struct axis *)a)->to), y = llabs(((const struct axis *)b)->to);

	return (x < y) - (x > y);
}

/*
 * All axes longer than 1, in the order in which they are written. False: there is nothing to copy.
 */
static bool list_axes(struct plan *p, const struct adp_strided *a)
{
	size_t i;

	p->rank = 0;
	for (i = 0; i < a->rank; i++) {
		if (a->dims[i] == 0)
			return false;
		if (a->dims[i] > 1)
			p->axes[p->rank++] = (struct axis){ a->dims[i], a->from[i], a->to[i] };
	}
	qsort(p->axes, p->rank, sizeof(p->axes[0]), by_place);
	return true;
}

static void join_axes(struct plan *p)
{
	size_t i, n = 0;

	for (i = 1; i < p->rank; i++) {
		struct axis *outer = &p->axes[n], inner = p->axes[i];

		if (outer->from == inner.from * inner.n && outer->to == inner.to * inner.n)
			*outer = (struct axis){ outer->n * inner.n, inner.from, inner.to };
		else
			p->axes[++n] = inner;
	}
	if (p->rank > 0)
		p->rank = n + 1;
}

static void join_elements(struct plan *p)
{
	struct axis last;

	if (p->rank == 0)
		return;
	last = p->axes[p->rank - 1];
	if (last.from == (int64_t)p->element && last.to == last.from) {
		p->element *= (size_t)last.n;
		p->rank--;
	}
}

/* The last axis is written in order; the axis that is read in order goes next to it. */
static void choose_plane(struct plan *p)
{
	struct axis *last, best;
	size_t i, k;

	while (p->rank < 2) {
		memmove(p->axes + 1, p->axes, p->rank * sizeof(p->axes[0]));
		p->axes[0] = (struct axis){ .n = 1 };
		p->rank++;
	}
	last = &p->axes[p->rank - 1];
	for (k = p->rank - 2, i = 0; i + 1 < p->rank; i++)
		if (p->axes[i].n > 1 && llabs(p->axes[i].from) < llabs(p->axes[k].from))
			k = i;
	best = p->axes[k];
	p->tile = INT64_MAX;
	if (best.n > 1 && llabs(best.from) < llabs(last->from)) {
		memmove(&p->axes[k], &p->axes[k + 1], (p->rank - 2 - k) * sizeof(best));
		p->axes[p->rank - 2] = best;
		p->tile = TILE;
	}
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* With a constant element this is one load and one store; else a call. */
static inline __attribute__((always_inline)) void copy_plane(const struct plan *p, const char *from,
							     char *to, size_t element)
{
	const struct axis x = p->axes[p->rank - 2], y = p->axes[p->rank - 1];
	int64_t i, j, i0, j0;

	for (i0 = 0; i0 < x.n; i0 += least(p->tile, x.n))
		for (j0 = 0; j0 < y.n; j0 += least(p->tile, y.n))
			for (i = i0; i < x.n && i - i0 < p->tile; i++)
				for (j = j0; j < y.n && j - j0 < p->tile; j++)
					memcpy(to + i * x.to + j * y.to,
					       from + i * x.from + j * y.from, element);
}

static void copy_axis(const struct plan *p, size_t d, const char *from, char *to)
{
	int64_t i;

	if (d + 2 < p->rank) {
		for (i = 0; i < p->axes[d].n; i++)
			copy_axis(p, d + 1, from + i * p->axes[d].from, to + i * p->axes[d].to);
		return;
	}
	switch (p->element) {
	case 1:
		copy_plane(p, from, to, 1);
		break;
	case 2:
		copy_plane(p, from, to, 2);
		break;
	case 4:
		copy_plane(p, from, to, 4);
		break;
	case 8:
		copy_plane(p, from, to, 8);
		break;
	default:
		copy_plane(p, from, to, p->element);
		break;
	}
}

void adp_copy_strided(const struct adp_strided *array, const char *from, char *to)
{
	struct plan p = { .element = array->element };

	if (!list_axes(&p, array))
		return;
	join_axes(&p);
	join_elements(&p);
	choose_plane(&p);
	copy_axis(&p, 0, from, to);
}

bool adp_dense_strides(size_t rank, size_t element, const int64_t *dims,
		       const int64_t *minor_to_major, int64_t *out)
{
	bool seen[SAL_RANK_MAX] = { false };
	int64_t stride = (int64_t)element;
	size_t i;

	for (i = 0; i < rank; i++) {
		int64_t dim = minor_to_major[i];

		if (dim < 0 || dim >= (int64_t)rank || seen[dim])
			return false;
		seen[dim] = true;
		out[dim] = stride;
		stride *= dims[dim];
	}
	return true;
}
