/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block - factors small matrices of a batch without LAPACK.
 *
 * A call of LAPACK for a matrix of 8 by 8 takes 220 ns, and most of that is not arithmetic. A block
 * of matrices is factored at once, in a quarter of the time. A batch that is smaller than a block is
 * left to LAPACK: so the factor of a single matrix is the one of LAPACK, bit for bit. Equal matrices
 * of one batch have equal factors.
 */
#include "linalg/call.h"

#include <math.h>

#define BLOCK_ORDER_MAX 16

#define REAL float
#define SQRT(x) sqrtf(x)
#define VECTOR vector_s
#define FACTOR factor_s
#define BLOCK block_s
#include "linalg/block_cholesky.h"

#define REAL double
#define SQRT(x) sqrt(x)
#define VECTOR vector_d
#define FACTOR factor_d
#define BLOCK block_d
#include "linalg/block_cholesky.h"

bool sal_linalg_has_block(enum lapack_type type, int32_t n)
{
	return !lapack_is_complex(type) && n <= BLOCK_ORDER_MAX;
}

void sal_linalg_block_cholesky(enum lapack_type type, char uplo, int32_t n, void *matrices,
			       size_t count, bool out_good[LINALG_BLOCK])
{
	if (type == LAPACK_S)
		block_s(matrices, count, n, uplo == 'U', out_good);
	else
		block_d(matrices, count, n, uplo == 'U', out_good);
}
