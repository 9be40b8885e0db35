/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom calls of JAX that need no LAPACK: the product of a sparse matrix (CSR) with a dense one,
 * and a sink, which only keeps its argument from being optimised away.
 *
 * The job chooses the indices. An index outside of the matrix is left out: JAX pads with such.
 */
#include "linalg/call.h"

#include <complex.h>

#include "base/array.h"

/* Arguments: numbers, starts of rows, columns of numbers, the dense matrix. */
enum {
	NUMBERS,
	STARTS,
	COLUMNS,
	DENSE
};

/* The place of a row's start among the numbers, whatever the job wrote there. */
static int64_t place(int64_t start, int64_t count)
{
	return start < 0 ? 0 : start < count ? start : count;
}

/* The result starts as zeros. Integers are unsigned here: they may overflow. */
/* NOLINTBEGIN(bugprone-macro-parentheses): types */
#define PRODUCT(name, scalar, index)                                                          \
	static void name(const struct linalg_call *c)                                         \
	{                                                                                     \
		const scalar *numbers = c->args[NUMBERS].data, *dense = c->args[DENSE].data;  \
		const index *starts = c->args[STARTS].data, *columns = c->args[COLUMNS].data; \
		int64_t count = c->args[NUMBERS].dims[0], height = c->args[DENSE].dims[0];    \
		scalar *out = c->rets[0].data;                                                \
                                                                                              \
		for (int64_t row = 0; row < c->m; row++, out += c->n) {                       \
			int64_t end = place(starts[row + 1], count);                          \
                                                                                              \
			for (int64_t i = place(starts[row], count); i < end; i++) {           \
				int64_t at = columns[i];                                      \
                                                                                              \
				for (int32_t k = 0; at >= 0 && at < height && k < c->n; k++)  \
					out[k] += numbers[i] * dense[at * c->n + k];          \
			}                                                                     \
		}                                                                             \
	}
/* NOLINTEND(bugprone-macro-parentheses) */
#define PRODUCTS(letter, scalar)                       \
	PRODUCT(product_##letter##32, scalar, int32_t) \
	PRODUCT(product_##letter##64, scalar, int64_t)

PRODUCTS(i, uint32_t)
PRODUCTS(l, uint64_t)
PRODUCTS(s, float)
PRODUCTS(d, double)
PRODUCTS(c, float complex)
PRODUCTS(z, double complex)

static const struct kind {
	int32_t element;
	size_t bytes;
	void (*product[2])(const struct linalg_call *c); /* by indices of 32 and of 64 bits */
} kinds[] = {
	{ LINALG_S32, 4, { product_i32, product_i64 } },
	{ LINALG_S64, 8, { product_l32, product_l64 } },
	{ LINALG_F32, 4, { product_s32, product_s64 } },
	{ LINALG_F64, 8, { product_d32, product_d64 } },
	{ LINALG_C64, 8, { product_c32, product_c64 } },
	{ LINALG_C128, 16, { product_z32, product_z64 } },
};

static const struct kind *find_kind(const struct linalg_call *c)
{
	for (size_t i = 0; i < SAL_COUNT(kinds); i++)
		if (kinds[i].element == c->args[NUMBERS].element)
			return &kinds[i];
	return NULL;
}

static bool has_types(const struct linalg_call *c)
{
	int32_t element = c->args[NUMBERS].element, index = c->args[STARTS].element;

	return c->args[DENSE].element == element && c->rets[0].element == element &&
	       c->args[COLUMNS].element == index && (index == LINALG_S32 || index == LINALG_S64);
}

/* A dense array is a matrix or a vector, and so is the result. */
static bool has_shapes(const struct linalg_call *c)
{
	const struct linalg_array *dense = &c->args[DENSE], *out = &c->rets[0];

	if (c->args[NUMBERS].rank != 1 || c->args[STARTS].rank != 1 || c->args[COLUMNS].rank != 1 ||
	    (dense->rank != 1 && dense->rank != 2) || out->rank != dense->rank)
		return false;
	return c->args[COLUMNS].dims[0] == c->args[NUMBERS].dims[0] &&
	       c->args[STARTS].dims[0] - 1 == out->dims[0] && out->dims[0] <= INT32_MAX &&
	       (out->rank == 1 || (out->dims[1] == dense->dims[1] && out->dims[1] <= INT32_MAX));
}

static int csr_prepare(struct linalg_call *c)
{
	const struct kind *kind;
	int rc = sal_linalg_counts(c, 4, 1);

	if (rc < 0)
		return rc;
	kind = find_kind(c);
	if (!kind || !has_types(c) || !has_shapes(c))
		return sal_linalg_bad(c, "its arguments are no sparse and no dense matrix");
	c->batch = 1;
	c->m = (int32_t)c->rets[0].dims[0];
	c->n = c->rets[0].rank == 1 ? 1 : (int32_t)c->rets[0].dims[1];
	c->rets[0].step = (size_t)c->m * (size_t)c->n * kind->bytes;
	return SAL_OK;
}

static void csr_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	(void)i;
	(void)space;
	find_kind(c)->product[c->args[STARTS].element == LINALG_S64](c);
}

const struct linalg_routine sal_linalg_csr = {
	.prepare = csr_prepare,
	.solve = csr_solve,
	.own = "csr",
};

/* The sink */

static int sink_prepare(struct linalg_call *c)
{
	c->batch = 0;
	return sal_linalg_counts(c, 1, 0);
}

static void sink_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	(void)c;
	(void)i;
	(void)space;
}

const struct linalg_routine sal_linalg_sink = {
	.prepare = sink_prepare,
	.solve = sink_solve,
	.own = "sink",
};
