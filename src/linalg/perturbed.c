/* SPDX-License-Identifier: Apache-2.0 */
/* Tridiagonal systems that may be singular: JAX's tridiagonal_solve with perturb_singular. */
#include "linalg/call.h"

#include <complex.h>
#include <float.h>
#include <math.h>

#define SCALAR float
#define REAL float
#define ABS(x) fabsf(x)
#define PART(x) (x)
#define LEAST FLT_MIN
#define EPSILON FLT_EPSILON
#define SOLVE solve_s
#define ADJUST adjust_s
#include "linalg/perturbed_solve.h"

#define SCALAR double
#define REAL double
#define ABS(x) fabs(x)
#define PART(x) (x)
#define LEAST DBL_MIN
#define EPSILON DBL_EPSILON
#define SOLVE solve_d
#define ADJUST adjust_d
#include "linalg/perturbed_solve.h"

#define SCALAR float complex
#define REAL float
#define ABS(x) cabsf(x)
#define PART(x) crealf(x)
#define LEAST FLT_MIN
#define EPSILON FLT_EPSILON
#define SOLVE solve_c
#define ADJUST adjust_c
#include "linalg/perturbed_solve.h"

#define SCALAR double complex
#define REAL double
#define ABS(x) cabs(x)
#define PART(x) creal(x)
#define LEAST DBL_MIN
#define EPSILON DBL_EPSILON
#define SOLVE solve_z
#define ADJUST adjust_z
#include "linalg/perturbed_solve.h"

/* The target has one name for all types: the right-hand side tells the type. */
static bool read_type(struct linalg_call *c)
{
	for (int type = 0; type < LAPACK_TYPES; type++) {
		c->type = (enum lapack_type)type;
		if (c->args[3].element == sal_linalg_element(c->type))
			return true;
	}
	return false;
}

static int prepare(struct linalg_call *c)
{
	int32_t element;
	int rc = sal_linalg_counts(c, 4, 1);

	if (rc < 0)
		return rc;
	if (!read_type(c))
		return sal_linalg_bad(c, "its arguments are no floating-point numbers");
	element = sal_linalg_element(c->type);
	if ((rc = sal_linalg_sizes(c, &c->args[3])) < 0)
		return rc;
	for (size_t i = 0; i < 3; i++)
		if ((rc = sal_linalg_vector(c, &c->args[i], element, c->m)) < 0)
			return rc;
	if ((rc = sal_linalg_matrix(c, &c->args[3], element, c->m, c->n)) < 0)
		return rc;
	c->extra_bytes = (3 * (uint64_t)c->m + (uint64_t)c->n) * lapack_bytes(c->type);
	return sal_linalg_matrix(c, &c->rets[0], element, c->m, c->n);
}

static void solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	const void *dl = linalg_at(&c->args[0], i), *d = linalg_at(&c->args[1], i);
	const void *du = linalg_at(&c->args[2], i), *b = linalg_at(&c->args[3], i);
	size_t n = (size_t)c->m, columns = (size_t)c->n;
	void *x = linalg_at(&c->rets[0], i), *u = space->extra;
	void *row = (char *)u + 3 * n * lapack_bytes(c->type);

	if (c->type == LAPACK_S)
		solve_s(n, columns, dl, d, du, b, x, u, row);
	else if (c->type == LAPACK_D)
		solve_d(n, columns, dl, d, du, b, x, u, row);
	else if (c->type == LAPACK_C)
		solve_c(n, columns, dl, d, du, b, x, u, row);
	else
		solve_z(n, columns, dl, d, du, b, x, u, row);
}

const struct linalg_routine sal_linalg_perturbed = {
	.prepare = prepare,
	.solve = solve,
	.own = "solve",
};
