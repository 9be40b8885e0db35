/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen: which folders are accepted, which sockets are replaced, and which files are never
 * removed.
 */
#include "service/client/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"

#define OTHER_USER 12345

struct fixture {
	char root[40], path[64], lock[64];
	struct svc_listen listen;
	struct sal_err err;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->root, "/tmp/salus-test-XXXXXX");
	assert_non_null(mkdtemp(f->root));
	(void)snprintf(f->path, sizeof(f->path), "%s/s", f->root);
	(void)snprintf(f->lock, sizeof(f->lock), "%s/s.lock", f->root);
	f->listen.fd = f->listen.lock_fd = -1;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char command[80];

	svc_listen_close(&f->listen);
	(void)snprintf(command, sizeof(command), "rm -rf -- '%s'", f->root);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

static int try_open(struct fixture *f)
{
	memset(&f->err, 0, sizeof(f->err));
	return svc_listen_open(&f->listen, f->path, &f->err);
}

static void write_file(const char *path)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs("precious", file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static off_t size_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 ? st.st_size : -1;
}

/* The call fails with this code and these words. Afterwards no file or lock is held. */
static void expect_refusal(struct fixture *f, int code, const char *says)
{
	assert_int_equal(try_open(f), -code);
	assert_non_null(strstr(f->err.text, says));
	svc_listen_close(&f->listen);
}

static void a_socket_is_made_and_removed(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	mode_t before = umask(0);
	struct stat st;
	int fd;

	assert_int_equal(try_open(f), SAL_OK);
	assert_int_equal(umask(before), 0); /* unchanged */
	assert_int_equal(lstat(f->path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0600);
	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", f->path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(close(fd), 0);
	svc_listen_close(&f->listen);
	assert_int_equal(lstat(f->path, &st), -1);
	assert_int_equal(access(f->lock, F_OK), 0); /* or two daemons could lock two files */
	svc_listen_close(&f->listen); /* a second close does nothing */
}

static void one_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct svc_listen second;

	assert_int_equal(try_open(f), SAL_OK);
	assert_int_equal(svc_listen_open(&second, f->path, &f->err), -SAL_ALREADY_EXISTS);
	assert_non_null(strstr(f->err.text, "another salusd has"));
	svc_listen_close(&second);
	assert_int_equal(access(f->path, F_OK), 0); /* the first daemon's socket is still there */
}

static void what_the_dead_left_is_replaced(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(try_open(f), SAL_OK);
	assert_int_equal(close(f->listen.lock_fd), 0); /* as if the first daemon had been killed */
	assert_int_equal(close(f->listen.fd), 0);
	assert_int_equal(try_open(f), SAL_OK);
}

static void what_is_no_socket_stays(void **state)
{
	struct fixture *f = *state;

	write_file(f->path);
	expect_refusal(f, SAL_PERMISSION_DENIED, "is no socket; salusd does not remove it");
	assert_int_equal(size_of(f->path), 8);
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(mkdir(f->path, 0700), 0);
	expect_refusal(f, SAL_PERMISSION_DENIED, "is no socket");
	assert_int_equal(rmdir(f->path), 0);
	assert_int_equal(symlink("/dev/null", f->path), 0);
	expect_refusal(f, SAL_PERMISSION_DENIED, "is no socket");
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(mkfifo(f->path, 0600), 0);
	expect_refusal(f, SAL_PERMISSION_DENIED, "is no socket");
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(try_open(f), SAL_OK);
	/* Another process replaced the socket by a file. */
	assert_int_equal(unlink(f->path), 0);
	write_file(f->path);
	svc_listen_close(&f->listen);
	assert_int_equal(size_of(f->path), 8);
}

static void the_lock_is_a_file_of_ours(void **state)
{
	struct fixture *f = *state;
	char target[64];

	(void)snprintf(target, sizeof(target), "%s/target", f->root);
	write_file(target);
	assert_int_equal(symlink(target, f->lock), 0);
	expect_refusal(f, SAL_PERMISSION_DENIED, "symbolic link");
	assert_int_equal(unlink(f->lock), 0);
	assert_int_equal(mkfifo(f->lock, 0600), 0);
	expect_refusal(f, SAL_PERMISSION_DENIED, "is no plain file of ours");
	assert_int_equal(unlink(f->lock), 0);
	assert_int_equal(mkdir(f->lock, 0700), 0);
	expect_refusal(f, SAL_UNAVAILABLE, f->lock);
	assert_int_equal(rmdir(f->lock), 0);
	write_file(f->lock);
	assert_int_equal(try_open(f), SAL_OK);
	assert_int_equal(size_of(f->lock), 8);
	assert_int_equal(size_of(target), 8);
}

static void others_must_not_write_to_the_folder(void **state)
{
	static const mode_t open_modes[] = { 0770, 0702, 0777, 01777 };
	static const mode_t fine_modes[] = { 0700, 0750, 0755 };
	struct fixture *f = *state;
	size_t i;

	for (i = 0; i < sizeof(open_modes) / sizeof(open_modes[0]); i++) {
		assert_int_equal(chmod(f->root, open_modes[i]), 0);
		expect_refusal(f, SAL_PERMISSION_DENIED, "other users may write to");
		assert_int_equal(access(f->lock, F_OK), -1); /* no file was created */
	}
	for (i = 0; i < sizeof(fine_modes) / sizeof(fine_modes[0]); i++) {
		assert_int_equal(chmod(f->root, fine_modes[i]), 0);
		assert_int_equal(try_open(f), SAL_OK);
		svc_listen_close(&f->listen);
	}
}

static void the_folder_must_not_be_anothers(void **state)
{
	struct fixture *f = *state;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(f->root, OTHER_USER, OTHER_USER), 0);
	expect_refusal(f, SAL_PERMISSION_DENIED, "belongs to user 12345");
}

static void the_folder_must_be_there(void **state)
{
	struct fixture *f = *state;

	(void)snprintf(f->path, sizeof(f->path), "%s/no/s", f->root);
	expect_refusal(f, SAL_NOT_FOUND, "No such file or directory");
}

/* The default folder is created, and no other user may enter it. */
static void the_usual_folder_is_private(void **state)
{
	struct fixture *f = *state;
	char folder[48];

	assert_int_equal(setenv("XDG_RUNTIME_DIR", f->root, 1), 0);
	(void)snprintf(folder, sizeof(folder), "%s/salus", f->root);
	(void)snprintf(f->path, sizeof(f->path), "%s/salus/salusd.sock", f->root);
	assert_int_equal(try_open(f), SAL_OK);
	svc_listen_close(&f->listen);
	assert_int_equal(chmod(folder, 0755), 0);
	expect_refusal(f, SAL_PERMISSION_DENIED, "open to other users");
	assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
}

static void long_paths_are_refused(void **state)
{
	struct fixture *f = *state;
	char path[200];

	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(svc_listen_open(&f->listen, path, &f->err), -SAL_INVALID_ARGUMENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_socket_is_made_and_removed),    TEST(one_at_a_time),
		TEST(what_the_dead_left_is_replaced),  TEST(what_is_no_socket_stays),
		TEST(the_lock_is_a_file_of_ours),      TEST(others_must_not_write_to_the_folder),
		TEST(the_folder_must_not_be_anothers), TEST(the_folder_must_be_there),
		TEST(the_usual_folder_is_private),     TEST(long_paths_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
