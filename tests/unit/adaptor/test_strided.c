/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays with any strides: every copy gives the same bytes as a copy element by element. */
#include "adaptor/buffer/strided.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/rng.h"

#define RANK 6
#define ROOM (1 << 20)

struct bytes {
	unsigned char from[ROOM], to[ROOM], expected[ROOM];
};

static void copy_one_by_one(const struct adp_strided *a, size_t d, const unsigned char *from,
			    unsigned char *to)
{
	int64_t i;

	if (d == a->rank) {
		memcpy(to, from, a->element);
		return;
	}
	for (i = 0; i < a->dims[d]; i++)
		copy_one_by_one(a, d + 1, from + i * a->from[d], to + i * a->to[d]);
}

/*
 * Strides of an array whose dimensions are stored in a random order. With `steps`, some strides
 * skip elements. Returns the size of the array in bytes.
 */
static int64_t lay_out(struct rng *rng, const struct adp_strided *a, bool steps, int64_t *strides)
{
	int64_t stride = (int64_t)a->element;
	size_t order[RANK] = { 0 }, i, k;

	for (i = 0; i < a->rank; i++) {
		k = rng_below(rng, i + 1);
		order[i] = order[k];
		order[k] = i;
	}
	for (i = 0; i < a->rank; i++) {
		if (steps)
			stride *= 1 + (int64_t)rng_below(rng, 3) / 2;
		strides[order[i]] = stride;
		stride *= a->dims[order[i]];
	}
	return stride;
}

static void any_array(struct rng *rng, struct bytes *b)
{
	static const size_t elements[] = { 1, 2, 3, 4, 8, 16 };
	int64_t dims[RANK] = { 0 }, from[RANK] = { 0 }, to[RANK] = { 0 }, start = 0;
	struct adp_strided a = { .rank = rng_below(rng, RANK + 1),
				 .element = elements[rng_below(rng, 6)],
				 .dims = dims,
				 .from = from,
				 .to = to };
	size_t i;

	for (i = 0; i < a.rank; i++)
		dims[i] =
			(int64_t)(rng_below(rng, 40) ? 1 + rng_below(rng, a.rank > 3 ? 5 : 45) : 0);
	if (lay_out(rng, &a, true, from) > ROOM || lay_out(rng, &a, false, to) > ROOM)
		return;
	for (i = 0; i < a.rank; i++) {
		if (rng_below(rng, 4) == 0 && dims[i] > 0) { /* a negative stride */
			start += from[i] * (dims[i] - 1);
			from[i] = -from[i];
		}
		if (rng_below(rng, 8) == 0 && from[i] > 0) /* a stride of zero */
			from[i] = 0;
	}
	memset(b->to, 0xee, ROOM);
	memset(b->expected, 0xee, ROOM);
	copy_one_by_one(&a, 0, b->from + start, b->expected);
	adp_copy_strided(&a, (const char *)b->from + start, (char *)b->to);
	assert_memory_equal(b->to, b->expected, ROOM);
}

static void all_are_copied(void **state)
{
	struct bytes *b = malloc(sizeof(*b));
	struct rng rng = { 11 };
	int i;

	(void)state;
	assert_non_null(b);
	for (i = 0; i < ROOM; i++)
		b->from[i] = (unsigned char)(i * 31 + i / 251);
	for (i = 0; i < 3000; i++)
		any_array(&rng, b);
	free(b);
}

/* Larger than a tile in both dimensions, and not a multiple of one. */
static void a_transpose(void **state)
{
	static const int64_t dims[] = { 100, 77 }, from[] = { 4, 400 }, to[] = { 308, 4 };
	static uint32_t in[77][100], out[100][77];
	const struct adp_strided a = {
		.rank = 2, .element = 4, .dims = dims, .from = from, .to = to
	};
	uint32_t i, k;

	(void)state;
	for (i = 0; i < 77; i++)
		for (k = 0; k < 100; k++)
			in[i][k] = i * 1000 + k;
	adp_copy_strided(&a, (const char *)in, (char *)out);
	for (i = 0; i < 77; i++)
		for (k = 0; k < 100; k++)
			assert_int_equal(out[k][i], i * 1000 + k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_are_copied),
		cmocka_unit_test(a_transpose),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
