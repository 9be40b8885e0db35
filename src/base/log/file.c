/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys/fd.h"

static int open_path(const char *path)
{
	/* O_NONBLOCK: opening a FIFO without a reader fails instead of blocking. */
	return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
}

/* Only a regular file can be renamed and started again. */
static int remember_path(struct sal_log_file *f, const char *path)
{
	struct stat st;
	size_t size;

	if (fstat(f->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	f->path = realpath(path, NULL);
	if (!f->path)
		return 0; /* a name in /proc is no path */
	size = strlen(f->path) + sizeof(".1");
	f->old_path = malloc(size);
	if (!f->old_path)
		return -1;
	(void)snprintf(f->old_path, size, "%s.1", f->path);
	return 0;
}

int sal_log_file_open(struct sal_log_file *f, const char *path, int fd, uint64_t size_max_bytes,
		      struct sal_err *err)
{
	*f = (struct sal_log_file){ .size_max_bytes = size_max_bytes };
	f->fd = path ? open_path(path) : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (f->fd < 0)
		return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path ? path : "stderr",
				   strerror(errno));
	if (path && remember_path(f, path) < 0) {
		sal_log_file_close(f);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	}
	return SAL_OK;
}

void sal_log_file_close(struct sal_log_file *f)
{
	sal_close(&f->fd);
	free(f->path);
	free(f->old_path);
	*f = (struct sal_log_file){ .fd = -1 };
}

/* Opens the file that has the path now. If that fails, the old one stays in use. */
static void reopen(struct sal_log_file *f)
{
	int fd = open_path(f->path);

	if (fd < 0)
		return;
	(void)close(f->fd);
	f->fd = fd;
}

static bool is_moved(const struct sal_log_file *f)
{
	struct stat ours, named;

	if (stat(f->path, &named) < 0)
		return errno == ENOENT;
	return fstat(f->fd, &ours) == 0 &&
	       (ours.st_ino != named.st_ino || ours.st_dev != named.st_dev);
}

static void make_room(struct sal_log_file *f, size_t size)
{
	struct stat st;

	if (f->size_max_bytes == 0 || fstat(f->fd, &st) < 0 ||
	    (uint64_t)st.st_size + size <= f->size_max_bytes || st.st_size == 0)
		return;
	if (rename(f->path, f->old_path) == 0)
		reopen(f);
	else if (ftruncate(f->fd, 0) < 0) /* no right to rename it */
		return;
}

ssize_t sal_log_file_write(struct sal_log_file *f, const char *bytes, size_t size)
{
	if (f->path) {
		if (is_moved(f))
			reopen(f);
		make_room(f, size);
	}
	return write(f->fd, bytes, size);
}

bool sal_log_file_is_ready(const struct sal_log_file *f)
{
	struct pollfd p = { .fd = f->fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0;
}
