/* SPDX-License-Identifier: Apache-2.0 */
/* machine: limits of cgroups, read from made-up files. */
#include "base/sys/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define GIB (UINT64_C(1) << 30)

static int set_up(void **state)
{
	char *root = strdup("/tmp/salus-test-XXXXXX");

	assert_non_null(root);
	assert_non_null(mkdtemp(root));
	*state = root;
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)snprintf(command, sizeof(command), "rm -rf -- '%s'", (char *)*state);
	assert_int_equal(system(command), 0);
	free(*state);
	return 0;
}

/* Writes a file below root, and makes its parent folders. */
static void put(const char *root, const char *path, const char *text)
{
	char full[256], *slash;
	FILE *file;

	(void)snprintf(full, sizeof(full), "%s/%s", root, path);
	for (slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(full, 0700);
		*slash = '/';
	}
	file = fopen(full, "we");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void no_cgroup_no_limit(void **state)
{
	const char *root = *state;

	assert_true(sal_cgroup_memory(root) == UINT64_MAX);
	put(root, "proc/self/cgroup", "0::/user.slice/a.scope\n");
	assert_true(sal_cgroup_memory(root) == UINT64_MAX);
	put(root, "sys/fs/cgroup/user.slice/a.scope/memory.max", "max\n");
	assert_true(sal_cgroup_memory(root) == UINT64_MAX);
}

static void every_group_above_counts(void **state)
{
	const char *root = *state;

	put(root, "proc/self/cgroup", "0::/user.slice/user-7.slice/a.scope\n");
	put(root, "sys/fs/cgroup/user.slice/user-7.slice/a.scope/memory.max", "8589934592\n");
	assert_int_equal(sal_cgroup_memory(root), 8 * GIB);
	put(root, "sys/fs/cgroup/user.slice/memory.max", "4294967296\n");
	assert_int_equal(sal_cgroup_memory(root), 4 * GIB);
	put(root, "sys/fs/cgroup/user.slice/user-7.slice/memory.max", "max\n");
	assert_int_equal(sal_cgroup_memory(root), 4 * GIB);
	put(root, "sys/fs/cgroup/memory.max", "1073741824\n"); /* as in a container */
	assert_int_equal(sal_cgroup_memory(root), 1 * GIB);
}

static void a_container_sees_its_own_root(void **state)
{
	const char *root = *state;

	put(root, "proc/self/cgroup", "0::/\n");
	put(root, "sys/fs/cgroup/memory.max", "2147483648\n");
	assert_int_equal(sal_cgroup_memory(root), 2 * GIB);
	put(root, "proc/self/cgroup", "0::/../../elsewhere\n");
	assert_int_equal(sal_cgroup_memory(root), 2 * GIB);
}

static void version_1_counts_too(void **state)
{
	const char *root = *state;

	put(root, "proc/self/cgroup",
	    "12:cpu,cpuacct:/docker/f\n7:memory:/docker/f\n3:hugememory:/x\n1:name=systemd:/\n"
	    "0::/docker/f\n");
	assert_true(sal_cgroup_memory(root) == UINT64_MAX);
	put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(sal_cgroup_memory(root), 9223372036854771712u);
	put(root, "sys/fs/cgroup/memory/docker/f/memory.limit_in_bytes", "3221225472\n");
	assert_int_equal(sal_cgroup_memory(root), 3 * GIB);
	/* Controllers can be mounted together. */
	put(root, "proc/self/cgroup", "7:cpu,memory:/docker/f\n");
	assert_int_equal(sal_cgroup_memory(root), 3 * GIB);
	/*
	 * In a container without a cgroup namespace, the group's folder is missing, but its limit
	 * is at the mount point.
	 */
	put(root, "proc/self/cgroup", "7:memory:/kubepods/pod/g\n");
	put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
	assert_int_equal(sal_cgroup_memory(root), 1 * GIB);
}

static void nonsense_is_no_limit(void **state)
{
	static const char *const texts[] = { "", "\n", "-1\n", "12x\n", "many\n", " 7\n" };
	const char *root = *state;
	size_t i;

	put(root, "proc/self/cgroup", "\n::\nx\n0::/a\n");
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		put(root, "sys/fs/cgroup/a/memory.max", texts[i]);
		assert_true(sal_cgroup_memory(root) == UINT64_MAX);
	}
}

static void the_machine_is_the_most(void **state)
{
	(void)state;
	assert_true(sal_machine_memory() > 0);
	assert_true(sal_machine_memory() <=
		    (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
	assert_true(sal_machine_memory() <= sal_cgroup_memory(""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(no_cgroup_no_limit),
		TEST(every_group_above_counts),
		TEST(a_container_sees_its_own_root),
		TEST(version_1_counts_too),
		TEST(nonsense_is_no_limit),
		TEST(the_machine_is_the_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
