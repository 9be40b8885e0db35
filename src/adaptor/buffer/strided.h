/* SPDX-License-Identifier: Apache-2.0 */
/* strided - copies an array to another order of bytes in memory: slices, flips, transposes. */
#ifndef SAL_ADAPTOR_BUFFER_STRIDED_H
#define SAL_ADAPTOR_BUFFER_STRIDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Strides are in bytes, of each dimension; they may be negative; those of `from` may be 0. rank <=
 * SAL_RANK_MAX.
 */
struct adp_strided {
	size_t rank, element;
	const int64_t *dims;
	const int64_t *from, *to;
};

/*
 * Strides of a dense array whose dimensions are in that order in memory; false if minor_to_major is
 * no order. rank <= SAL_RANK_MAX.
 */
bool adp_dense_strides(size_t rank, size_t element, const int64_t *dims,
		       const int64_t *minor_to_major, int64_t *out);
void adp_copy_strided(const struct adp_strided *array, const char *from, char *to);

#endif
