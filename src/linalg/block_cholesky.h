/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_cholesky - factors several small matrices at once. block.c includes this once for each
 * element type, after defining
 *
 *     REAL, SQRT(x)          the element type, and its square root
 *     VECTOR, FACTOR, BLOCK  names for a type and the functions
 *
 * A vector has one element of each matrix, so one instruction works on several matrices. The sums
 * are those of LAPACK's xPOTF2, in another order: results agree up to rounding.
 */

typedef REAL VECTOR __attribute__((vector_size(LINALG_BLOCK * sizeof(REAL))));

/* Factors the lower triangles. out_good: which matrices are positive definite. */
static void FACTOR(VECTOR a[BLOCK_ORDER_MAX][BLOCK_ORDER_MAX], int n, bool out_good[LINALG_BLOCK])
{
	for (int i = 0; i < LINALG_BLOCK; i++)
		out_good[i] = true;
	for (int c = 0; c < n; c++) {
		for (int k = 0; k < c; k++)
			for (int r = c; r < n; r++)
				a[r][c] -= a[r][k] * a[c][k];
		for (int i = 0; i < LINALG_BLOCK; i++) {
			bool is_positive = a[c][c][i] > 0; /* NaN is not */

			out_good[i] = out_good[i] && is_positive;
			a[c][c][i] = is_positive ? SQRT(a[c][c][i]) : 1;
		}
		for (int r = c + 1; r < n; r++)
			a[r][c] /= a[c][c];
	}
}

/*
 * Count matrices, which follow each other. Those that are not positive definite stay as they are. A
 * vector that has less matrices than elements has the first matrix several times.
 */
static void BLOCK(REAL *at, size_t count, int n, bool is_upper, bool out_good[LINALG_BLOCK])
{
	VECTOR a[BLOCK_ORDER_MAX][BLOCK_ORDER_MAX];
	size_t across = is_upper ? (size_t)n : 1, down = is_upper ? 1 : (size_t)n;
	size_t step = (size_t)n * (size_t)n;

	for (int c = 0; c < n; c++)
		for (int r = c; r < n; r++)
			for (size_t i = 0; i < LINALG_BLOCK; i++)
				a[r][c][i] = at[(i < count ? i * step : 0) + (size_t)r * across +
						(size_t)c * down];
	FACTOR(a, n, out_good);
	for (size_t i = 0; i < count; i++)
		for (int c = 0; c < n && out_good[i]; c++)
			for (int r = c; r < n; r++)
				at[i * step + (size_t)r * across + (size_t)c * down] = a[r][c][i];
}

#undef REAL
#undef SQRT
#undef VECTOR
#undef FACTOR
#undef BLOCK
