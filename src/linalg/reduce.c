/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions to simpler matrices: Schur (gees), Hessenberg (gehrd), tridiagonal (sytrd). */
#include "linalg/call.h"

/* gees. Eigenvalues are never sorted, so LAPACK gets no function to select them. */

typedef void gees_real_fn(const char *mode, const char *sort, const void *select, const int32_t *n,
			  void *a, const int32_t *lda, int32_t *selected, void *values,
			  void *imaginary, void *vectors, const int32_t *ldvs, void *work,
			  const int32_t *work_count, int32_t *flags, int32_t *info, size_t, size_t);
typedef void gees_complex_fn(const char *mode, const char *sort, const void *select,
			     const int32_t *n, void *a, const int32_t *lda, int32_t *selected,
			     void *values, void *vectors, const int32_t *ldvs, void *work,
			     const int32_t *work_count, void *real, int32_t *flags, int32_t *info,
			     size_t, size_t);

/* Results: the Schur form, vectors, values (real matrices: two parts), how many selected, info. */
static int gees_prepare(struct linalg_call *c)
{
	int32_t element = sal_linalg_element(c->type);
	size_t parts = lapack_is_complex(c->type) ? 1 : 2;
	int rc = sal_linalg_counts(c, 1, 4 + parts);

	if (rc < 0 || (rc = sal_linalg_square(c, &c->args[0])) < 0 ||
	    (rc = sal_linalg_letter(c, "mode", "VN", &c->flags[0])) < 0 ||
	    (rc = sal_linalg_letter(c, "sort", "N", &c->flags[1])) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[0], element, c->n, c->n)) < 0 ||
	    (rc = sal_linalg_carry(c, 0, 0)) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->rets[1], element, c->n, c->n)) < 0)
		return rc;
	for (size_t i = 0; i < parts; i++)
		if ((rc = sal_linalg_vector(c, &c->rets[2 + i], element, c->n)) < 0)
			return rc;
	c->real_count = lapack_is_complex(c->type) ? c->n : 0;
	c->int_count = c->n;
	rc = sal_linalg_number(c, &c->rets[2 + parts], LINALG_S32);
	return rc < 0 ? rc : sal_linalg_info(c, &c->rets[3 + parts]);
}

static void gees_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	void *a = linalg_at(&c->rets[0], i), *vectors = linalg_at(&c->rets[1], i);
	void *values = linalg_at(&c->rets[2], i);
	int32_t selected = 0;

	if (lapack_is_complex(c->type))
		LINALG_FN(c, gees_complex_fn)
	(&c->flags[0], &c->flags[1], NULL, &c->n, a, &c->n, &selected, values, vectors, &c->n,
	 space->work, &space->work_count, space->real, space->ints, &space->info, 1, 1);
	else LINALG_FN(c, gees_real_fn)(&c->flags[0], &c->flags[1], NULL, &c->n, a, &c->n,
					&selected, values, linalg_at(&c->rets[3], i), vectors,
					&c->n, space->work, &space->work_count, space->ints,
					&space->info, 1, 1);
}

const struct linalg_routine sal_linalg_gees = {
	.name = LAPACK_GEES,
	.prepare = gees_prepare,
	.solve = gees_solve,
	.has_work = true,
};

/* gehrd */

typedef void gehrd_fn(const int32_t *n, const int32_t *low, const int32_t *high, void *a,
		      const int32_t *lda, void *tau, void *work, const int32_t *work_count,
		      int32_t *info);

static int gehrd_prepare(struct linalg_call *c)
{
	int32_t element = sal_linalg_element(c->type);
	int rc = sal_linalg_counts(c, 1, 3);

	if (rc < 0 || (rc = sal_linalg_square(c, &c->args[0])) < 0)
		return rc;
	c->low = 1;
	c->high = c->n;
	if ((rc = sal_linalg_integer(c, "low", &c->low)) < 0 ||
	    (rc = sal_linalg_integer(c, "high", &c->high)) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[0], element, c->n, c->n)) < 0 ||
	    (rc = sal_linalg_carry(c, 0, 0)) < 0 ||
	    (rc = sal_linalg_vector(c, &c->rets[1], element, c->n > 0 ? c->n - 1 : 0)) < 0)
		return rc;
	if (c->n > 0 && (c->low < 1 || c->low > c->high || c->high > c->n))
		return sal_linalg_bad(c, "low and high are no range of rows");
	return sal_linalg_info(c, &c->rets[2]);
}

static void gehrd_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	LINALG_FN(c, gehrd_fn)
	(&c->n, &c->low, &c->high, linalg_at(&c->rets[0], i), &c->n, linalg_at(&c->rets[1], i),
	 space->work, &space->work_count, &space->info);
}

const struct linalg_routine sal_linalg_gehrd = {
	.name = LAPACK_GEHRD,
	.prepare = gehrd_prepare,
	.solve = gehrd_solve,
	.has_work = true,
};

/* sytrd, hetrd */

typedef void sytrd_fn(const char *uplo, const int32_t *n, void *a, const int32_t *lda,
		      void *diagonal, void *beside, void *tau, void *work,
		      const int32_t *work_count, int32_t *info, size_t);

static int sytrd_prepare(struct linalg_call *c)
{
	int32_t element = sal_linalg_element(c->type);
	int32_t real = sal_linalg_element(lapack_real(c->type));
	int rc = sal_linalg_counts(c, 1, 5);
	int64_t less;

	if (rc < 0 || (rc = sal_linalg_square(c, &c->args[0])) < 0)
		return rc;
	less = c->n > 0 ? c->n - 1 : 0;
	if ((rc = sal_linalg_letter(c, "uplo", "LU", &c->flags[0])) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[0], element, c->n, c->n)) < 0 ||
	    (rc = sal_linalg_carry(c, 0, 0)) < 0 ||
	    (rc = sal_linalg_vector(c, &c->rets[1], real, c->n)) < 0 ||
	    (rc = sal_linalg_vector(c, &c->rets[2], real, less)) < 0 ||
	    (rc = sal_linalg_vector(c, &c->rets[3], element, less)) < 0)
		return rc;
	return sal_linalg_info(c, &c->rets[4]);
}

static void sytrd_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	LINALG_FN(c, sytrd_fn)
	(&c->flags[0], &c->n, linalg_at(&c->rets[0], i), &c->n, linalg_at(&c->rets[1], i),
	 linalg_at(&c->rets[2], i), linalg_at(&c->rets[3], i), space->work, &space->work_count,
	 &space->info, 1);
}

const struct linalg_routine sal_linalg_sytrd = {
	.name = LAPACK_SYTRD,
	.prepare = sytrd_prepare,
	.solve = sytrd_solve,
	.has_work = true,
};
