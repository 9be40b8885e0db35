/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine - how much memory this process may use: the machine's, or less where a cgroup says so.
 *
 * Threads: any. There is no state.
 */
#ifndef SAL_BASE_MACHINE_H
#define SAL_BASE_MACHINE_H

#include <stdint.h>

/* The least of the machine's memory and the limits of this process's cgroups, of version 1 or 2. */
uint64_t sal_machine_memory(void);

/*
 * The least limit of the cgroup and all groups above it, UINT64_MAX if there is none. root is put before the paths of
 * proc/self/cgroup and sys/fs/cgroup: "" for this machine's.
 */
uint64_t sal_cgroup_memory(const char *root);

#endif
