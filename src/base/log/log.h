/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log - one event is one line: time, level, area, text. Decisions are not logged; they are trace
 * records.
 *
 * Logging never waits for the reader of the log. After sal_log_start a line goes into a bounded
 * queue, and the log's thread writes it. If the queue is full, lines are dropped and counted; the
 * count is logged when there is room again. After sal_log_open the calling thread writes the line
 * itself, if that does not block.
 *
 * The sink is the only mutable state of the base layer. It is set once at the start.
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

/* Each level of each area has a budget, except debug: lines in a burst, and lines a second. */
#define SAL_LOG_BURST_LINES 200u
#define SAL_LOG_LINES_PER_S 20u

/* Smaller files would be replaced too often. */
#define SAL_LOG_SIZE_MIN (UINT64_C(64) << 10)

struct sal_log_config {
	const char *path; /* NULL: stderr */
	uint64_t size_max_bytes; /* larger files are renamed to PATH.1; 0: never */
	enum sal_log_level level_max;
};

/*
 * Starts the log's thread. The thread also logs the output of this process and its children: stdout
 * and stderr become a pipe that the thread reads, so that printing never blocks. A crash waits a
 * moment until the last lines are written. Fails if the file cannot be opened.
 */
int sal_log_start(const struct sal_log_config *cfg, struct sal_err *err);
/*
 * Waits at most wait_ms until all earlier lines are written. Returns false if they are not.
 * Signal-safe.
 */
bool sal_log_flush(unsigned wait_ms);
/* Flushes, ends the thread, and restores stdout and stderr. */
void sal_log_stop(unsigned wait_ms);

/* Logs without a thread; fd is borrowed. Before this call or sal_log_start, nothing is logged. */
void sal_log_open(int fd, enum sal_log_level level_max);

void sal_log_write(enum sal_log_level level, const char *area, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define sal_log_error(area, ...) sal_log_write(SAL_LOG_ERROR, area, __VA_ARGS__)
#define sal_log_warn(area, ...) sal_log_write(SAL_LOG_WARN, area, __VA_ARGS__)
#define sal_log_info(area, ...) sal_log_write(SAL_LOG_INFO, area, __VA_ARGS__)
#define sal_log_debug(area, ...) sal_log_write(SAL_LOG_DEBUG, area, __VA_ARGS__)

/* Lines that somebody else causes */

#define SAL_LOG_LIMITED_BURST_LINES 20u
#define SAL_LOG_LIMITED_LINES_PER_S 1u

/* A budget of lines about one thing, such as a session. Its owner embeds it, zeroed. */
struct sal_log_budget {
	uint64_t paid_until_ns;
	uint64_t left_out; /* lines left out since the last written one */
};

/*
 * Logs a line that also uses this budget. If the budget is used up, the line is only counted, and
 * the next line reports the count.
 */
void sal_log_limited(struct sal_log_budget *b, enum sal_log_level level, const char *area,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/*
 * Returns true if the budget allows one more line now. Otherwise counts the line as left out. The
 * caller guards the budget.
 */
bool sal_log_budget_take(struct sal_log_budget *b, uint64_t now_ns, uint32_t burst, uint32_t per_s);

#endif
