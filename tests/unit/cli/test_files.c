/* SPDX-License-Identifier: Apache-2.0 */
/* log_tail and save: the last lines of a file; and a saved file is complete, or unchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/daemon/log_tail.h"
#include "cli/save.h"

#define LINES 12 /* as in log_tail.c */

struct folder {
	char dir[64];
	char file[96], partial[112];
};

static int folder_open(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/salus-files-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->file, sizeof(f->file), "%s/file", f->dir);
	(void)snprintf(f->partial, sizeof(f->partial), "%s.partial", f->file);
	*state = f;
	return 0;
}

static int folder_close(void **state)
{
	struct folder *f = *state;

	(void)unlink(f->file);
	(void)unlink(f->partial);
	(void)rmdir(f->dir);
	free(f);
	return 0;
}

/* Log_tail */

/* Writes lines 1 to count, and then `end` without a newline. */
static void write_log(const struct folder *f, int count, const char *end)
{
	FILE *file = fopen(f->file, "we");
	int i;

	assert_non_null(file);
	for (i = 1; i <= count; i++)
		assert_true(fprintf(file, "line %d\n", i) > 0);
	assert_true(fputs(end, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* The printed text, which the caller frees. */
static char *tail_of(const struct folder *f, off_t from)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	cli_log_tail(out, f->file, from);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void expect_lines(const struct folder *f, off_t from, int first, int last)
{
	char *text = tail_of(f, from), *at = strchr(text, '\n');
	int i;

	assert_true(strncmp(text, "The end of its log, ", 20) == 0);
	for (i = first; i <= last; i++) {
		char line[32];

		(void)snprintf(line, sizeof(line), "\n  line %d", i);
		assert_non_null(at);
		assert_true(strncmp(at, line, strlen(line)) == 0);
		at = strchr(at + 1, '\n');
	}
	assert_string_equal(at, "\n");
	free(text);
}

static void the_last_lines_are_shown(void **state)
{
	const struct folder *f = *state;

	write_log(f, LINES, "");
	expect_lines(f, 0, 1, LINES);
	write_log(f, LINES + 1, "");
	expect_lines(f, 0, 2, LINES + 1);
	write_log(f, 3, "line 4"); /* the writer died before the newline */
	expect_lines(f, 0, 1, 4);
	write_log(f, 5, "\n\n\n");
	expect_lines(f, 0, 1, 5);
	write_log(f, 5000, ""); /* larger than the part that is read */
	expect_lines(f, 0, 5000 - LINES + 1, 5000);
}

static void nothing_from_before_is_shown(void **state)
{
	const struct folder *f = *state;
	char *text;

	write_log(f, 5, "");
	expect_lines(f, 14, 3, 5); /* each line has seven bytes */
	expect_lines(f, 36, 1, 5); /* the file was longer before: another process truncated it */
	text = tail_of(f, 35);
	assert_true(strncmp(text, "Its log says nothing: ", 22) == 0);
	free(text);
}

static void a_log_that_is_not_there_says_nothing(void **state)
{
	char *text = tail_of(*state, 0);

	assert_true(strncmp(text, "Its log says nothing: ", 22) == 0);
	free(text);
}

/* Save */

static int write_word(FILE *out, const void *what, struct sal_err *err)
{
	const char *word = what;

	(void)fputs(word, out);
	return *word == '!' ? sal_err_set(err, SAL_DATA_LOSS, "on purpose") : SAL_OK;
}

static void expect_content(const char *path, const char *content)
{
	char text[64] = "";
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	assert_string_equal(text, content);
	(void)fclose(file);
}

static void a_file_is_whole_or_as_it_was(void **state)
{
	const struct folder *f = *state;
	struct sal_err err = { 0 };

	assert_int_equal(cli_save(f->file, write_word, "first", &err), SAL_OK);
	expect_content(f->file, "first");
	assert_int_equal(cli_save(f->file, write_word, "!half", &err), -SAL_DATA_LOSS);
	assert_string_equal(err.text, "on purpose");
	expect_content(f->file, "first");
	assert_int_equal(access(f->partial, F_OK), -1);
	assert_int_equal(cli_save(f->file, write_word, "second", &err), SAL_OK);
	expect_content(f->file, "second");
	assert_int_equal(access(f->partial, F_OK), -1);
}

static void a_file_that_cannot_be_is_reported(void **state)
{
	const struct folder *f = *state;
	struct sal_err err = { 0 };

	assert_int_equal(cli_save("/proc/self/none/file", write_word, "x", &err), -SAL_UNAVAILABLE);
	assert_non_null(strstr(err.text, "/proc/self/none/file"));
	/* Through a link: a save that replaced the device would replace only the link. */
	assert_int_equal(symlink("/dev/full", f->file), 0);
	assert_int_equal(cli_save(f->file, write_word, "x", &err), -SAL_UNAVAILABLE);
}

/* A pipe is written to, not replaced. */
static void a_device_stays_one(void **state)
{
	const struct folder *f = *state;
	struct sal_err err = { 0 };
	struct stat st;

	assert_int_equal(symlink("/dev/null", f->file), 0);
	assert_int_equal(cli_save(f->file, write_word, "x", &err), SAL_OK);
	assert_int_equal(lstat(f->file, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(access(f->partial, F_OK), -1);
}

#define T(test) cmocka_unit_test_setup_teardown(test, folder_open, folder_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_last_lines_are_shown),
		T(nothing_from_before_is_shown),
		T(a_log_that_is_not_there_says_nothing),
		T(a_file_is_whole_or_as_it_was),
		T(a_file_that_cannot_be_is_reported),
		T(a_device_stays_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
