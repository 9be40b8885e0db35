/* SPDX-License-Identifier: Apache-2.0 */
/* Cholesky, LU, and systems with a triangular or tridiagonal matrix. */
#include "linalg/call.h"

#include <math.h>

/* trsm */

typedef void trsm_fn(const char *side, const char *uplo, const char *trans, const char *diag,
		     const int32_t *m, const int32_t *n, const void *alpha, const void *a,
		     const int32_t *lda, void *b, const int32_t *ldb, size_t, size_t, size_t,
		     size_t);

static int trsm_letters(struct linalg_call *c)
{
	static const struct {
		const char *name, *letters;
	} wanted[] = { { "side", "LR" }, { "uplo", "LU" }, { "trans_x", "NTC" }, { "diag", "NU" } };
	int rc = SAL_OK;

	for (int i = 0; i < 4 && rc >= 0; i++)
		rc = sal_linalg_letter(c, wanted[i].name, wanted[i].letters, &c->flags[i]);
	return rc;
}

/* Older versions of JAX pass the factor of the right-hand side as a third argument. */
static int trsm_prepare(struct linalg_call *c)
{
	size_t args = c->arg_count == 3 ? 3 : 2;
	int32_t element = sal_linalg_element(c->type);
	int rc = sal_linalg_counts(c, args, 1);

	if (rc < 0 || (rc = sal_linalg_sizes(c, &c->args[1])) < 0 || (rc = trsm_letters(c)) < 0)
		return rc;
	c->k = c->flags[0] == 'L' ? c->m : c->n;
	if (!c->is_plan && (rc = sal_linalg_matrix(c, &c->args[0], element, c->k, c->k)) < 0)
		return rc;
	if (args == 3 && (c->args[2].rank != 0 || c->args[2].element != element))
		return sal_linalg_bad(c, "its factor is no number of the right type");
	rc = sal_linalg_matrix(c, &c->args[1], element, c->m, c->n);
	return rc < 0 ? rc : sal_linalg_carry(c, 1, 0);
}

static void trsm_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	static const double one_d[2] = { 1, 0 };
	static const float one_s[2] = { 1, 0 };
	const void *alpha = lapack_real(c->type) == LAPACK_S ? (const void *)one_s : one_d;
	int32_t lda = linalg_ld(c->k), ldb = linalg_ld(c->m);

	(void)space;
	if (c->arg_count == 3)
		alpha = c->args[2].data;
	LINALG_FN(c, trsm_fn)
	(&c->flags[0], &c->flags[1], &c->flags[2], &c->flags[3], &c->m, &c->n, alpha,
	 linalg_at(&c->args[0], i), &lda, linalg_at(&c->rets[0], i), &ldb, 1, 1, 1, 1);
}

const struct linalg_routine sal_linalg_trsm = {
	.name = LAPACK_TRSM,
	.prepare = trsm_prepare,
	.solve = trsm_solve,
};

/* potrf */

typedef void potrf_fn(const char *uplo, const int32_t *n, void *a, const int32_t *lda,
		      int32_t *info, size_t);

static int potrf_prepare(struct linalg_call *c)
{
	int rc = sal_linalg_counts(c, 1, 2);

	if (rc < 0 || (rc = sal_linalg_square(c, &c->args[0])) < 0 ||
	    (rc = sal_linalg_letter(c, "uplo", "LU", &c->flags[0])) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[0], sal_linalg_element(c->type), c->m, c->n)) < 0 ||
	    (rc = sal_linalg_carry(c, 0, 0)) < 0)
		return rc;
	return sal_linalg_info(c, &c->rets[1]);
}

static bool is_nan(enum lapack_type type, const void *number)
{
	return lapack_real(type) == LAPACK_S ? isnan(*(const float *)number)
					     : isnan(*(const double *)number);
}

/*
 * The rank at which the factor stops to be a number; 0: nowhere. LAPACK reports it in info, but some
 * versions of OpenBLAS do not.
 */
static int32_t find_nan(const struct linalg_call *c, const void *factor)
{
	size_t bytes = lapack_bytes(c->type), next = ((size_t)c->n + 1) * bytes;

	/* A pivot that is no number makes all later ones the same. */
	if (!is_nan(c->type, (const char *)factor + ((size_t)c->n - 1) * next))
		return 0;
	for (int32_t i = 0; i < c->n; i++)
		if (is_nan(c->type, (const char *)factor + (size_t)i * next))
			return i + 1;
	return 0;
}

static void potrf_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	void *a = linalg_at(&c->rets[0], i);

	LINALG_FN(c, potrf_fn)(&c->flags[0], &c->n, a, &c->n, &space->info, 1);
	if (space->info == 0)
		space->info = find_nan(c, a);
}

/* LAPACK says what is wrong with the matrices that have no factor. */
static bool potrf_block(const struct linalg_call *c, int64_t i, int64_t count,
			struct linalg_space *space, int32_t infos[LINALG_BLOCK])
{
	bool good[LINALG_BLOCK];

	if (c->batch < LINALG_BLOCK || !sal_linalg_has_block(c->type, c->n))
		return false;
	sal_linalg_block_cholesky(c->type, c->flags[0], c->n, linalg_at(&c->rets[0], i),
				  (size_t)count, good);
	for (int64_t k = 0; k < count; k++) {
		space->info = 0;
		if (!good[k])
			potrf_solve(c, i + k, space);
		infos[k] = space->info;
	}
	return true;
}

const struct linalg_routine sal_linalg_potrf = {
	.name = LAPACK_POTRF,
	.prepare = potrf_prepare,
	.solve = potrf_solve,
	.solve_block = potrf_block,
};

/* getrf */

typedef void getrf_fn(const int32_t *m, const int32_t *n, void *a, const int32_t *lda,
		      int32_t *pivots, int32_t *info);

static int getrf_prepare(struct linalg_call *c)
{
	int rc = sal_linalg_counts(c, 1, 3);

	if (rc < 0 || (rc = sal_linalg_sizes(c, &c->args[0])) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[0], sal_linalg_element(c->type), c->m, c->n)) < 0 ||
	    (rc = sal_linalg_carry(c, 0, 0)) < 0)
		return rc;
	rc = sal_linalg_vector(c, &c->rets[1], LINALG_S32, linalg_min(c->m, c->n));
	return rc < 0 ? rc : sal_linalg_info(c, &c->rets[2]);
}

static void getrf_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	LINALG_FN(c, getrf_fn)
	(&c->m, &c->n, linalg_at(&c->rets[0], i), &c->m, linalg_at(&c->rets[1], i), &space->info);
}

const struct linalg_routine sal_linalg_getrf = {
	.name = LAPACK_GETRF,
	.prepare = getrf_prepare,
	.solve = getrf_solve,
};

/* gtsv: three diagonals of n elements. LAPACK's lower one starts at the second element. */

typedef void gtsv_fn(const int32_t *n, const int32_t *nrhs, void *dl, void *d, void *du, void *b,
		     const int32_t *ldb, int32_t *info);

static int gtsv_prepare(struct linalg_call *c)
{
	int32_t element = sal_linalg_element(c->type);
	int rc = sal_linalg_counts(c, 4, 5);

	if (rc < 0 || (rc = sal_linalg_sizes(c, &c->args[3])) < 0)
		return rc;
	for (size_t i = 0; i < 3; i++)
		if ((rc = sal_linalg_vector(c, &c->args[i], element, c->m)) < 0 ||
		    (rc = sal_linalg_carry(c, i, i)) < 0)
			return rc;
	if ((rc = sal_linalg_matrix(c, &c->args[3], element, c->m, c->n)) < 0 ||
	    (rc = sal_linalg_carry(c, 3, 3)) < 0)
		return rc;
	return sal_linalg_info(c, &c->rets[4]);
}

static void gtsv_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	char *lower = linalg_at(&c->rets[0], i);

	LINALG_FN(c, gtsv_fn)
	(&c->m, &c->n, lower + lapack_bytes(c->type), linalg_at(&c->rets[1], i),
	 linalg_at(&c->rets[2], i), linalg_at(&c->rets[3], i), &c->m, &space->info);
}

const struct linalg_routine sal_linalg_gtsv = {
	.name = LAPACK_GTSV,
	.prepare = gtsv_prepare,
	.solve = gtsv_solve,
};
