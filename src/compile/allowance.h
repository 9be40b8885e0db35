/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allowance - limits the memory and the CPU time of a helper. A helper that exceeds a limit ends;
 * the pool reports the reason.
 *
 * RLIMIT_DATA limits memory: private, writable memory. The size of the address space is no measure,
 * because vendors reserve much more of it than they use, some of them more than any machine has.
 *
 * The CPU limit is set again for each task, so that no task pays for earlier tasks.
 *
 * Threads: the thread that compiles.
 */
#ifndef SAL_COMPILE_ALLOWANCE_H
#define SAL_COMPILE_ALLOWANCE_H

#include <stdint.h>

/* Exit status of a helper that ran out of memory, however the vendor failed. */
#define SAL_EXIT_NO_MEMORY 71

/* 0: no limit. */
struct sal_helper_limits {
	uint64_t memory_bytes; /* of the process */
	uint64_t cpu_s; /* of each task */
};

/* Call this before any code of the vendor runs. */
void sal_allowance_open(const struct sal_helper_limits *limits);
/* Call these around each task. */
void sal_allowance_begin(const struct sal_helper_limits *limits);
void sal_allowance_end(void);

#endif
