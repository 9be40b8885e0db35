/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/io.h"

#include <errno.h>
#include <sys/uio.h>
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

/* Removes the first `size` bytes from the pieces, after they were written. */
static void advance(struct iovec **pieces, int *count, size_t size)
{
	while (*count > 0 && size >= (*pieces)->iov_len) {
		size -= (*pieces)->iov_len;
		++*pieces;
		--*count;
	}
	if (*count > 0) {
		(*pieces)->iov_base = (char *)(*pieces)->iov_base + size;
		(*pieces)->iov_len -= size;
	}
}

bool sal_writev_all(int fd, struct iovec *pieces, int count)
{
	advance(&pieces, &count, 0);
	while (count > 0) {
		ssize_t n = writev(fd, pieces, count);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		advance(&pieces, &count, (size_t)n);
	}
	return true;
}
