/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log/line.h"

#include <stdio.h>
#include <time.h>

size_t sal_log_line_format(char line[SAL_LOG_LINE_BYTES], enum sal_log_level level,
			   const char *area, const char *fmt, va_list args)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	const size_t size_max = SAL_LOG_LINE_BYTES - 2; /* minus the newline and the NUL */
	struct timespec now;
	struct tm utc;
	size_t n;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &utc);
	n = strftime(line, SAL_LOG_LINE_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
	n += (size_t)snprintf(line + n, SAL_LOG_LINE_BYTES - n,
			      ".%03ldZ %s %s: ", now.tv_nsec / 1000000, names[level], area);
	if (n < size_max)
		n += (size_t)vsnprintf(line + n, SAL_LOG_LINE_BYTES - n, fmt, args);
	if (n > size_max)
		n = size_max;
	line[n++] = '\n';
	line[n] = '\0';
	return n;
}

size_t sal_log_line_print(char line[SAL_LOG_LINE_BYTES], enum sal_log_level level, const char *area,
			  const char *fmt, ...)
{
	va_list args;
	size_t n;

	va_start(args, fmt);
	n = sal_log_line_format(line, level, area, fmt, args);
	va_end(args);
	return n;
}
