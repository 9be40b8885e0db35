/* SPDX-License-Identifier: Apache-2.0 */
/*
 * private_daemon: a daemon that does not start in time is stopped. The daemon inherits neither the
 * job's signal settings nor the job's private environment. test_cli_run.py tests the rest, with
 * many processes at once.
 */
#include "cli/daemon/private_daemon.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"

struct fixture {
	char root[32];
	char program[64], socket[64], lock[64], log[64];
	struct cli_private_daemon daemon;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->root, "/tmp/salus-test-XXXXXX");
	assert_non_null(mkdtemp(f->root));
	(void)snprintf(f->program, sizeof(f->program), "%s/salusd", f->root);
	(void)snprintf(f->socket, sizeof(f->socket), "%s/socket", f->root);
	(void)snprintf(f->lock, sizeof(f->lock), "%s/lock", f->root);
	(void)snprintf(f->log, sizeof(f->log), "%s/log", f->root);
	f->daemon = (struct cli_private_daemon){ .program = f->program,
						 .socket = f->socket,
						 .lock = f->lock,
						 .log = f->log,
						 .wait_ms = 500 };
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char command[64];

	(void)snprintf(command, sizeof(command), "rm -rf -- '%s'", f->root);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

static void write_program(const struct fixture *f, const char *script)
{
	FILE *file = fopen(f->program, "we");

	assert_non_null(file);
	assert_true(fputs(script, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(f->program, 0700), 0);
}

static void read_log(const struct fixture *f, char *text, size_t size)
{
	FILE *file = fopen(f->log, "re");

	assert_non_null(file);
	text[fread(text, 1, size - 1, file)] = '\0';
	assert_int_equal(fclose(file), 0);
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	assert_int_equal(closedir(dir), 0);
	return count;
}

static int ensure(struct fixture *f, struct sal_err *err)
{
	json_t *ping = (json_t *)f;
	int before = count_fds();
	int rc = cli_private_daemon_ensure(&f->daemon, &ping, err);

	assert_null(ping);
	assert_int_equal(count_fds(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	return rc;
}

static void one_that_hangs_is_stopped(void **state)
{
	struct fixture *f = *state;
	struct sal_err err = { 0 };
	char said[64];
	pid_t pid;

	write_program(f, "#!/bin/sh\necho $$\nexec sleep 1000\n");
	assert_int_equal(ensure(f, &err), -SAL_DEADLINE_EXCEEDED);
	assert_string_equal(err.text, "salusd did not answer within 1 s");
	read_log(f, said, sizeof(said));
	pid = (pid_t)strtol(said, NULL, 10);
	assert_true(pid > 1);
	assert_true(kill(pid, 0) < 0 || getpgid(pid) != pid);
}

static void one_that_ends_is_noticed(void **state)
{
	struct fixture *f = *state;
	struct sal_err err = { 0 };

	f->daemon.wait_ms = 60000;
	write_program(f, "#!/bin/sh\nexit 3\n");
	assert_int_equal(ensure(f, &err), -SAL_UNAVAILABLE);
	assert_string_equal(err.text, "salusd ended with status 3 before it answered");
	write_program(f, "#!/bin/sh\nkill -9 $$\n");
	assert_int_equal(ensure(f, &err), -SAL_UNAVAILABLE);
	assert_string_equal(err.text, "salusd was killed by signal 9 (Killed)");
}

/* The parent process may have ignored or blocked signals that a daemon needs. */
static void signals_are_not_inherited(void **state)
{
	struct fixture *f = *state;
	struct sal_err err = { 0 };
	/* Signals 32 and 33 belong to the C library: no program can reset them. */
	const unsigned long long libc_own = 3ull << 31;
	unsigned long long blocked, ignored;
	char said[256];
	sigset_t all;

	f->daemon.wait_ms = 60000;
	write_program(f, "#!/bin/sh\ngrep -E '^Sig(Blk|Ign)' /proc/self/status\nexit 5\n");
	(void)signal(SIGCHLD, SIG_IGN);
	(void)signal(SIGTERM, SIG_IGN);
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	assert_int_equal(ensure(f, &err), -SAL_UNAVAILABLE);
	(void)sigprocmask(SIG_UNBLOCK, &all, NULL);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)signal(SIGTERM, SIG_DFL);
	assert_string_equal(err.text, "salusd ended with status 5 before it answered");
	read_log(f, said, sizeof(said));
	assert_int_equal(sscanf(said, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
	assert_int_equal(blocked, 0);
	assert_int_equal(ignored & ~libc_own, 0);
}

/* The daemon also serves other jobs, long after the job that started it. */
static void the_jobs_environment_is_the_jobs(void **state)
{
	static const char *const pass[] = { "HOME",
					    "LC_TIME",
					    "SALUS_PLUGIN",
					    "TMPDIR",
					    "XDG_STATE_HOME",
					    "CUDA_VISIBLE_DEVICES",
					    "LD_LIBRARY_PATH",
					    "SALUS_LOG" };
	static const char *const stay[] = {
		"AWS_SECRET_ACCESS_KEY", "HF_TOKEN",	 "PYTHONPATH",
		"PYTHONSTARTUP",	 "LD_AUDIT",	 "XLA_FLAGS",
		"SALUS_JOB_NAME",	 "SALUS_SOCKET", "HOMEWORK",
		"OMP_NUM_THREADS",	 "LCX",		 "SALUS_WEIGHT"
	};
	struct fixture *f = *state;
	struct sal_err err = { 0 };
	char said[8192], entry[64];
	size_t i;

	f->daemon.wait_ms = 60000;
	write_program(f, "#!/bin/sh\nenv\nexit 5\n");
	for (i = 0; i < sizeof(pass) / sizeof(pass[0]); i++)
		assert_int_equal(setenv(pass[i], "/passes", 1), 0);
	for (i = 0; i < sizeof(stay) / sizeof(stay[0]); i++)
		assert_int_equal(setenv(stay[i], "/stays", 1), 0);
	assert_int_equal(ensure(f, &err), -SAL_UNAVAILABLE);
	read_log(f, said, sizeof(said));
	for (i = 0; i < sizeof(pass) / sizeof(pass[0]); i++) {
		(void)snprintf(entry, sizeof(entry), "%s=/passes\n", pass[i]);
		assert_non_null(strstr(said, entry));
		assert_int_equal(unsetenv(pass[i]), 0);
	}
	assert_null(strstr(said, "/stays"));
	for (i = 0; i < sizeof(stay) / sizeof(stay[0]); i++)
		assert_int_equal(unsetenv(stay[i]), 0);
}

static void one_that_cannot_run_says_so_in_the_log(void **state)
{
	struct fixture *f = *state;
	struct sal_err err = { 0 };
	char said[256];

	f->daemon.wait_ms = 60000;
	assert_int_equal(ensure(f, &err), -SAL_UNAVAILABLE);
	assert_int_equal(f->daemon.log_from, 0);
	read_log(f, said, sizeof(said));
	assert_non_null(strstr(said, "salusd: No such file or directory"));
}

static void no_log_no_start(void **state)
{
	struct fixture *f = *state;
	struct sal_err err = { 0 };

	assert_int_equal(mkdir(f->log, 0700), 0);
	assert_int_equal(ensure(f, &err), -SAL_PERMISSION_DENIED);
	assert_int_equal(f->daemon.log_from, -1);
	assert_non_null(strstr(err.text, f->log));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_that_hangs_is_stopped), TEST(one_that_ends_is_noticed),
		TEST(signals_are_not_inherited), TEST(one_that_cannot_run_says_so_in_the_log),
		TEST(no_log_no_start),		 TEST(the_jobs_environment_is_the_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
