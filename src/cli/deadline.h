/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadline - a moment on the monotonic clock, in milliseconds, by which something must be done.
 */
#ifndef SAL_CLI_DEADLINE_H
#define SAL_CLI_DEADLINE_H

#include <stdint.h>
#include <time.h>

#include "base/sys/clock.h"

static inline int64_t cli_deadline_in(int64_t wait_ms)
{
	return sal_now_ms() + wait_ms;
}

/* Never negative; 0: the deadline has passed. */
static inline int cli_deadline_left_ms(int64_t deadline_ms)
{
	int64_t left = deadline_ms - cli_deadline_in(0);

	return left > 0 ? (int)left : 0;
}

/* Time between two checks of a condition. */
static inline void cli_sleep_ms(int64_t wait_ms)
{
	struct timespec wait = { .tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000 };

	(void)nanosleep(&wait, NULL);
}

#endif
