/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log - one event, one line: time, level, area, text. Decisions are not logs, they are trace records.
 *
 * The sink is the only mutable state of the base layer: a descriptor and a level, set once at start.
 */
#ifndef SAL_BASE_LOG_H
#define SAL_BASE_LOG_H

enum sal_log_level {
	SAL_LOG_ERROR,
	SAL_LOG_WARN,
	SAL_LOG_INFO,
	SAL_LOG_DEBUG
};

/* fd is borrowed. Nothing is written before this is called. */
void sal_log_open(int fd, enum sal_log_level most);
void sal_log_write(enum sal_log_level level, const char *area, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define sal_log_error(area, ...) sal_log_write(SAL_LOG_ERROR, area, __VA_ARGS__)
#define sal_log_warn(area, ...) sal_log_write(SAL_LOG_WARN, area, __VA_ARGS__)
#define sal_log_info(area, ...) sal_log_write(SAL_LOG_INFO, area, __VA_ARGS__)
#define sal_log_debug(area, ...) sal_log_write(SAL_LOG_DEBUG, area, __VA_ARGS__)

#endif
