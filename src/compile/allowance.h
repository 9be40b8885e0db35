/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allowance - what a helper may take of the machine. Over it, the process ends; the pool tells why.
 *
 * Memory is limited by RLIMIT_DATA: private memory that can be written. The address space is no measure: vendors
 * reserve much more of it than they use, some of them more than any machine has.
 *
 * CPU time is limited for each task anew, so that no task pays for those before it.
 *
 * Threads: the one that compiles.
 */
#ifndef SAL_COMPILE_ALLOWANCE_H
#define SAL_COMPILE_ALLOWANCE_H

#include <stdint.h>

/* The exit status of a helper that died for lack of memory, whatever the vendor did then. */
#define SAL_EXIT_NO_MEMORY 71

/* 0: no limit. */
struct sal_helper_limits {
	uint64_t memory_bytes; /* of the process */
	uint64_t cpu_s; /* of each task */
};

/* Before anything of the vendor's runs. */
void sal_allowance_open(const struct sal_helper_limits *limits);
/* Around each task. */
void sal_allowance_begin(const struct sal_helper_limits *limits);
void sal_allowance_end(void);

#endif
