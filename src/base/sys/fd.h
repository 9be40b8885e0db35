/* SPDX-License-Identifier: Apache-2.0 */
/* fd - file descriptors. A descriptor that is not open is -1. */
#ifndef SAL_BASE_SYS_FD_H
#define SAL_BASE_SYS_FD_H

#include <errno.h>
#include <unistd.h>

/* Closes *fd if it is open, and sets it to -1. Does not change errno. */
static inline void sal_close(int *fd)
{
	int before = errno;

	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = before;
}

#endif
