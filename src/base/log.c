/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct {
	int fd;
	enum sal_log_level most;
} sink = { .fd = -1 };

void sal_log_open(int fd, enum sal_log_level most)
{
	sink.fd = fd;
	sink.most = most;
}

void sal_log_write(enum sal_log_level level, const char *area, const char *fmt, ...)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	char line[1024];
	struct timespec now;
	struct tm utc;
	va_list args;
	int n;

	if (sink.fd < 0 || level > sink.most)
		return;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &utc);
	n = (int)strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &utc);
	n += snprintf(line + n, sizeof(line) - (size_t)n, ".%03ldZ %s %s: ", now.tv_nsec / 1000000,
		      names[level], area);
	va_start(args, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, args);
	va_end(args);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (write(sink.fd, line, (size_t)n) < 0)
		return; /* there is nowhere to say so */
}
