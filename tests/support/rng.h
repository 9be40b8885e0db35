/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rng - random numbers that a seed replays on any machine (splitmix64).
 */
#ifndef SAL_TESTS_SUPPORT_RNG_H
#define SAL_TESTS_SUPPORT_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* 0 .. below - 1; 0 if below is 0. */
static inline uint64_t rng_below(struct rng *r, uint64_t below)
{
	uint64_t n = rng_next(r);

	return below ? n % below : 0;
}

/* from .. to, both included. */
static inline uint64_t rng_range(struct rng *r, uint64_t from, uint64_t to)
{
	return from + rng_below(r, to - from + 1);
}

/* True in `percent` of 100 cases. */
static inline bool rng_chance(struct rng *r, uint32_t percent)
{
	return rng_below(r, 100) < percent;
}

/* All magnitudes up to `most` are equally likely, so small numbers are frequent. */
static inline uint64_t rng_skewed(struct rng *r, uint64_t most)
{
	uint32_t bits = most ? 64 - (uint32_t)__builtin_clzll(most) : 0;
	uint64_t mask = (UINT64_C(1) << rng_below(r, bits + 1)) - 1;
	uint64_t n = rng_next(r) & mask;

	return n < most ? n : most;
}

#endif
