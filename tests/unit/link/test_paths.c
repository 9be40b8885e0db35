/* SPDX-License-Identifier: Apache-2.0 */
/* paths: which variable counts, which folders are created, and which are refused. */
#include "link/paths.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"

#define OTHER_USER 12345

struct fixture {
	char root[64]; /* an empty directory */
	char path[SAL_PATH_BYTES]; /* the result of a call */
	char text[SAL_PATH_BYTES]; /* the expected path */
	struct sal_err err;
};

static const char *const variables[] = { "HOME",	   "SALUS_SOCKET",
					 "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
					 "XDG_STATE_HOME", NULL };

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const char *const *v;

	assert_non_null(f);
	strcpy(f->root, "/tmp/salus-test-XXXXXX");
	assert_non_null(mkdtemp(f->root));
	for (v = variables; *v; v++)
		assert_int_equal(unsetenv(*v), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -rf -- '%s'", f->root);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

/* root/below, valid until the next call. */
static const char *in(struct fixture *f, const char *below)
{
	(void)snprintf(f->text, sizeof(f->text), "%s/%s", f->root, below);
	return f->text;
}

static void set_env(struct fixture *f, const char *variable, const char *below)
{
	assert_int_equal(setenv(variable, in(f, below), 1), 0);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static void runtime_dir_is_the_users(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(setenv("XDG_RUNTIME_DIR", f->root, 1), 0);
	assert_int_equal(sal_path_runtime_dir(f->path, sizeof(f->path), &f->err), SAL_OK);
	assert_string_equal(f->path, in(f, "salus"));
	assert_int_equal(sal_path_default_socket(f->path, sizeof(f->path), &f->err), SAL_OK);
	assert_string_equal(f->path, in(f, "salus/salusd.sock"));
	assert_int_equal(access(in(f, "salus"), F_OK), -1); /* named, not created */
}

static void expect_fallback(struct fixture *f)
{
	char expected[64];

	(void)snprintf(expected, sizeof(expected), "/tmp/salus-%u", (unsigned)geteuid());
	assert_int_equal(sal_path_runtime_dir(f->path, sizeof(f->path), &f->err), SAL_OK);
	assert_string_equal(f->path, expected);
}

static void runtime_dir_falls_back(void **state)
{
	struct fixture *f = *state;

	expect_fallback(f); /* not set */
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "", 1), 0);
	expect_fallback(f);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "tmp", 1), 0);
	expect_fallback(f);
	set_env(f, "XDG_RUNTIME_DIR", "missing");
	expect_fallback(f);
}

/* As after `sudo`: the folder belongs to another user. */
static void runtime_dir_of_another_is_passed_over(void **state)
{
	struct fixture *f = *state;

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(in(f, "theirs"), 0700), 0);
	assert_int_equal(chown(in(f, "theirs"), OTHER_USER, OTHER_USER), 0);
	set_env(f, "XDG_RUNTIME_DIR", "theirs");
	expect_fallback(f);
}

static void socket_can_be_given(void **state)
{
	struct fixture *f = *state;
	bool given = true;

	assert_int_equal(setenv("XDG_RUNTIME_DIR", f->root, 1), 0);
	assert_int_equal(setenv("SALUS_SOCKET", "", 1), 0);
	assert_int_equal(sal_path_socket(f->path, sizeof(f->path), &given, &f->err), SAL_OK);
	assert_false(given);
	assert_string_equal(f->path, in(f, "salus/salusd.sock"));

	assert_int_equal(setenv("SALUS_SOCKET", "/x/y", 1), 0);
	assert_int_equal(sal_path_socket(f->path, sizeof(f->path), &given, &f->err), SAL_OK);
	assert_true(given);
	assert_string_equal(f->path, "/x/y");

	/* A job that changes its directory must get the same path. */
	assert_int_equal(setenv("SALUS_SOCKET", "y", 1), 0);
	assert_int_equal(chdir(f->root), 0);
	assert_int_equal(sal_path_socket(f->path, sizeof(f->path), NULL, &f->err), SAL_OK);
	assert_string_equal(f->path, in(f, "y"));
	assert_int_equal(chdir("/"), 0);
}

static void private_dir_is_made_closed(void **state)
{
	struct fixture *f = *state;
	mode_t before = umask(0);

	assert_int_equal(sal_path_check_private(in(f, "a"), &f->err), -SAL_NOT_FOUND);
	assert_int_equal(sal_path_make_private(in(f, "a"), &f->err), SAL_OK);
	assert_int_equal(mode_of(in(f, "a")), 0700);
	assert_int_equal(sal_path_make_private(in(f, "a"), &f->err), SAL_OK);
	assert_int_equal(sal_path_check_private(in(f, "a"), &f->err), SAL_OK);
	assert_int_equal(sal_path_make_private(in(f, "no/such"), &f->err), -SAL_PERMISSION_DENIED);
	(void)umask(before);
}

static void expect_refusal(struct fixture *f, const char *below, const char *because)
{
	assert_int_equal(sal_path_make_private(in(f, below), &f->err), -SAL_PERMISSION_DENIED);
	assert_non_null(strstr(f->err.text, in(f, below)));
	assert_non_null(strstr(f->err.text, because));
}

static void open_dirs_are_refused(void **state)
{
	static const mode_t open_modes[] = { 0701, 0710, 0704, 0740, 0770, 0777, 01777, 02750 };
	struct fixture *f = *state;
	size_t i;

	assert_int_equal(mkdir(in(f, "open"), 0700), 0);
	for (i = 0; i < sizeof(open_modes) / sizeof(open_modes[0]); i++) {
		assert_int_equal(chmod(in(f, "open"), open_modes[i]), 0);
		expect_refusal(f, "open", "open to other users");
		assert_int_equal(mode_of(in(f, "open")), open_modes[i]); /* not repaired */
	}
}

static void links_and_files_are_refused(void **state)
{
	struct fixture *f = *state;
	char link[128];

	(void)snprintf(link, sizeof(link), "%s/link", f->root);
	assert_int_equal(sal_path_make_private(in(f, "real"), &f->err), SAL_OK);
	assert_int_equal(symlink(in(f, "real"), link), 0);
	expect_refusal(f, "link", "symbolic link");
	assert_int_equal(unlink(link), 0);
	assert_int_equal(symlink(in(f, "nowhere"), link), 0);
	expect_refusal(f, "link", "symbolic link");
	assert_int_equal(unlink(link), 0);
	assert_int_equal(mkfifo(link, 0700), 0);
	expect_refusal(f, "link", "no directory");
}

static void dirs_of_others_are_refused(void **state)
{
	struct fixture *f = *state;

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(in(f, "theirs"), 0700), 0);
	assert_int_equal(chown(in(f, "theirs"), OTHER_USER, OTHER_USER), 0);
	expect_refusal(f, "theirs", "belongs to user 12345");
}

static void expect_log(struct fixture *f, const char *below)
{
	assert_int_equal(sal_path_log(f->path, sizeof(f->path), &f->err), SAL_OK);
	assert_string_equal(f->path, in(f, below));
	*strrchr(f->path, '/') = '\0';
	assert_int_equal(mode_of(f->path), 0700);
}

static void log_is_in_the_state_dir(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(setenv("XDG_RUNTIME_DIR", f->root, 1), 0);
	expect_log(f, "salus/salusd.log"); /* no HOME: beside the socket */
	set_env(f, "HOME", "home");
	expect_log(f, "home/.local/state/salus/salusd.log");
	set_env(f, "XDG_STATE_HOME", "state");
	expect_log(f, "state/salus/salusd.log");
	assert_int_equal(setenv("XDG_STATE_HOME", "state", 1), 0); /* relative: ignored */
	expect_log(f, "home/.local/state/salus/salusd.log");
}

/* As for a user whose home is /nonexistent. */
static void log_turns_to_the_runtime_dir(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(setenv("XDG_RUNTIME_DIR", f->root, 1), 0);
	assert_int_equal(setenv("HOME", "/dev/null", 1), 0);
	expect_log(f, "salus/salusd.log");
	assert_int_equal(chmod(in(f, "salus"), 0755), 0);
	assert_int_equal(sal_path_log(f->path, sizeof(f->path), &f->err), -SAL_PERMISSION_DENIED);
	assert_string_equal(f->path, "");
}

static void expect_cache(struct fixture *f, const char *below)
{
	assert_int_equal(sal_path_cache_dir(f->path, sizeof(f->path), &f->err), SAL_OK);
	assert_string_equal(f->path, in(f, below));
	assert_int_equal(mode_of(f->path), 0700);
}

static void cache_is_in_the_cache_dir(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(setenv("XDG_RUNTIME_DIR", f->root, 1), 0);
	expect_cache(f, "salus/cache");
	set_env(f, "HOME", "home");
	expect_cache(f, "home/.cache/salus");
	set_env(f, "XDG_CACHE_HOME", "cache/of/mine");
	expect_cache(f, "cache/of/mine/salus");
}

static void siblings_are_found(void **state)
{
	struct fixture *f = *state;
	char self[SAL_PATH_BYTES] = "";

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_int_equal(sal_path_program(strrchr(self, '/') + 1, f->path, sizeof(f->path),
					  &f->err),
			 SAL_OK);
	assert_string_equal(f->path, self);
	assert_int_equal(sal_path_program("no-such", f->path, sizeof(f->path), &f->err),
			 -SAL_NOT_FOUND);
	assert_string_equal(f->path, "");
	assert_non_null(strstr(f->err.text, "no-such"));
}

static void long_paths_are_refused(void **state)
{
	struct fixture *f = *state;
	char small[16] = "x";

	assert_int_equal(setenv("XDG_RUNTIME_DIR", f->root, 1), 0);
	assert_int_equal(sal_path_default_socket(small, sizeof(small), &f->err),
			 -SAL_INVALID_ARGUMENT);
	assert_string_equal(small, "");
	assert_int_equal(sal_path_socket(small, sizeof(small), NULL, NULL), -SAL_INVALID_ARGUMENT);
	assert_int_equal(sal_path_log(small, sizeof(small), NULL), -SAL_INVALID_ARGUMENT);
	assert_int_equal(sal_path_cache_dir(small, sizeof(small), NULL), -SAL_INVALID_ARGUMENT);
	/* Exactly one byte too long: the terminating NUL needs room, too. */
	assert_int_equal(setenv("SALUS_SOCKET", "/0123456789abcd", 1), 0);
	assert_int_equal(sal_path_socket(small, 16, NULL, NULL), SAL_OK);
	assert_string_equal(small, "/0123456789abcd");
	assert_int_equal(sal_path_socket(small, 15, NULL, NULL), -SAL_INVALID_ARGUMENT);
	assert_string_equal(small, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(runtime_dir_is_the_users),
		TEST(runtime_dir_falls_back),
		TEST(runtime_dir_of_another_is_passed_over),
		TEST(socket_can_be_given),
		TEST(private_dir_is_made_closed),
		TEST(open_dirs_are_refused),
		TEST(links_and_files_are_refused),
		TEST(dirs_of_others_are_refused),
		TEST(log_is_in_the_state_dir),
		TEST(log_turns_to_the_runtime_dir),
		TEST(cache_is_in_the_cache_dir),
		TEST(siblings_are_found),
		TEST(long_paths_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
