/* SPDX-License-Identifier: Apache-2.0 */
/* log_line - the format of a line in the log. */
#ifndef SAL_BASE_LOG_LINE_H
#define SAL_BASE_LOG_LINE_H

#include <stdarg.h>
#include <stddef.h>

#include "base/log/log.h"
#include "base/log/queue.h"

/*
 * Fills `line`, cut if necessary, with a newline and a NUL at the end. Returns its length without
 * the NUL.
 */
size_t sal_log_line_format(char line[SAL_LOG_LINE_BYTES], enum sal_log_level level,
			   const char *area, const char *fmt, va_list args)
	__attribute__((format(printf, 4, 0)));
size_t sal_log_line_print(char line[SAL_LOG_LINE_BYTES], enum sal_log_level level, const char *area,
			  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
