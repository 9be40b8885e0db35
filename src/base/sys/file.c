/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int sal_file_create(int dir_fd, const char *name)
{
	return openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

bool sal_file_replace(int dir_fd, const char *temp, const char *name, bool is_complete)
{
	int reason;

	if (is_complete && renameat(dir_fd, temp, dir_fd, name) == 0)
		return true;
	reason = errno;
	(void)unlinkat(dir_fd, temp, 0);
	errno = reason;
	return false;
}
