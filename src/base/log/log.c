/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log/log.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log/line.h"
#include "base/log/writer.h"
#include "base/sys/clock.h"

#define AREAS_MAX 16
#define CRASH_WAIT_MS 200

/* The budget for lines of one level in one area. */
struct area {
	const char *name; /* borrowed: a literal; NULL: unused */
	enum sal_log_level level;
	struct sal_log_budget budget;
};

static struct {
	int fd; /* -1: a writer is used, or no log is open */
	enum sal_log_level level_max;
	struct sal_log_writer *writer; /* owned */
	pthread_mutex_t lock; /* guards areas */
	struct area areas[AREAS_MAX];
} sink = { .fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER };

/* Budgets */

/* Each line moves paid_until_ns forward. The burst limits how far it may be ahead of now. */
bool sal_log_budget_take(struct sal_log_budget *b, uint64_t now_ns, uint32_t burst, uint32_t per_s)
{
	uint64_t price_ns = UINT64_C(1000000000) / per_s;

	if (b->paid_until_ns < now_ns)
		b->paid_until_ns = now_ns;
	if (b->paid_until_ns - now_ns > (burst - 1) * price_ns) {
		b->left_out++;
		return false;
	}
	b->paid_until_ns += price_ns;
	return true;
}

/* There are few areas. If there are too many, the last ones share a budget. */
static struct area *find_area(const char *name, enum sal_log_level level)
{
	size_t i;

	for (i = 0; i + 1 < AREAS_MAX && sink.areas[i].name; i++)
		if (sink.areas[i].level == level && strcmp(sink.areas[i].name, name) == 0)
			return &sink.areas[i];
	sink.areas[i].name = name;
	sink.areas[i].level = level;
	return &sink.areas[i];
}

static void put_left_out(enum sal_log_level level, const char *area, uint64_t lines)
{
	char line[SAL_LOG_LINE_BYTES];
	size_t n;

	if (lines == 0)
		return;
	n = sal_log_line_print(line, level, area,
			       "left out %llu lines: too many in so short a time",
			       (unsigned long long)lines);
	(void)sal_log_queue_put(&sink.writer->queue, line, n, SAL_LOG_QUEUE_BYTES);
}

/*
 * True if one more line of this level and area may be written now. Before that line, writes how
 * many lines were left out.
 */
static bool is_allowed(enum sal_log_level level, const char *area)
{
	uint64_t left_out = 0;
	struct area *a;
	bool ok;

	if (level == SAL_LOG_DEBUG)
		return true; /* the user asked for debug lines */
	(void)pthread_mutex_lock(&sink.lock);
	a = find_area(area, level);
	ok = sal_log_budget_take(&a->budget, sal_now_ns(), SAL_LOG_BURST_LINES,
				 SAL_LOG_LINES_PER_S);
	if (ok) {
		left_out = a->budget.left_out;
		a->budget.left_out = 0;
	}
	(void)pthread_mutex_unlock(&sink.lock);
	put_left_out(level, area, left_out);
	if (!ok)
		atomic_store(&sink.writer->owes, true);
	return ok;
}

/*
 * Runs on the log's thread: lines were left out, and no line followed within a second to report
 * their number.
 */
static void report(void)
{
	size_t i;

	for (i = 0; i < AREAS_MAX; i++) {
		struct area a;

		(void)pthread_mutex_lock(&sink.lock);
		a = sink.areas[i];
		sink.areas[i].budget.left_out = 0;
		(void)pthread_mutex_unlock(&sink.lock);
		put_left_out(a.level, a.name, a.budget.left_out);
	}
}

/* Lines */

static void write_now(const char *line, size_t size)
{
	struct pollfd p = { .fd = sink.fd, .events = POLLOUT };

	if (poll(&p, 1, 0) <= 0 || write(sink.fd, line, size) < 0)
		return; /* the failure cannot be logged */
}

static void write_line(enum sal_log_level level, const char *area, const char *fmt, va_list args)
	__attribute__((format(printf, 3, 0)));

static void write_line(enum sal_log_level level, const char *area, const char *fmt, va_list args)
{
	char line[SAL_LOG_LINE_BYTES];
	size_t n;

	if (sink.writer && !is_allowed(level, area))
		return;
	n = sal_log_line_format(line, level, area, fmt, args);
	if (sink.writer)
		(void)sal_log_queue_put(&sink.writer->queue, line, n, SAL_LOG_QUEUE_BYTES);
	else
		write_now(line, n);
}

static bool is_wanted(enum sal_log_level level)
{
	return (sink.fd >= 0 || sink.writer) && level <= sink.level_max;
}

void sal_log_write(enum sal_log_level level, const char *area, const char *fmt, ...)
{
	va_list args;

	if (!is_wanted(level))
		return;
	va_start(args, fmt);
	write_line(level, area, fmt, args);
	va_end(args);
}

void sal_log_limited(struct sal_log_budget *b, enum sal_log_level level, const char *area,
		     const char *fmt, ...)
{
	uint64_t left_out;
	va_list args;
	bool ok;

	if (!is_wanted(level))
		return;
	(void)pthread_mutex_lock(&sink.lock);
	ok = sal_log_budget_take(b, sal_now_ns(), SAL_LOG_LIMITED_BURST_LINES,
				 SAL_LOG_LIMITED_LINES_PER_S);
	left_out = b->left_out;
	if (ok)
		b->left_out = 0;
	(void)pthread_mutex_unlock(&sink.lock);
	if (!ok)
		return;
	va_start(args, fmt);
	write_line(level, area, fmt, args);
	va_end(args);
	if (left_out)
		sal_log_write(level, area, "left out %llu lines like the one before",
			      (unsigned long long)left_out);
}

/* Start and stop */

void sal_log_open(int fd, enum sal_log_level level_max)
{
	sink.fd = fd;
	sink.level_max = level_max;
}

/*
 * Waits until the log's thread has written the last lines, while other threads continue. Then the
 * signal takes its default action.
 */
static void on_crash(int number)
{
	char text[] = "killed by signal 00\n";

	text[sizeof(text) - 4] = (char)('0' + number / 10);
	text[sizeof(text) - 3] = (char)('0' + number % 10);
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		text[0] = '\0'; /* the lines before this one are more important */
	(void)sal_log_flush(CRASH_WAIT_MS);
	(void)raise(number); /* delivered on return, to the default handler */
}

static void watch_crashes(void)
{
	static const int numbers[] = { SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL };
	struct sigaction ours = { .sa_handler = on_crash, .sa_flags = SA_RESETHAND };
	struct sigaction before;
	size_t i;

	for (i = 0; i < SAL_COUNT(numbers); i++)
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
			(void)sigaction(numbers[i], &ours, NULL);
}

int sal_log_start(const struct sal_log_config *cfg, struct sal_err *err)
{
	int rc = sal_log_writer_create(cfg, report, &sink.writer, err);

	if (rc < 0)
		return rc;
	sink.level_max = cfg->level_max;
	watch_crashes();
	return SAL_OK;
}

bool sal_log_flush(unsigned wait_ms)
{
	return !sink.writer || sal_log_writer_flush(sink.writer, wait_ms);
}

void sal_log_stop(unsigned wait_ms)
{
	struct sal_log_writer *writer = sink.writer;

	if (!writer)
		return;
	report();
	sink.writer = NULL;
	sal_log_writer_destroy(writer, wait_ms);
}
