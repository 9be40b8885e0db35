/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log - one event, one line: time, level, area, text. Decisions are not logs, they are trace records.
 *
 * Logging never waits for whoever reads the log. After sal_log_start a line goes into a bounded queue, and a
 * thread of the log writes it; lines for which the queue has no room are dropped and counted, and the count is
 * written when there is room again. After sal_log_open the caller writes the line itself, if the sink takes it
 * without waiting.
 *
 * The sink is the only mutable state of the base layer, set once at start.
 *
 * Threads: any, under any lock.
 */
#ifndef SAL_BASE_LOG_H
#define SAL_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum sal_log_level {
	SAL_LOG_ERROR,
	SAL_LOG_WARN,
	SAL_LOG_INFO,
	SAL_LOG_DEBUG
};

/* Each level of each area but debug has a budget: so many lines at once, and so many a second. */
#define SAL_LOG_BURST_LINES 200u
#define SAL_LOG_LINES_PER_S 20u

/* Smaller files would be replaced all the time. */
#define SAL_LOG_SIZE_MIN (UINT64_C(64) << 10)

struct sal_log_config {
	const char *path; /* NULL: stderr */
	uint64_t size_max_bytes; /* beyond, the file is renamed to PATH.1 and begun anew; 0: never */
	enum sal_log_level most;
};

/*
 * Starts the log's thread. From here on it also has what this process and its children print: stdout and stderr
 * are a pipe that the thread reads, so that nobody who prints waits either. A crash waits a moment until what was
 * said is written. Fails if the file cannot be opened.
 */
int sal_log_start(const struct sal_log_config *cfg, struct sal_err *err);
/* Waits at most that long until everything is written that came before; false if it is not. Signal-safe. */
bool sal_log_flush(unsigned wait_ms);
/* Flushes and ends the thread; stdout and stderr are what they were before. */
void sal_log_stop(unsigned wait_ms);

/* Without a thread. fd is borrowed. Nothing is written before one of the two is called. */
void sal_log_open(int fd, enum sal_log_level most);

void sal_log_write(enum sal_log_level level, const char *area, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define sal_log_error(area, ...) sal_log_write(SAL_LOG_ERROR, area, __VA_ARGS__)
#define sal_log_warn(area, ...) sal_log_write(SAL_LOG_WARN, area, __VA_ARGS__)
#define sal_log_info(area, ...) sal_log_write(SAL_LOG_INFO, area, __VA_ARGS__)
#define sal_log_debug(area, ...) sal_log_write(SAL_LOG_DEBUG, area, __VA_ARGS__)

/* --- lines that somebody else causes ----------------------------------------------------------------------- */

#define SAL_LOG_LIMITED_BURST_LINES 20u
#define SAL_LOG_LIMITED_LINES_PER_S 1u

/* A budget of lines about one thing, such as a session; embedded by its owner, zero at first. */
struct sal_log_budget {
	uint64_t paid_until_ns;
	uint64_t left_out; /* lines since the last one that was written */
};

/* A line at the cost of the budget too. Without a budget for it, the line is counted; the next one says so. */
void sal_log_limited(struct sal_log_budget *b, enum sal_log_level level, const char *area,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The rule: true if the budget allows one more now; false counts it as left out. Guarded by the caller. */
bool sal_log_budget_take(struct sal_log_budget *b, uint64_t now_ns, uint32_t burst, uint32_t per_s);

#endif
