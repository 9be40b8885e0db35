/* SPDX-License-Identifier: Apache-2.0 */
/* file: a file is replaced as a whole or not at all, and no temporary file is left behind. */
#include "base/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/salus-file-XXXXXX";
static int dir_fd;

static int open_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir_fd < 0 ? -1 : 0;
}

static int close_dir(void **state)
{
	(void)state;
	(void)unlinkat(dir_fd, "name", 0);
	(void)close(dir_fd);
	return rmdir(dir); /* fails if a temporary file is left */
}

static void put(const char *name, const char *text)
{
	int fd = sal_file_create(dir_fd, name);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(close(fd), 0);
}

static void expect(const char *text)
{
	char found[16] = "";
	int fd = openat(dir_fd, "name", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(read(fd, found, sizeof(found) - 1) >= 0);
	assert_int_equal(close(fd), 0);
	assert_string_equal(found, text);
}

static void test_a_complete_file_takes_the_name(void **state)
{
	(void)state;
	put("temp", "old");
	assert_true(sal_file_replace(dir_fd, "temp", "name", true));
	expect("old");
	put("temp", "new");
	assert_true(sal_file_replace(dir_fd, "temp", "name", true));
	expect("new");
}

static void test_an_incomplete_file_is_removed(void **state)
{
	(void)state;
	put("temp", "half");
	errno = ENOSPC;
	assert_false(sal_file_replace(dir_fd, "temp", "name", false));
	assert_int_equal(errno, ENOSPC);
	expect("new");
	assert_int_equal(faccessat(dir_fd, "temp", F_OK, 0), -1);
}

static void test_the_reason_of_a_failure_stays(void **state)
{
	(void)state;
	put("temp", "text");
	assert_false(sal_file_replace(dir_fd, "temp", "missing/name", true));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(faccessat(dir_fd, "temp", F_OK, 0), -1);
}

static void test_a_new_file_is_private_and_new(void **state)
{
	struct stat st;

	(void)state;
	put("temp", "");
	assert_int_equal(fstatat(dir_fd, "temp", &st, 0), 0);
	assert_int_equal(st.st_mode & 077, 0);
	assert_int_equal(sal_file_create(dir_fd, "temp"), -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(unlinkat(dir_fd, "temp", 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_complete_file_takes_the_name),
		cmocka_unit_test(test_an_incomplete_file_is_removed),
		cmocka_unit_test(test_the_reason_of_a_failure_stays),
		cmocka_unit_test(test_a_new_file_is_private_and_new),
	};

	return cmocka_run_group_tests(tests, open_dir, close_dir);
}
