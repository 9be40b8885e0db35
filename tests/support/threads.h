/* SPDX-License-Identifier: Apache-2.0 */
/* threads - the state of a thread of this process, for tests that must know that it waits. */
#ifndef SAL_TESTS_THREADS_H
#define SAL_TESTS_THREADS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline pid_t thread_id(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/*
 * True if the thread sleeps: in a wait, or for a lock. False for 0, and for a thread that has
 * ended.
 */
static inline bool thread_is_asleep(pid_t tid)
{
	char path[64], text[512] = "", *state;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	file = tid ? fopen(path, "re") : NULL;
	if (!file)
		return false;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	(void)fclose(file);
	state = strrchr(text, ')'); /* after the name, which may contain anything */
	return state && state[1] == ' ' && state[2] == 'S';
}

#endif
