/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard - memory that holds other people's data does not leave the process.
 */
#ifndef SAL_BASE_GUARD_H
#define SAL_BASE_GUARD_H

/*
 * No core dumps of this process, and no debugger of the same user: only root may look inside. Children that execute
 * another program start without the second. SALUS_DEBUG_CORE=1 in the environment, for developers: nothing changes.
 * Call before there are threads.
 */
void sal_guard_memory(void);

#endif
