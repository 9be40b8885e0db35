/* SPDX-License-Identifier: Apache-2.0 */
/* QR, with and without pivots, and what is done with its reflectors. */
#include "linalg/call.h"

/* geqrf */

typedef void geqrf_fn(const int32_t *m, const int32_t *n, void *a, const int32_t *lda, void *tau,
		      void *work, const int32_t *work_count, int32_t *info);

static int geqrf_prepare(struct linalg_call *c)
{
	int32_t element = sal_linalg_element(c->type);
	int rc = sal_linalg_counts(c, 1, 2);

	if (rc < 0 || (rc = sal_linalg_sizes(c, &c->args[0])) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[0], element, c->m, c->n)) < 0 ||
	    (rc = sal_linalg_carry(c, 0, 0)) < 0)
		return rc;
	return sal_linalg_vector(c, &c->rets[1], element, linalg_min(c->m, c->n));
}

static void geqrf_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	LINALG_FN(c, geqrf_fn)
	(&c->m, &c->n, linalg_at(&c->rets[0], i), &c->m, linalg_at(&c->rets[1], i), space->work,
	 &space->work_count, &space->info);
}

const struct linalg_routine sal_linalg_geqrf = {
	.name = LAPACK_GEQRF,
	.prepare = geqrf_prepare,
	.solve = geqrf_solve,
	.has_work = true,
};

/* geqp3 */

typedef void geqp3_real_fn(const int32_t *m, const int32_t *n, void *a, const int32_t *lda,
			   int32_t *pivots, void *tau, void *work, const int32_t *work_count,
			   int32_t *info);
typedef void geqp3_complex_fn(const int32_t *m, const int32_t *n, void *a, const int32_t *lda,
			      int32_t *pivots, void *tau, void *work, const int32_t *work_count,
			      void *real, int32_t *info);

static int geqp3_prepare(struct linalg_call *c)
{
	int32_t element = sal_linalg_element(c->type);
	int rc = sal_linalg_counts(c, 2, 3);

	if (rc < 0 || (rc = sal_linalg_sizes(c, &c->args[0])) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[0], element, c->m, c->n)) < 0 ||
	    (rc = sal_linalg_carry(c, 0, 0)) < 0 ||
	    (rc = sal_linalg_vector(c, &c->args[1], LINALG_S32, c->n)) < 0 ||
	    (rc = sal_linalg_carry(c, 1, 1)) < 0)
		return rc;
	c->real_count = 2 * (int64_t)c->n;
	return sal_linalg_vector(c, &c->rets[2], element, linalg_min(c->m, c->n));
}

static void geqp3_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	void *a = linalg_at(&c->rets[0], i);
	int32_t *pivots = linalg_at(&c->rets[1], i);
	void *tau = linalg_at(&c->rets[2], i);

	if (lapack_is_complex(c->type))
		LINALG_FN(c, geqp3_complex_fn)
	(&c->m, &c->n, a, &c->m, pivots, tau, space->work, &space->work_count, space->real,
	 &space->info);
	else LINALG_FN(c, geqp3_real_fn)(&c->m, &c->n, a, &c->m, pivots, tau, space->work,
					 &space->work_count, &space->info);
}

const struct linalg_routine sal_linalg_geqp3 = {
	.name = LAPACK_GEQP3,
	.prepare = geqp3_prepare,
	.solve = geqp3_solve,
	.has_work = true,
};

/* orgqr: m rows, n columns, k reflectors */

typedef void orgqr_fn(const int32_t *m, const int32_t *n, const int32_t *k, void *a,
		      const int32_t *lda, const void *tau, void *work, const int32_t *work_count,
		      int32_t *info);

/* The length of a vector of a batch; LAPACK checks it against the matrix. */
static int read_k(struct linalg_call *c, const struct linalg_array *tau)
{
	if (tau->rank < 1 || tau->dims[tau->rank - 1] < 0 ||
	    tau->dims[tau->rank - 1] > LINALG_ORDER_MAX)
		return sal_linalg_bad(c, "its reflectors have no length");
	c->k = (int32_t)tau->dims[tau->rank - 1];
	return SAL_OK;
}

static int orgqr_prepare(struct linalg_call *c)
{
	int32_t element = sal_linalg_element(c->type);
	int rc = sal_linalg_counts(c, 2, 1);

	if (rc < 0 || (rc = sal_linalg_sizes(c, &c->args[0])) < 0 ||
	    (rc = read_k(c, &c->args[1])) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[0], element, c->m, c->n)) < 0 ||
	    (rc = sal_linalg_vector(c, &c->args[1], element, c->k)) < 0)
		return rc;
	if (c->n > c->m || c->k > c->n)
		return sal_linalg_bad(c, "it has more columns than rows, or more reflectors than "
					 "columns");
	return sal_linalg_carry(c, 0, 0);
}

static void orgqr_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	LINALG_FN(c, orgqr_fn)
	(&c->m, &c->n, &c->k, linalg_at(&c->rets[0], i), &c->m, linalg_at(&c->args[1], i),
	 space->work, &space->work_count, &space->info);
}

const struct linalg_routine sal_linalg_orgqr = {
	.name = LAPACK_ORGQR,
	.prepare = orgqr_prepare,
	.solve = orgqr_solve,
	.has_work = true,
};

/* ormqr: multiplies an m by n matrix by k reflectors, from the left or from the right */

typedef void ormqr_fn(const char *side, const char *trans, const int32_t *m, const int32_t *n,
		      const int32_t *k, const void *a, const int32_t *lda, const void *tau,
		      void *matrix, const int32_t *ldc, void *work, const int32_t *work_count,
		      int32_t *info, size_t, size_t);

static int ormqr_flags(struct linalg_call *c)
{
	int32_t left = 1, transposes = 0;
	int rc;

	if (c->is_plan && c->args[0].rank >= 2)
		left = c->args[0].dims[c->args[0].rank - 2] == c->m;
	if ((rc = sal_linalg_integer(c, "left", &left)) < 0 ||
	    (rc = sal_linalg_integer(c, "transpose", &transposes)) < 0)
		return rc;
	c->flags[0] = left ? 'L' : 'R';
	c->flags[1] = !transposes ? 'N' : lapack_is_complex(c->type) ? 'C' : 'T';
	c->ld = left ? c->m : c->n;
	return SAL_OK;
}

static int ormqr_prepare(struct linalg_call *c)
{
	int32_t element = sal_linalg_element(c->type);
	int rc = sal_linalg_counts(c, 3, 1);

	if (rc < 0 || (rc = sal_linalg_sizes(c, &c->args[2])) < 0 ||
	    (rc = read_k(c, &c->args[1])) < 0 || (rc = ormqr_flags(c)) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[0], element, c->ld, c->k)) < 0 ||
	    (rc = sal_linalg_vector(c, &c->args[1], element, c->k)) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[2], element, c->m, c->n)) < 0)
		return rc;
	if (c->k > c->ld)
		return sal_linalg_bad(c, "it has more reflectors than rows");
	return sal_linalg_carry(c, 2, 0);
}

static void ormqr_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	LINALG_FN(c, ormqr_fn)
	(&c->flags[0], &c->flags[1], &c->m, &c->n, &c->k, linalg_at(&c->args[0], i), &c->ld,
	 linalg_at(&c->args[1], i), linalg_at(&c->rets[0], i), &c->m, space->work,
	 &space->work_count, &space->info, 1, 1);
}

const struct linalg_routine sal_linalg_ormqr = {
	.name = LAPACK_ORMQR,
	.prepare = ormqr_prepare,
	.solve = ormqr_solve,
	.has_work = true,
};
