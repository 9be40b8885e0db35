/* SPDX-License-Identifier: Apache-2.0 */
/* guard - keeps clients' data in the memory of this process. */
#ifndef SAL_BASE_SYS_GUARD_H
#define SAL_BASE_SYS_GUARD_H

/*
 * Disables core dumps of this process, and debuggers of the same user: only root can read its
 * memory. A child that executes another program inherits only the first. With SALUS_DEBUG_CORE=1 in
 * the environment, for developers, this does nothing. Call it before any thread starts.
 */
void sal_guard_memory(void);

#endif
