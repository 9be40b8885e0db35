/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log/line.h"
#include "base/sys/clock.h"
#include "base/sys/thread.h"

/* Limits of printed lines: in a burst, a second, and the share of the queue that they may fill. */
#define PRINTED_BURST_LINES 1000u
#define PRINTED_LINES_PER_S 100u
#define PRINTED_QUEUE_BYTES (SAL_LOG_QUEUE_BYTES / 2)

/* Limits of one round of the thread. */
#define READS_MAX 16
#define WRITES_MAX 64
#define REPORT_MS 1000

/*
 * A sanitizer prints its report and ends the process, so its output must not depend on our thread.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OTHERS_PRINT_LAST 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OTHERS_PRINT_LAST 1
#endif
#endif
#ifndef OTHERS_PRINT_LAST
#define OTHERS_PRINT_LAST 0
#endif

/* What is printed */

static void put_left_out(struct sal_log_writer *w)
{
	char line[SAL_LOG_LINE_BYTES];
	size_t n = sal_log_line_print(line, SAL_LOG_WARN, "log",
				      "left out %llu printed lines: more than %u a second",
				      (unsigned long long)w->print_budget.left_out,
				      PRINTED_LINES_PER_S);

	w->print_budget.left_out = 0;
	(void)sal_log_queue_put(&w->queue, line, n, SAL_LOG_QUEUE_BYTES);
}

static void end_printed_line(struct sal_log_writer *w)
{
	size_t n = w->partial_size;

	w->partial_size = 0;
	if (!sal_log_budget_take(&w->print_budget, sal_now_ns(), PRINTED_BURST_LINES,
				 PRINTED_LINES_PER_S)) {
		atomic_store(&w->owes, true);
		return;
	}
	if (w->print_budget.left_out)
		put_left_out(w);
	w->partial[n++] = '\n';
	(void)sal_log_queue_put(&w->queue, w->partial, n, PRINTED_QUEUE_BYTES);
}

static void add_printed(struct sal_log_writer *w, const char *bytes, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++) {
		if (bytes[i] != '\n')
			w->partial[w->partial_size++] = bytes[i];
		if (bytes[i] == '\n' || w->partial_size == SAL_LOG_LINE_BYTES - 1)
			end_printed_line(w);
	}
}

/* Reads some printed bytes. False if there are no more for now. */
static bool read_printed(struct sal_log_writer *w)
{
	char bytes[SAL_LOG_WRITE_BYTES];
	int reads;

	for (reads = 0; w->printed >= 0 && reads < READS_MAX; reads++) {
		ssize_t n = read(w->printed, bytes, sizeof(bytes));

		if (n <= 0)
			return false;
		add_printed(w, bytes, (size_t)n);
	}
	return w->printed >= 0;
}

/* What is written */

/* Takes the next lines from the queue. False if there are none. */
static bool fill(struct sal_log_writer *w)
{
	char lines[SAL_LOG_WRITE_BYTES - SAL_LOG_LINE_BYTES];
	size_t n = sal_log_queue_take(&w->queue, lines, sizeof(lines), &w->out_lost);

	w->out_at = w->out_size = 0;
	if (n == 0) {
		sal_log_queue_lose(&w->queue, w->out_lost); /* the next line reports them */
		return false;
	}
	if (w->is_torn)
		w->out[w->out_size++] = '\n';
	if (w->out_lost)
		w->out_size +=
			sal_log_line_print(w->out + w->out_size, SAL_LOG_WARN, "log",
					   "lost %llu lines: the log could not be written in time",
					   (unsigned long long)w->out_lost);
	memcpy(w->out + w->out_size, lines, n);
	w->out_size += n;
	return true;
}

/* The sink failed: a full disk, or a pipe without a reader. */
static void lose(struct sal_log_writer *w)
{
	uint64_t lines = 0;
	size_t i;

	for (i = w->out_at; i < w->out_size; i++)
		lines += w->out[i] == '\n';
	if (w->out_at > 0) {
		w->is_torn = w->out[w->out_at - 1] != '\n';
	} else { /* the loss was not reported; the report itself is not a lost line */
		lines += w->out_lost;
		lines -= (w->is_torn ? 1u : 0u) + (w->out_lost ? 1u : 0u);
	}
	sal_log_queue_lose(&w->queue, lines);
	w->out_at = w->out_size = 0;
}

/*
 * The next write may block this thread. Printing must then fail instead of blocking, too. Set again
 * each time, because starting a child with our stderr makes the pipe blocking.
 */
static void make_printing_nonblocking(struct sal_log_writer *w)
{
	if (w->print_end >= 0)
		(void)fcntl(w->print_end, F_SETFL, O_WRONLY | O_NONBLOCK);
}

/* Writes some lines, as long as the sink does not block. */
static void write_some(struct sal_log_writer *w)
{
	int writes;

	for (writes = 0; writes < WRITES_MAX; writes++) {
		ssize_t n;

		if (w->out_at == w->out_size && !fill(w))
			return;
		if (!sal_log_file_is_ready(&w->file))
			return;
		make_printing_nonblocking(w);
		n = sal_log_file_write(&w->file, w->out + w->out_at, w->out_size - w->out_at);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) {
			lose(w);
			continue;
		}
		w->out_at += (size_t)n;
		w->is_torn = false;
	}
}

/* The thread */

static void wait_for_work(struct sal_log_writer *w)
{
	struct pollfd p[] = {
		{ .fd = w->queue.bell, .events = POLLIN },
		{ .fd = w->printed, .events = POLLIN },
		{ .fd = w->file.fd, .events = POLLOUT },
	};
	bool idle = w->out_at == w->out_size && sal_log_queue_sleep(&w->queue);
	bool owes = atomic_load(&w->owes);
	uint64_t rings;
	int n;

	n = poll(p, idle ? 2 : 3, owes ? REPORT_MS : -1);
	if (n > 0 && p[0].revents && read(w->queue.bell, &rings, sizeof(rings)) < 0)
		return;
	if (n == 0 && owes) {
		atomic_store(&w->owes, false);
		if (w->print_budget.left_out)
			put_left_out(w);
		w->report();
	}
}

static void *run(void *ctx)
{
	struct sal_log_writer *w = ctx;

	while (!atomic_load(&w->stop)) {
		bool asked, more;

		wait_for_work(w);
		asked = atomic_load(&w->flush);
		more = read_printed(w);
		if (asked && !more && w->partial_size > 0)
			end_printed_line(w);
		write_some(w);
		/*
		 * All lines before the flush request have been taken. Check that they are written.
		 */
		if (asked && !more && w->out_at == w->out_size && sal_log_queue_sleep(&w->queue))
			atomic_store(&w->flush, false);
	}
	atomic_store(&w->ended, true);
	return NULL;
}

/* Start and stop */

static void take_over(struct sal_log_writer *w, int fd)
{
	int i;

	for (i = 0; i < 2; i++) {
		w->was[i] = fcntl(STDOUT_FILENO + i, F_DUPFD_CLOEXEC, 3);
		(void)dup2(fd, STDOUT_FILENO + i);
	}
}

static int open_pipe(struct sal_log_writer *w, struct sal_err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "pipe: %s", strerror(errno));
	w->printed = ends[0];
	w->print_end = ends[1];
	take_over(w, ends[1]);
	return SAL_OK;
}

static int start_thread(struct sal_log_writer *w, struct sal_err *err)
{
	int why = sal_thread_start(&w->thread, "salus-log", run, w); /* which takes no signals */

	if (why)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "the log's thread: %s",
				   strerror(why));
	return SAL_OK;
}

static void release(struct sal_log_writer *w)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (w->was[i] < 0)
			continue;
		(void)dup2(w->was[i], STDOUT_FILENO + i);
		(void)close(w->was[i]);
	}
	if (w->printed >= 0) {
		(void)close(w->printed);
		(void)close(w->print_end);
	}
	sal_log_file_close(&w->file);
	sal_log_queue_fini(&w->queue);
	free(w);
}

int sal_log_writer_create(const struct sal_log_config *cfg, void (*report)(void),
			  struct sal_log_writer **out_writer, struct sal_err *err)
{
	struct sal_log_writer *w = calloc(1, sizeof(*w));
	const char *path = cfg->path;
	int rc;

	*out_writer = NULL;
	if (!w)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	w->report = report;
	w->printed = w->print_end = w->was[0] = w->was[1] = w->queue.bell = -1;
	if (!path && fcntl(STDERR_FILENO, F_GETFD) < 0)
		path = "/dev/null";
	rc = sal_log_file_open(&w->file, path, STDERR_FILENO, cfg->size_max_bytes, err);
	if (rc >= 0)
		rc = sal_log_queue_init(&w->queue, err);
	if (rc >= 0 && !OTHERS_PRINT_LAST)
		rc = open_pipe(w, err);
	else if (rc >= 0 && path)
		take_over(w, w->file.fd);
	if (rc >= 0)
		rc = start_thread(w, err);
	if (rc < 0) {
		release(w);
		return rc;
	}
	*out_writer = w;
	return SAL_OK;
}

static bool wait_until(_Atomic bool *flag, bool value, uint64_t until_ns)
{
	const struct timespec step = { .tv_nsec = 200000 };

	while (atomic_load(flag) != value) {
		if (sal_now_ns() > until_ns)
			return false;
		(void)nanosleep(&step, NULL);
	}
	return true;
}

bool sal_log_writer_flush(struct sal_log_writer *w, unsigned wait_ms)
{
	atomic_store(&w->flush, true);
	sal_log_queue_ring(&w->queue);
	return wait_until(&w->flush, false, sal_now_ns() + wait_ms * UINT64_C(1000000));
}

void sal_log_writer_destroy(struct sal_log_writer *w, unsigned wait_ms)
{
	uint64_t until_ns = sal_now_ns() + wait_ms * UINT64_C(1000000);

	(void)sal_log_writer_flush(w, wait_ms);
	atomic_store(&w->stop, true);
	sal_log_queue_ring(&w->queue);
	if (!wait_until(&w->ended, true, until_ns + UINT64_C(50000000))) {
		(void)pthread_detach(w->thread); /* blocked by a disk: it ends with the process */
		return;
	}
	(void)pthread_join(w->thread, NULL);
	release(w);
}
