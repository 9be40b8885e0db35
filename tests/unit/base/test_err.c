/* SPDX-License-Identifier: Apache-2.0 */
/* err: codes, sentences, and the two ways to abort. */
#include "base/err.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void set_fills_and_returns_negated(void **state)
{
	struct sal_err err = { 0 };

	(void)state;
	assert_int_equal(sal_err_set(&err, SAL_NOT_FOUND, "no job \"%s\" among %d", "a", 7), -5);
	assert_int_equal(err.code, SAL_NOT_FOUND);
	assert_string_equal(err.text, "no job \"a\" among 7");
}

static void set_accepts_null(void **state)
{
	(void)state;
	assert_int_equal(sal_err_set(NULL, SAL_UNAVAILABLE, "gone"), -SAL_UNAVAILABLE);
}

static void set_marks_cut_text(void **state)
{
	struct sal_err err = { 0 };
	char fits[sizeof(err.text)];
	char longer[2 * sizeof(err.text)];

	(void)state;
	memset(fits, 'x', sizeof(fits) - 1);
	fits[sizeof(fits) - 1] = '\0';
	sal_err_set(&err, SAL_INTERNAL, "%s", fits);
	assert_string_equal(err.text, fits);

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	sal_err_set(&err, SAL_INTERNAL, "%s", longer);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_string_equal(err.text + sizeof(err.text) - 5, "x...");
}

static void set_puts_context_before_reason(void **state)
{
	struct sal_err err = { 0 };

	(void)state;
	sal_err_set(&err, SAL_DATA_LOSS, "short file");
	assert_int_equal(sal_err_set(&err, SAL_DATA_LOSS, "cache: %s", err.text), -SAL_DATA_LOSS);
	assert_string_equal(err.text, "cache: short file");
}

static void set_never_makes_success(void **state)
{
	struct sal_err err = { 0 };

	(void)state;
	assert_int_equal(sal_err_set(&err, SAL_OK, "odd"), -SAL_UNKNOWN);
	assert_int_equal(err.code, SAL_UNKNOWN);
	assert_int_equal(sal_err_set(NULL, (enum sal_code)17, "odd"), -SAL_UNKNOWN);
	assert_int_equal(sal_err_set(NULL, (enum sal_code) - 3, "odd"), -SAL_UNKNOWN);
}

static void names_are_those_of_pjrt(void **state)
{
	(void)state;
	assert_string_equal(sal_code_name(SAL_OK), "OK");
	assert_string_equal(sal_code_name(1), "CANCELLED");
	assert_string_equal(sal_code_name(8), "RESOURCE_EXHAUSTED");
	assert_string_equal(sal_code_name(-8), "RESOURCE_EXHAUSTED");
	assert_string_equal(sal_code_name(16), "UNAUTHENTICATED");
	assert_string_equal(sal_code_name(17), "UNKNOWN");
	assert_string_equal(sal_code_name(INT32_MIN), "UNKNOWN");
	for (int code = SAL_OK; code <= SAL_UNAUTHENTICATED; code++)
		assert_true(sal_code_name(code)[0] != '\0');
}

static void call_bug(void)
{
	SAL_BUG("lane %d is lost", 3);
}

static void call_false_assert(void)
{
	SAL_ASSERT(1 + 1 == 3);
}

static void call_true_assert(void)
{
	SAL_ASSERT(1 + 1 == 2);
}

/* Runs a function in a child and returns its wait status. said receives the child's stderr. */
static int run_child(void (*function)(void), char *said, size_t size)
{
	size_t used = 0;
	ssize_t got;
	int ends[2];
	int status;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		dup2(ends[1], STDERR_FILENO);
		function();
		_exit(0);
	}
	close(ends[1]);
	while (used + 1 < size && (got = read(ends[0], said + used, size - 1 - used)) > 0)
		used += (size_t)got;
	said[used] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void bug_says_where_and_aborts(void **state)
{
	char said[512];
	int status = run_child(call_bug, said, sizeof(said));

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_int_equal(strncmp(said, "tests/unit/base/test_err.c:", 27), 0);
	assert_non_null(strstr(said, ": bug: lane 3 is lost\n"));
}

static void assert_aborts_only_when_false(void **state)
{
	char said[512];
	int status = run_child(call_false_assert, said, sizeof(said));

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_non_null(strstr(said, "assertion failed: 1 + 1 == 3"));

	status = run_child(call_true_assert, said, sizeof(said));
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_string_equal(said, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_fills_and_returns_negated),
		cmocka_unit_test(set_accepts_null),
		cmocka_unit_test(set_marks_cut_text),
		cmocka_unit_test(set_puts_context_before_reason),
		cmocka_unit_test(set_never_makes_success),
		cmocka_unit_test(names_are_those_of_pjrt),
		cmocka_unit_test(bug_says_where_and_aborts),
		cmocka_unit_test(assert_aborts_only_when_false),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
