/* SPDX-License-Identifier: Apache-2.0 */
/* tidy - memory that was freed goes back to the system. The allocator keeps what was allocated in pieces. */
#ifndef SAL_BASE_TIDY_H
#define SAL_BASE_TIDY_H

/* If there is enough to be worth it. Takes some 0.1 s for a gigabyte, in which others may have to wait for memory. */
void sal_tidy(void);

#endif
