/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock - the monotonic clock: it never goes back, and has nothing to do with the time of day. And
 * the CPU time of the calling thread.
 */
#ifndef SAL_BASE_SYS_CLOCK_H
#define SAL_BASE_SYS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t sal_now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Costs a system call. */
static inline uint64_t sal_thread_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int64_t sal_now_ms(void)
{
	return (int64_t)(sal_now_ns() / 1000000u);
}

#endif
