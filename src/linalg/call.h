/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call - one call of a linear algebra routine, on a batch of matrices.
 *
 * A call names a routine and an element type, and has arrays (arguments and results) and
 * attributes. A matrix is in column-major order, and the matrices of a batch follow each other. The
 * conventions are those of JAX's targets for the CPU, so that results are the same: which argument
 * becomes which result, what info says about each matrix, when nothing is computed.
 *
 * The peer chooses shapes and attributes. `prepare` checks all of them before anything is read or
 * written: types, ranks, batch dimensions, sizes, and the limits within which LAPACK's 32-bit
 * arithmetic holds. It also says how much scratch the call needs. salus-compile prepares each call
 * of a program without data, and counts the scratch as the program's.
 *
 * Threads: a call belongs to one thread, which may have helpers (batch.h). Several calls may run at
 * a time.
 */
#ifndef SAL_LINALG_CALL_H
#define SAL_LINALG_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "linalg/batch.h"
#include "linalg/lapack.h"

#define LINALG_ARGS_MAX 5
#define LINALG_RETS_MAX 6
#define LINALG_ATTRS_MAX 8
#define LINALG_BLOCK 8 /* the most problems that are solved at once */

/*
 * The largest order of a matrix for routines with a workspace. LAPACK computes sizes of workspaces
 * in 32-bit integers, as the order times a block size of at most 128.
 */
#define LINALG_ORDER_MAX (INT32_MAX / 256)

/* XLA's PrimitiveType, the elements that occur here. */
enum linalg_element {
	LINALG_S32 = 4,
	LINALG_S64 = 5,
	LINALG_F32 = 11,
	LINALG_F64 = 12,
	LINALG_C64 = 15,
	LINALG_C128 = 18,
};

struct linalg_array {
	int32_t element; /* enum linalg_element, or another type of XLA's */
	size_t rank;
	const int64_t *dims;
	void *data; /* NULL: the call is only prepared */
	/* prepared */
	size_t step; /* bytes from one problem of the batch to the next */
	const struct linalg_array *source; /* of a result: it starts as this; NULL: as zeros */
};

struct linalg_attr {
	const char *name;
	size_t name_size;
	int64_t value;
};

/* Workspaces of a routine. */
struct linalg_space {
	void *work; /* elements of the call's type */
	void *real; /* real numbers of its precision */
	int32_t *ints;
	void *extra; /* bytes that the routine's solve uses as it likes */
	int32_t work_count; /* -1: LAPACK writes the best count into work, and does nothing else */
	int32_t info;
};

struct linalg_call;

struct linalg_routine {
	enum lapack_name name;
	/* Checks arrays and attributes; sets all below "prepared", except the size of work. */
	int (*prepare)(struct linalg_call *c);
	/* Solves problem i of the batch, or asks for the best work_count. */
	void (*solve)(const struct linalg_call *c, int64_t i, struct linalg_space *space);
	/*
	 * Optional. Solves count problems from i on, at most LINALG_BLOCK, faster than solve and
	 * equal up to rounding. False: nothing is done, the call is none for blocks.
	 */
	bool (*solve_block)(const struct linalg_call *c, int64_t i, int64_t count,
			    struct linalg_space *space, int32_t infos[LINALG_BLOCK]);
	bool has_work; /* solve can be asked for the best work_count */
	const char *own; /* the name of a routine that needs no LAPACK; name is not set */
};

struct linalg_call {
	const struct linalg_routine *routine;
	enum lapack_type type;
	const struct sal_lapack *lapack;
	struct linalg_array args[LINALG_ARGS_MAX], rets[LINALG_RETS_MAX];
	size_t arg_count, ret_count;
	struct linalg_attr attrs[LINALG_ATTRS_MAX];
	size_t attr_count;
	const struct linalg_helpers *helpers; /* borrowed; NULL: none */
	bool is_plan; /* there are neither data nor attributes: assume the largest scratch */
	struct sal_err *err;

	/* prepared */
	int64_t batch; /* how many problems */
	int32_t m, n, k; /* the routine's sizes */
	char flags[4]; /* the routine's letters */
	int32_t low, high; /* gehrd */
	int32_t ld; /* leading dimension of another array */
	struct linalg_array *info; /* the result for info; NULL: none */
	int64_t work_count, real_count, int_count;
	uint64_t extra_bytes;
};

/* solve.c, qr.c, eigen.c, svd.c */
extern const struct linalg_routine sal_linalg_trsm, sal_linalg_potrf, sal_linalg_getrf,
	sal_linalg_gtsv, sal_linalg_geqrf, sal_linalg_geqp3, sal_linalg_orgqr, sal_linalg_ormqr,
	sal_linalg_gesdd, sal_linalg_gesvd, sal_linalg_syevd, sal_linalg_geev, sal_linalg_gees,
	sal_linalg_gehrd, sal_linalg_sytrd;
/* perturbed.c, sparse.c */
extern const struct linalg_routine sal_linalg_perturbed, sal_linalg_csr, sal_linalg_sink;

/* Checks the call and computes its scratch. */
int sal_linalg_prepare(struct linalg_call *c, uint64_t *out_scratch_bytes);
/* Prepares, then computes. Fails without LAPACK, memory, or on a call that makes no sense. */
int sal_linalg_run(struct linalg_call *c);

/* For routines: checks. Each returns SAL_OK or -SAL_INVALID_ARGUMENT, with a sentence. */

int sal_linalg_bad(const struct linalg_call *c, const char *what);
int sal_linalg_counts(const struct linalg_call *c, size_t args, size_t rets);
/* Reads batch, m and n from an array that holds matrices of the call's type. */
int sal_linalg_sizes(struct linalg_call *c, const struct linalg_array *from);
int sal_linalg_square(struct linalg_call *c, const struct linalg_array *from);
/* The array holds a batch of matrices, vectors or numbers. Sets its step. */
int sal_linalg_matrix(const struct linalg_call *c, struct linalg_array *a, int32_t element,
		      int64_t rows, int64_t cols);
int sal_linalg_vector(const struct linalg_call *c, struct linalg_array *a, int32_t element,
		      int64_t size);
int sal_linalg_number(const struct linalg_call *c, struct linalg_array *a, int32_t element);
/* The result starts as a copy of the argument, in the argument's place if they share it. */
int sal_linalg_carry(struct linalg_call *c, size_t arg, size_t ret);
/* The result that gets info for each problem. */
int sal_linalg_info(struct linalg_call *c, struct linalg_array *a);
/* The attribute must be one of the letters. If the call is a plan: the first letter. */
int sal_linalg_letter(const struct linalg_call *c, const char *name, const char *letters,
		      char *out_letter);
/* If the call is a plan: value is kept. */
int sal_linalg_integer(const struct linalg_call *c, const char *name, int32_t *value);

int32_t sal_linalg_element(enum lapack_type type);

/* For routines: blocks (block.c). */

/* Can matrices of this type and order be factored in blocks? */
bool sal_linalg_has_block(enum lapack_type type, int32_t n);
/*
 * Cholesky factors of matrices that follow each other, in their place: 1 to LINALG_BLOCK. A matrix
 * that is not positive definite stays as it is: out_good says which are.
 */
void sal_linalg_block_cholesky(enum lapack_type type, char uplo, int32_t n, void *matrices,
			       size_t count, bool out_good[LINALG_BLOCK]);

/* Problem i of the array; NULL if the call is a plan. */
static inline void *linalg_at(const struct linalg_array *a, int64_t i)
{
	return a->data ? (char *)a->data + (size_t)i * a->step : NULL;
}

/* LAPACK's function for the call, as a pointer to fn. */
#define LINALG_FN(c, fn) ((fn *)linalg_fn(c))

static inline lapack_fn *linalg_fn(const struct linalg_call *c)
{
	return c->lapack->routines[c->routine->name][c->type];
}

static inline int32_t linalg_min(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* A leading dimension: LAPACK wants at least 1. */
static inline int32_t linalg_ld(int32_t rows)
{
	return rows > 0 ? rows : 1;
}

#endif
