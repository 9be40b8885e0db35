/* SPDX-License-Identifier: Apache-2.0 */
/* tidy - gives freed memory back to the system, because the allocator keeps it. */
#ifndef SAL_BASE_SYS_TIDY_H
#define SAL_BASE_SYS_TIDY_H

/*
 * Does nothing if there is little to give back. Takes about 0.1 s for a gigabyte; other threads may
 * wait for memory meanwhile.
 */
void sal_tidy(void);

#endif
