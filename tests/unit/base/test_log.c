/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 20000u
#define S UINT64_C(1000000000)
#define TEXT_MAX ((size_t)4 << 20)

static char folder[64], path[96], old_path[112];

static int make_folder(void **state)
{
	(void)state;
	(void)snprintf(folder, sizeof(folder), "/tmp/salus-log-XXXXXX");
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/log", folder);
	(void)snprintf(old_path, sizeof(old_path), "%s.1", path);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	(void)unlink(path);
	(void)unlink(old_path);
	return rmdir(folder);
}

static void start(const char *to, uint64_t size_max_bytes)
{
	struct sal_log_config cfg = {
		.path = to,
		.size_max_bytes = size_max_bytes,
		.level_max = SAL_LOG_DEBUG,
	};
	struct sal_err err = { 0 };

	assert_int_equal(sal_log_start(&cfg, &err), SAL_OK);
}

static void stop(void)
{
	assert_true(sal_log_flush(PATIENCE_MS));
	sal_log_stop(PATIENCE_MS);
}

/* The whole file. The caller frees it. */
static char *read_file(const char *from)
{
	int fd = open(from, O_RDONLY | O_CLOEXEC);
	char *text = calloc(1, TEXT_MAX);
	ssize_t n;

	assert_true(fd >= 0);
	assert_non_null(text);
	n = read(fd, text, TEXT_MAX - 1);
	assert_true(n >= 0);
	(void)close(fd);
	return text;
}

/* The number of occurrences of the words. */
static unsigned count(const char *text, const char *words)
{
	unsigned n = 0;

	while ((text = strstr(text, words))) {
		n++;
		text += strlen(words);
	}
	return n;
}

/* The sum of all numbers that follow the words. */
static unsigned long sum_after(const char *text, const char *words)
{
	unsigned long sum = 0;

	while ((text = strstr(text, words))) {
		text += strlen(words);
		sum += strtoul(text, NULL, 10);
	}
	return sum;
}

/* Sinks */

static void test_lines_arrive_in_order(void **state)
{
	const char *first, *second;
	char *text;

	(void)state;
	start(path, 0);
	sal_log_info("here", "first number=%d", 1);
	sal_log_warn("there", "second");
	stop();
	text = read_file(path);
	first = strstr(text, "Z info here: first number=1\n");
	second = strstr(text, "Z warn there: second\n");
	assert_non_null(first);
	assert_non_null(second);
	assert_true(first < second);
	free(text);
}

static void test_a_line_that_is_too_long_is_cut(void **state)
{
	char words[4096], *text;

	(void)state;
	memset(words, 'x', sizeof(words));
	words[sizeof(words) - 1] = '\0';
	start(path, 0);
	sal_log_info("here", "%s", words);
	sal_log_info("here", "next");
	stop();
	text = read_file(path);
	assert_non_null(strstr(text, "xx\n"));
	assert_non_null(strstr(text, "here: next\n"));
	assert_true(strchr(text, '\n') - text < 1024);
	free(text);
}

/* Reads the pipe until this many lines were seen or reported as lost. */
static void read_lines(int from, unsigned lines)
{
	char *text = calloc(1, TEXT_MAX);
	unsigned seen = 0;
	size_t used = 0;

	assert_non_null(text);
	while (seen < lines) {
		ssize_t n = read(from, text + used, TEXT_MAX - 1 - used);

		assert_true(n > 0);
		used += (size_t)n;
		text[used] = '\0';
		seen = count(text, "debug here:") + (unsigned)sum_after(text, ": lost ");
	}
	assert_int_equal(seen, lines);
	assert_true(sum_after(text, ": lost ") > 0);
	free(text);
}

/* Without the queue this test would never end. */
static void test_a_pipe_that_nobody_reads(void **state)
{
	const unsigned lines = 20000;
	char name[32];
	unsigned i;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", ends[1]);
	start(name, 0);
	for (i = 0; i < lines; i++)
		sal_log_debug("here", "line %u, and some words that fill the pipe", i);
	assert_false(sal_log_flush(10)); /* after the timeout */
	alarm(60); /* ends a test that hangs */
	read_lines(ends[0], lines);
	alarm(0);
	stop();
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void test_the_end_does_not_wait_for_a_reader(void **state)
{
	char name[32];
	unsigned i;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", ends[1]);
	start(name, 0);
	for (i = 0; i < 2000; i++)
		sal_log_debug("here", "line %u, and some words that fill the pipe", i);
	sal_log_stop(10);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void test_a_disk_that_is_full(void **state)
{
	struct stat st;
	int i;

	(void)state;
	if (stat("/dev/full", &st) < 0 || !S_ISCHR(st.st_mode))
		skip(); /* missing, or somebody's regular file, which must not be filled */
	start("/dev/full", 0);
	for (i = 0; i < 1000; i++)
		sal_log_debug("here", "line %d", i);
	stop();
}

/*
 * Lines that could not be written are counted, and the count is written when there is room again.
 */
static void test_a_disk_that_is_full_for_a_while(void **state)
{
	struct rlimit before, none;
	char *text;
	int i;

	(void)state;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	start(path, 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	for (i = 0; i < 10; i++)
		sal_log_debug("here", "line %d", i);
	assert_true(sal_log_flush(PATIENCE_MS));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	sal_log_debug("here", "there is room");
	stop();
	text = read_file(path);
	assert_int_equal(sum_after(text, "log: lost "), 10);
	assert_int_equal(count(text, "debug here: line"), 0);
	assert_non_null(strstr(text, "here: there is room\n"));
	free(text);
}

static void test_a_folder_that_is_not_there(void **state)
{
	struct sal_log_config cfg = { .path = "/nowhere/log" };
	struct sal_err err = { 0 };

	(void)state;
	assert_true(sal_log_start(&cfg, &err) < 0);
	assert_non_null(strstr(err.text, "/nowhere/log"));
}

/* Files of bounded size */

static off_t size_of(const char *file)
{
	struct stat st;

	assert_int_equal(stat(file, &st), 0);
	return st.st_size;
}

static void test_a_file_is_begun_anew(void **state)
{
	const int lines = 5000;
	unsigned long first, last;
	char *text, *old;
	int i;

	(void)state;
	start(path, SAL_LOG_SIZE_MIN);
	for (i = 0; i < lines; i++) {
		sal_log_debug("here", "number=%d of many", i);
		if (i % 500 == 0)
			assert_true(sal_log_flush(PATIENCE_MS));
	}
	stop();
	assert_true(size_of(path) <= (off_t)SAL_LOG_SIZE_MIN);
	assert_true(size_of(old_path) <= (off_t)SAL_LOG_SIZE_MIN);
	assert_true(size_of(old_path) > (off_t)SAL_LOG_SIZE_MIN / 2);
	text = read_file(path);
	old = read_file(old_path);
	assert_non_null(strstr(text, "number=4999 of many\n"));
	last = strtoul(strrchr(old, '=') + 1, NULL, 10);
	first = strtoul(strchr(text, '=') + 1, NULL, 10);
	assert_int_equal(first, last + 1); /* no line is missing in between */
	free(text);
	free(old);
}

static void test_a_file_that_was_too_large_before(void **state)
{
	FILE *f = fopen(path, "w");
	char *text;

	(void)state;
	assert_non_null(f);
	assert_int_equal(ftruncate(fileno(f), SAL_LOG_SIZE_MIN + 1), 0);
	(void)fclose(f);
	start(path, SAL_LOG_SIZE_MIN);
	sal_log_info("here", "new");
	stop();
	assert_int_equal(size_of(old_path), SAL_LOG_SIZE_MIN + 1);
	text = read_file(path);
	assert_non_null(strstr(text, "here: new\n"));
	free(text);
}

static void test_somebody_moves_the_file(void **state)
{
	char *text;

	(void)state;
	start(path, SAL_LOG_SIZE_MIN);
	sal_log_info("here", "before");
	assert_true(sal_log_flush(PATIENCE_MS));
	assert_int_equal(rename(path, old_path), 0);
	sal_log_info("here", "after");
	stop();
	text = read_file(path);
	assert_null(strstr(text, "before"));
	assert_non_null(strstr(text, "here: after\n"));
	free(text);
}

/* Budgets */

static void test_a_budget(void **state)
{
	struct sal_log_budget b = { 0 };
	unsigned taken = 0;
	int i;

	(void)state;
	for (i = 0; i < 100; i++)
		taken += sal_log_budget_take(&b, 5 * S, 10, 2);
	assert_int_equal(taken, 10);
	assert_int_equal(b.left_out, 90);
	assert_false(sal_log_budget_take(&b, 5 * S + S / 4, 10, 2));
	assert_true(sal_log_budget_take(&b, 5 * S + S / 2, 10, 2));
	assert_false(sal_log_budget_take(&b, 5 * S + S / 2, 10, 2));
	for (i = 0, taken = 0; i < 100; i++) /* the pipe is full after some lines */
		taken += sal_log_budget_take(&b, 1000 * S, 10, 2);
	assert_int_equal(taken, 10);
}

static void test_one_area_does_not_push_out_another(void **state)
{
	const unsigned lines = 5000;
	unsigned i, seen;
	char *text;

	(void)state;
	start(path, 0);
	for (i = 0; i < lines; i++)
		sal_log_info("session", "opened number=%u", i);
	sal_log_info("server", "hears");
	sal_log_warn("session", "is warned of");
	stop();
	text = read_file(path);
	seen = count(text, "info session: opened");
	assert_true(seen >= SAL_LOG_BURST_LINES && seen < lines / 2);
	assert_int_equal(seen + sum_after(text, "session: left out "), lines);
	assert_non_null(strstr(text, "server: hears\n"));
	assert_non_null(strstr(text, "warn session: is warned of\n"));
	free(text);
}

static void test_lines_at_the_cost_of_their_cause(void **state)
{
	struct sal_log_budget one = { 0 }, other = { 0 };
	unsigned i, seen;
	char *text;

	(void)state;
	start(path, 0);
	for (i = 0; i < 100; i++)
		sal_log_limited(&one, SAL_LOG_WARN, "a1", "one %u", i);
	sal_log_limited(&other, SAL_LOG_WARN, "a1", "the other");
	stop();
	text = read_file(path);
	seen = count(text, "a1: one");
	assert_true(seen >= SAL_LOG_LIMITED_BURST_LINES && seen < 50);
	assert_non_null(strstr(text, "a1: the other\n"));
	free(text);
}

/* What others print */

/* Under a sanitizer, printed text goes directly to the file. */
static bool can_read_printed_text(void)
{
	struct stat st;

	return fstat(STDERR_FILENO, &st) == 0 && S_ISFIFO(st.st_mode);
}

static void print(const char *text)
{
	assert_int_equal(write(STDERR_FILENO, text, strlen(text)), (ssize_t)strlen(text));
}

static void test_printed_text_is_logged(void **state)
{
	char *text;

	(void)state;
	start(path, 0);
	print("the vendor speaks\nand does not end its line");
	(void)dprintf(STDOUT_FILENO, "\n");
	sal_log_info("here", "meanwhile");
	print("again");
	stop();
	text = read_file(path);
	assert_non_null(strstr(text, "the vendor speaks\n"));
	assert_non_null(strstr(text, "and does not end its line\n")); /* the line is not split */
	assert_non_null(strstr(text, "here: meanwhile\n"));
	assert_non_null(strstr(text, "again"));
	free(text);
}

/* A vendor that prints all the time neither blocks, nor fills the disk, nor displaces our lines. */
static void test_a_flood_of_printed_text(void **state)
{
	char *text;
	int i;

	(void)state;
	start(path, 0);
	if (!can_read_printed_text()) {
		stop();
		skip();
	}
	for (i = 0; i < 50000; i++)
		if (write(STDERR_FILENO, "chatter\n", 8) < 0) /* fails instead of blocking */
			continue;
	sal_log_info("here", "our line");
	stop();
	text = read_file(path);
	assert_non_null(strstr(text, "here: our line\n"));
	assert_in_range(count(text, "chatter\n"), 100, 10000);
	assert_true(sum_after(text, "left out ") > 0);
	free(text);
}

/* A vendor does not block either when nobody reads the sink. */
static void test_printing_while_nobody_reads(void **state)
{
	char name[32];
	int i, ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", ends[1]);
	start(name, 0);
	if (can_read_printed_text())
		for (i = 0; i < 100000; i++)
			if (write(STDERR_FILENO, "chatter and more of it\n", 23) < 0)
				continue;
	sal_log_stop(10);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

/* libuv makes the stderr of a child blocking. */
static void test_the_pipe_goes_on_to_refuse(void **state)
{
	(void)state;
	start(path, 0);
	if (!can_read_printed_text()) {
		stop();
		skip();
	}
	assert_int_equal(fcntl(STDERR_FILENO, F_SETFL, O_WRONLY), 0);
	sal_log_info("here", "a line");
	assert_true(sal_log_flush(PATIENCE_MS));
	assert_true(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK);
	stop();
}

static void crash(void)
{
	start(path, 0);
	sal_log_info("here", "the last line");
	print("the vendor's last words\n");
	abort();
}

static void test_a_crash_leaves_its_last_words(void **state)
{
	pid_t pid = fork();
	char *text;
	int status;

	(void)state;
	if (pid == 0)
		crash();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	text = read_file(path);
	assert_non_null(strstr(text, "here: the last line\n"));
	assert_non_null(strstr(text, "the vendor's last words\n"));
	assert_non_null(strstr(text, "killed by signal 06\n"));
	free(text);
}

#define test_in_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_in_folder(test_lines_arrive_in_order),
		test_in_folder(test_a_line_that_is_too_long_is_cut),
		cmocka_unit_test(test_a_pipe_that_nobody_reads),
		cmocka_unit_test(test_the_end_does_not_wait_for_a_reader),
		cmocka_unit_test(test_a_disk_that_is_full),
		test_in_folder(test_a_disk_that_is_full_for_a_while),
		cmocka_unit_test(test_a_folder_that_is_not_there),
		test_in_folder(test_a_file_is_begun_anew),
		test_in_folder(test_a_file_that_was_too_large_before),
		test_in_folder(test_somebody_moves_the_file),
		cmocka_unit_test(test_a_budget),
		test_in_folder(test_one_area_does_not_push_out_another),
		test_in_folder(test_lines_at_the_cost_of_their_cause),
		test_in_folder(test_printed_text_is_logged),
		test_in_folder(test_a_flood_of_printed_text),
		cmocka_unit_test(test_printing_while_nobody_reads),
		test_in_folder(test_the_pipe_goes_on_to_refuse),
		test_in_folder(test_a_crash_leaves_its_last_words),
	};

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
