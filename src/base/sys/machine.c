/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/machine.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

/*
 * Reads a number from a file of a cgroup. UINT64_MAX for "max", and if the file has no number or
 * cannot be read.
 */
static uint64_t read_limit(const char *path)
{
	FILE *file = fopen(path, "re");
	char text[32] = "", *end;
	uint64_t limit;

	if (!file)
		return UINT64_MAX;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	(void)fclose(file);
	limit = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && (*end == '\n' || !*end) ? limit : UINT64_MAX;
}

/*
 * The lowest limit in files of this name, from the group up to the mount point, which is a group
 * itself.
 */
static uint64_t least_limit(const char *mount, char *group, const char *name)
{
	uint64_t least = UINT64_MAX;
	char path[PATH_BYTES], *slash;

	for (;;) {
		int length = snprintf(path, sizeof(path), "%s%s/%s", mount, group, name);
		uint64_t limit = length < (int)sizeof(path) ? read_limit(path) : UINT64_MAX;

		if (limit < least)
			least = limit;
		slash = strrchr(group, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

/* True if "memory" is in the list of controllers, which is separated by commas. */
static bool has_memory(const char *controllers)
{
	const char *at = controllers;

	while ((at = strstr(at, "memory"))) {
		char before = at == controllers ? ',' : at[-1];
		char after = at[strlen("memory")];

		if (before == ',' && (after == ',' || !after))
			return true;
		at++;
	}
	return false;
}

/* One line of proc/self/cgroup: `number:controllers:/group`. Version 2 has no controllers. */
static uint64_t limit_of_line(const char *root, char *line)
{
	char mount[PATH_BYTES];
	char *rest = line, *controllers, *group;
	bool is_v2;

	line[strcspn(line, "\n")] = '\0';
	(void)strsep(&rest, ":");
	controllers = strsep(&rest, ":");
	group = rest;
	if (!controllers || !group)
		return UINT64_MAX;
	is_v2 = !*controllers;
	if (!is_v2 && !has_memory(controllers))
		return UINT64_MAX;
	if (strstr(group, "/..")) /* outside of the namespace: read the mount point only */
		*group = '\0';
	(void)snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup%s", root, is_v2 ? "" : "/memory");
	return least_limit(mount, group, is_v2 ? "memory.max" : "memory.limit_in_bytes");
}

uint64_t sal_cgroup_memory(const char *root)
{
	char path[PATH_BYTES], line[PATH_BYTES];
	uint64_t least = UINT64_MAX, limit;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	file = fopen(path, "re");
	if (!file)
		return least;
	while (fgets(line, sizeof(line), file)) {
		limit = limit_of_line(root, line);
		if (limit < least)
			least = limit;
	}
	(void)fclose(file);
	return least;
}

uint64_t sal_machine_memory(void)
{
	uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t group = sal_cgroup_memory("");

	return group < machine ? group : machine;
}

uint32_t sal_machine_cpus(void)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;

	return count > 0 ? (uint32_t)count : 1;
}
