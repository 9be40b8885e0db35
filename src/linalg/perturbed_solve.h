/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perturbed_solve - solves a tridiagonal system that may be singular. perturbed.c includes this
 * once for each element type, after defining
 *
 *     SCALAR, REAL       the element type, and the real numbers of its precision
 *     ABS(x), PART(x)    the absolute value and the real part of an element
 *     LEAST, EPSILON     the least positive normal number, and the distance from 1 to the next
 *     SOLVE, ADJUST      names for the functions
 *
 * The method is that of LAPACK's xLAGTF and xLAGTS: Gaussian elimination with row exchanges. The
 * upper factor has three diagonals, u[0..n-1], u[n..2n-1], u[2n..3n-1]. A pivot that would cause an
 * overflow grows a little, by a multiple of EPSILON times the largest element of the factor.
 */

/* Changes a pivot, and perhaps the row of right-hand sides, so that row / pivot does not overflow. */
static void ADJUST(REAL grow, SCALAR *pivot, SCALAR *row, size_t columns)
{
	const REAL large = 1 / LEAST;
	REAL size = ABS(*pivot), largest = 0;

	for (size_t j = 0; j < columns; j++)
		if (ABS(row[j]) > largest)
			largest = ABS(row[j]);
	while (size < 1) {
		if (size >= LEAST && !(largest > size * large))
			return;
		if (size < LEAST && size > 0 && !(largest * LEAST > size)) {
			*pivot *= large;
			for (size_t j = 0; j < columns; j++)
				row[j] *= large;
			return;
		}
		*pivot += grow;
		grow *= 2;
		size = ABS(*pivot);
	}
}

/* The diagonals have n elements: dl[0] and du[n - 1] are not read. b and x are n by columns. */
/* NOLINTNEXTLINE(readability-function-size): three diagonals, both sides, two work arrays */
static void SOLVE(size_t n, size_t columns, const SCALAR *dl, const SCALAR *d, const SCALAR *du,
		  const SCALAR *b, SCALAR *x, SCALAR *u, SCALAR *row)
{
	SCALAR *u1 = u + n, *u2 = u1 + n;
	REAL scale, grow, largest;

	u[0] = d[0];
	u1[0] = n > 1 ? du[0] : 0;
	u2[0] = 0;
	scale = ABS(u[0]) + ABS(u1[0]);
	largest = ABS(u[0]) > ABS(u1[0]) ? ABS(u[0]) : ABS(u1[0]);
	for (size_t j = 0; j < columns; j++)
		x[j * n] = b[j * n];

	for (size_t i = 0; i + 1 < n; i++) {
		SCALAR below = dl[i + 1], middle = d[i + 1], above = i + 2 < n ? du[i + 1] : 0;
		REAL size = ABS(below) + ABS(middle) + ABS(above);
		REAL here = u[i] == 0 ? 0 : ABS(u[i]) / scale;
		bool exchanges = below != 0 && !(ABS(below) / size <= here);
		SCALAR factor;

		u2[i + 1] = 0;
		if (exchanges) {
			factor = u[i] / below;
			u[i + 1] = u1[i] - factor * middle;
			u1[i + 1] = -factor * above;
			u[i] = below;
			u1[i] = middle;
			u2[i] = above;
			scale = ABS(u[i + 1]) + ABS(u1[i + 1]);
		} else {
			factor = below == 0 ? 0 : below / u[i];
			u[i + 1] = below == 0 ? middle : middle - factor * u1[i];
			u1[i + 1] = above;
			scale = size;
		}
		for (size_t j = 0; j < columns; j++) {
			SCALAR *at = x + j * n + i, next = b[j * n + i + 1];

			at[1] = exchanges    ? at[0] - factor * next
				: below == 0 ? next
					     : next - factor * at[0];
			if (exchanges)
				at[0] = next;
		}
		for (size_t k = 0; k < 3 && i + 2 < n; k++)
			if (ABS(u[k * n + i]) > largest)
				largest = ABS(u[k * n + i]);
	}
	if (ABS(u[n - 1]) > largest)
		largest = ABS(u[n - 1]);
	grow = largest > 0 ? EPSILON * largest : EPSILON;

	for (size_t i = n; i-- > 0;) {
		SCALAR pivot = u[i];

		for (size_t j = 0; j < columns; j++) {
			const SCALAR *at = x + j * n + i;

			row[j] = at[0];
			if (i + 1 < n)
				row[j] -= u1[i] * at[1];
			if (i + 2 < n)
				row[j] -= u2[i] * at[2];
		}
		ADJUST(i + 1 < n && PART(pivot) < 0 ? -grow : grow, &pivot, row, columns);
		for (size_t j = 0; j < columns; j++)
			x[j * n + i] = n == 1 ? row[j] / pivot : row[j] * (1 / pivot);
	}
}

#undef SCALAR
#undef REAL
#undef ABS
#undef PART
#undef LEAST
#undef EPSILON
#undef SOLVE
#undef ADJUST
