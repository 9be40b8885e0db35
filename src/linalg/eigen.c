/* SPDX-License-Identifier: Apache-2.0 */
/* Eigenvalues and eigenvectors of symmetric, Hermitian and general matrices. */
#include "linalg/call.h"

#include <math.h>
#include <string.h>

/* info of geev for a matrix with infinities or NaN: LAPACK is not called. */
#define INFO_NOT_FINITE (-4)

/* syevd, heevd */

typedef void syevd_fn(const char *mode, const char *uplo, const int32_t *n, void *a,
		      const int32_t *lda, void *values, void *work, const int32_t *work_count,
		      int32_t *ints, const int32_t *int_count, int32_t *info, size_t, size_t);
typedef void heevd_fn(const char *mode, const char *uplo, const int32_t *n, void *a,
		      const int32_t *lda, void *values, void *work, const int32_t *work_count,
		      void *real, const int32_t *real_count, int32_t *ints,
		      const int32_t *int_count, int32_t *info, size_t, size_t);

/* The least counts that LAPACK accepts. More of work is faster: see ask_work. */
static void syevd_counts(struct linalg_call *c)
{
	int64_t n = c->n;
	bool vectors = c->flags[0] == 'V';

	c->int_count = vectors ? 3 + 5 * n : 1;
	if (lapack_is_complex(c->type)) {
		c->work_count = vectors ? 2 * n + n * n : n + 1;
		c->real_count = vectors ? 1 + 5 * n + 2 * n * n : n + 1;
	} else {
		c->work_count = vectors ? 1 + 6 * n + 2 * n * n : 2 * n + 1;
	}
}

static int syevd_prepare(struct linalg_call *c)
{
	int rc = sal_linalg_counts(c, 1, 3);

	if (rc < 0 || (rc = sal_linalg_square(c, &c->args[0])) < 0 ||
	    (rc = sal_linalg_letter(c, "mode", "VN", &c->flags[0])) < 0 ||
	    (rc = sal_linalg_letter(c, "uplo", "LU", &c->flags[1])) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[0], sal_linalg_element(c->type), c->m, c->n)) < 0 ||
	    (rc = sal_linalg_carry(c, 0, 0)) < 0 ||
	    (rc = sal_linalg_vector(c, &c->rets[1], sal_linalg_element(lapack_real(c->type)),
				    c->n)) < 0)
		return rc;
	syevd_counts(c);
	return sal_linalg_info(c, &c->rets[2]);
}

static void syevd_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	int32_t int_count = (int32_t)c->int_count, real_count = (int32_t)c->real_count;
	void *a = linalg_at(&c->rets[0], i), *values = linalg_at(&c->rets[1], i);

	if (lapack_is_complex(c->type))
		LINALG_FN(c, heevd_fn)
	(&c->flags[0], &c->flags[1], &c->n, a, &c->n, values, space->work, &space->work_count,
	 space->real, &real_count, space->ints, &int_count, &space->info, 1, 1);
	else LINALG_FN(c, syevd_fn)(&c->flags[0], &c->flags[1], &c->n, a, &c->n, values,
				    space->work, &space->work_count, space->ints, &int_count,
				    &space->info, 1, 1);
}

const struct linalg_routine sal_linalg_syevd = {
	.name = LAPACK_SYEVD,
	.prepare = syevd_prepare,
	.solve = syevd_solve,
	.has_work = true,
};

/* geev */

typedef void geev_real_fn(const char *left, const char *right, const int32_t *n, void *a,
			  const int32_t *lda, void *values, void *imaginary, void *vl,
			  const int32_t *ldvl, void *vr, const int32_t *ldvr, void *work,
			  const int32_t *work_count, int32_t *info, size_t, size_t);
typedef void geev_complex_fn(const char *left, const char *right, const int32_t *n, void *a,
			     const int32_t *lda, void *values, void *vl, const int32_t *ldvl,
			     void *vr, const int32_t *ldvr, void *work, const int32_t *work_count,
			     void *real, int32_t *info, size_t, size_t);

/* Results: values, for real matrices also their imaginary parts; left and right vectors; info. */
static int geev_results(struct linalg_call *c)
{
	bool complex = lapack_is_complex(c->type);
	size_t r = complex ? 1 : 2;
	int32_t vectors = lapack_real(c->type) == LAPACK_S ? LINALG_C64 : LINALG_C128;
	int rc = sal_linalg_counts(c, 1, complex ? 4 : 5);

	if (rc < 0 || (rc = sal_linalg_square(c, &c->args[0])) < 0)
		return rc;
	for (size_t i = 0; i < r; i++)
		if ((rc = sal_linalg_vector(c, &c->rets[i], sal_linalg_element(c->type), c->n)) < 0)
			return rc;
	if ((rc = sal_linalg_matrix(c, &c->rets[r], vectors, c->n, c->n)) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->rets[r + 1], vectors, c->n, c->n)) < 0)
		return rc;
	return sal_linalg_info(c, &c->rets[r + 2]);
}

/* Extra memory: a copy of the matrix; for real matrices also LAPACK's form of the vectors. */
static int geev_prepare(struct linalg_call *c)
{
	int rc = geev_results(c);
	uint64_t bytes = (uint64_t)c->n * (uint64_t)c->n * lapack_bytes(c->type);

	if (rc < 0 || (rc = sal_linalg_letter(c, "compute_left", "VN", &c->flags[0])) < 0 ||
	    (rc = sal_linalg_letter(c, "compute_right", "VN", &c->flags[1])) < 0)
		return rc;
	c->real_count = lapack_is_complex(c->type) ? 2 * (int64_t)c->n : 0;
	c->extra_bytes = lapack_is_complex(c->type) ? bytes : 3 * bytes;
	return sal_linalg_matrix(c, &c->args[0], sal_linalg_element(c->type), c->n, c->n);
}

static bool is_finite(const struct linalg_call *c, const void *numbers, size_t bytes)
{
	if (lapack_real(c->type) == LAPACK_S) {
		for (size_t i = 0; i < bytes / sizeof(float); i++)
			if (!isfinite(((const float *)numbers)[i]))
				return false;
	} else {
		for (size_t i = 0; i < bytes / sizeof(double); i++)
			if (!isfinite(((const double *)numbers)[i]))
				return false;
	}
	return true;
}

/*
 * LAPACK stores the vectors of two conjugate eigenvalues as two real columns, the real and the
 * imaginary part of the first vector. n is positive.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type */
#define DEFINE_UNPACK(name, real)                                                        \
	static void name(size_t n, const real *imaginary, const real *packed, real *out) \
	{                                                                                \
		for (size_t j = 0; j < n; j++) {                                         \
			bool pair = imaginary[j] != 0 && j + 1 < n;                      \
			const real *re = packed + j * n, *im = re + n;                   \
                                                                                         \
			for (size_t i = 0; i < n; i++) {                                 \
				real *first = out + 2 * (j * n + i);                     \
                                                                                         \
				first[0] = re[i];                                        \
				first[1] = pair ? im[i] : 0;                             \
				if (pair) {                                              \
					first[2 * n] = re[i];                            \
					first[2 * n + 1] = -im[i];                       \
				}                                                        \
			}                                                                \
			j += pair;                                                       \
		}                                                                        \
	}
/* NOLINTEND(bugprone-macro-parentheses) */

DEFINE_UNPACK(unpack_single, float)
DEFINE_UNPACK(unpack_double, double)

static void unpack(const struct linalg_call *c, const void *imaginary, const void *packed,
		   void *out)
{
	if (c->type == LAPACK_S)
		unpack_single((size_t)c->n, imaginary, packed, out);
	else
		unpack_double((size_t)c->n, imaginary, packed, out);
}

static void geev_real(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	void *values = linalg_at(&c->rets[0], i), *imaginary = linalg_at(&c->rets[1], i);
	size_t step = c->args[0].step;
	char *a = space->extra, *vl = a ? a + step : NULL, *vr = a ? vl + step : NULL;

	LINALG_FN(c, geev_real_fn)
	(&c->flags[0], &c->flags[1], &c->n, a, &c->n, values, imaginary, vl, &c->n, vr, &c->n,
	 space->work, &space->work_count, &space->info, 1, 1);
	if (space->work_count < 0 || space->info != 0)
		return;
	if (c->flags[0] == 'V')
		unpack(c, imaginary, vl, linalg_at(&c->rets[2], i));
	if (c->flags[1] == 'V')
		unpack(c, imaginary, vr, linalg_at(&c->rets[3], i));
}

static void geev_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	if (space->work_count >= 0) {
		memcpy(space->extra, linalg_at(&c->args[0], i), c->args[0].step);
		if (!is_finite(c, space->extra, c->args[0].step)) {
			space->info = INFO_NOT_FINITE;
			return;
		}
	}
	if (!lapack_is_complex(c->type)) {
		geev_real(c, i, space);
		return;
	}
	LINALG_FN(c, geev_complex_fn)
	(&c->flags[0], &c->flags[1], &c->n, space->extra, &c->n, linalg_at(&c->rets[0], i),
	 linalg_at(&c->rets[1], i), &c->n, linalg_at(&c->rets[2], i), &c->n, space->work,
	 &space->work_count, space->real, &space->info, 1, 1);
}

const struct linalg_routine sal_linalg_geev = {
	.name = LAPACK_GEEV,
	.prepare = geev_prepare,
	.solve = geev_solve,
	.has_work = true,
};
