/* SPDX-License-Identifier: Apache-2.0 */
/* Singular values and vectors, by divide and conquer (gesdd) and by QR (gesvd). */
#include "linalg/call.h"

typedef void gesdd_real_fn(const char *mode, const int32_t *m, const int32_t *n, void *a,
			   const int32_t *lda, void *s, void *u, const int32_t *ldu, void *vt,
			   const int32_t *ldvt, void *work, const int32_t *work_count,
			   int32_t *ints, int32_t *info, size_t);
typedef void gesdd_complex_fn(const char *mode, const int32_t *m, const int32_t *n, void *a,
			      const int32_t *lda, void *s, void *u, const int32_t *ldu, void *vt,
			      const int32_t *ldvt, void *work, const int32_t *work_count,
			      void *real, int32_t *ints, int32_t *info, size_t);
typedef void gesvd_real_fn(const char *mode_u, const char *mode_vt, const int32_t *m,
			   const int32_t *n, void *a, const int32_t *lda, void *s, void *u,
			   const int32_t *ldu, void *vt, const int32_t *ldvt, void *work,
			   const int32_t *work_count, int32_t *info, size_t, size_t);
typedef void gesvd_complex_fn(const char *mode_u, const char *mode_vt, const int32_t *m,
			      const int32_t *n, void *a, const int32_t *lda, void *s, void *u,
			      const int32_t *ldu, void *vt, const int32_t *ldvt, void *work,
			      const int32_t *work_count, void *real, int32_t *info, size_t, size_t);

enum {
	S = 1,
	U,
	VT,
	INFO
}; /* the results after the matrix */

static int64_t last_dim(const struct linalg_array *a, size_t from_end)
{
	return a->rank > from_end ? a->dims[a->rank - 1 - from_end] : -1;
}

/* Both U and VT are full, or both have min(m, n) vectors. Mode A writes full ones only. */
static int check_vectors(struct linalg_call *c)
{
	int32_t element = sal_linalg_element(c->type), least = linalg_min(c->m, c->n);
	bool is_full = last_dim(&c->rets[U], 0) == c->m && last_dim(&c->rets[VT], 1) == c->n;
	int rc;

	if (c->is_plan && !is_full)
		c->flags[0] = 'S';
	if (c->flags[0] == 'A' && !is_full)
		return sal_linalg_bad(c, "all singular vectors do not fit into its results");
	c->ld = is_full ? c->n : least;
	rc = sal_linalg_matrix(c, &c->rets[U], element, c->m, is_full ? c->m : least);
	return rc < 0 ? rc : sal_linalg_matrix(c, &c->rets[VT], element, c->ld, c->n);
}

/*
 * LAPACK adds up sizes of workspaces in 32-bit integers: gesdd some squares of the smaller order,
 * gesvd the size of the whole matrix, too. A sum that wraps around would lead it out of its
 * workspace.
 */
static bool is_in_range(const struct linalg_call *c)
{
	int64_t least = linalg_min(c->m, c->n), most = c->m > c->n ? c->m : c->n;
	int64_t sum = 5 * least * least + 384 * least + 128 * most;

	if (c->routine == &sal_linalg_gesvd)
		sum += 3 * least * most;
	return sum < INT32_MAX;
}

static int svd_prepare(struct linalg_call *c)
{
	int32_t element = sal_linalg_element(c->type);
	int rc = sal_linalg_counts(c, 1, 5);

	if (rc < 0 || (rc = sal_linalg_sizes(c, &c->args[0])) < 0 ||
	    (rc = sal_linalg_letter(c, "mode", "ASN", &c->flags[0])) < 0 ||
	    (rc = check_vectors(c)) < 0 ||
	    (rc = sal_linalg_matrix(c, &c->args[0], element, c->m, c->n)) < 0 ||
	    (rc = sal_linalg_carry(c, 0, 0)) < 0 ||
	    (rc = sal_linalg_vector(c, &c->rets[S], sal_linalg_element(lapack_real(c->type)),
				    linalg_min(c->m, c->n))) < 0 ||
	    (rc = sal_linalg_info(c, &c->rets[INFO])) < 0)
		return rc;
	if (!is_in_range(c))
		return sal_linalg_bad(c, "a matrix is too large for LAPACK's integers");
	return SAL_OK;
}

static int gesdd_prepare(struct linalg_call *c)
{
	int rc = svd_prepare(c);
	int64_t least = linalg_min(c->m, c->n), most = c->m > c->n ? c->m : c->n;
	int64_t wide = 2 * most * least + 2 * least * least + least;

	c->int_count = 8 * least;
	if (!lapack_is_complex(c->type))
		return rc;
	c->real_count = 5 * least * least + 5 * least;
	if (c->real_count < wide)
		c->real_count = wide;
	if (c->flags[0] == 'N')
		c->real_count = 7 * least;
	return rc;
}

static int gesvd_prepare(struct linalg_call *c)
{
	int rc = svd_prepare(c);

	if (lapack_is_complex(c->type))
		c->real_count = 5 * (int64_t)linalg_min(c->m, c->n);
	return rc;
}

static void gesdd_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	void *a = linalg_at(&c->rets[0], i), *s = linalg_at(&c->rets[S], i);
	void *u = linalg_at(&c->rets[U], i), *vt = linalg_at(&c->rets[VT], i);

	if (lapack_is_complex(c->type))
		LINALG_FN(c, gesdd_complex_fn)
	(&c->flags[0], &c->m, &c->n, a, &c->m, s, u, &c->m, vt, &c->ld, space->work,
	 &space->work_count, space->real, space->ints, &space->info, 1);
	else LINALG_FN(c, gesdd_real_fn)(&c->flags[0], &c->m, &c->n, a, &c->m, s, u, &c->m, vt,
					 &c->ld, space->work, &space->work_count, space->ints,
					 &space->info, 1);
}

static void gesvd_solve(const struct linalg_call *c, int64_t i, struct linalg_space *space)
{
	void *a = linalg_at(&c->rets[0], i), *s = linalg_at(&c->rets[S], i);
	void *u = linalg_at(&c->rets[U], i), *vt = linalg_at(&c->rets[VT], i);
	const char *mode = &c->flags[0];

	if (lapack_is_complex(c->type))
		LINALG_FN(c, gesvd_complex_fn)
	(mode, mode, &c->m, &c->n, a, &c->m, s, u, &c->m, vt, &c->ld, space->work,
	 &space->work_count, space->real, &space->info, 1, 1);
	else LINALG_FN(c, gesvd_real_fn)(mode, mode, &c->m, &c->n, a, &c->m, s, u, &c->m, vt,
					 &c->ld, space->work, &space->work_count, &space->info, 1,
					 1);
}

const struct linalg_routine sal_linalg_gesdd = {
	.name = LAPACK_GESDD,
	.prepare = gesdd_prepare,
	.solve = gesdd_solve,
	.has_work = true,
};

const struct linalg_routine sal_linalg_gesvd = {
	.name = LAPACK_GESVD,
	.prepare = gesvd_prepare,
	.solve = gesvd_solve,
	.has_work = true,
};
