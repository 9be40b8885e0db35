/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine - what this process may use of the machine: memory, or less if a cgroup limits it, and
 * processors.
 *
 * Threads: any. There is no state.
 */
#ifndef SAL_BASE_SYS_MACHINE_H
#define SAL_BASE_SYS_MACHINE_H

#include <stdint.h>

/* The minimum of the machine's memory and the limits of this process's cgroups, version 1 or 2. */
uint64_t sal_machine_memory(void);

/* How many processors this process may run on; at least 1. */
uint32_t sal_machine_cpus(void);

/*
 * The lowest limit of the cgroup and all its parents; UINT64_MAX if there is none. root is a prefix
 * for the paths proc/self/cgroup and sys/fs/cgroup: "" for this machine.
 */
uint64_t sal_cgroup_memory(const char *root);

#endif
