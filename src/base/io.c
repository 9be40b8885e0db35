/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include <errno.h>
#include <unistd.h>

bool sal_read_all(int fd, void *to, size_t size)
{
	char *at = to;

	while (size > 0) {
		ssize_t n = read(fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		size -= (size_t)n;
	}
	return true;
}

bool sal_write_all(int fd, const void *from, size_t size)
{
	const char *at = from;

	while (size > 0) {
		ssize_t n = write(fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		at += n;
		size -= (size_t)n;
	}
	return true;
}
