/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys/fd.h"
#include "base/sys/io.h"

#define PIECE_BYTES 65536u
#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int check_file(const struct stat *st, struct sal_err *err)
{
	if (!S_ISREG(st->st_mode))
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "it is no regular file");
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "it belongs to user %u, expected user %u or root",
				   (unsigned)st->st_uid, (unsigned)geteuid());
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "others can write to it (mode %03o): chmod go-w",
				   (unsigned)st->st_mode & 0777u);
	if (st->st_size == 0 || (uint64_t)st->st_size > SAL_SEALED_BYTES_MAX)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "it has %lld bytes, expected 1 to %zu", (long long)st->st_size,
				   SAL_SEALED_BYTES_MAX);
	return SAL_OK;
}

static bool is_unchanged(int fd, const struct stat *before)
{
	struct stat now;

	return fstat(fd, &now) == 0 && now.st_size == before->st_size &&
	       now.st_mtim.tv_sec == before->st_mtim.tv_sec &&
	       now.st_mtim.tv_nsec == before->st_mtim.tv_nsec;
}

static bool copy_bytes(int from, int to, size_t size)
{
	char piece[PIECE_BYTES];
	bool ok = true;

	while (ok && size > 0) {
		size_t n = size < sizeof(piece) ? size : sizeof(piece);

		ok = sal_read_all(from, piece, n) && sal_write_all(to, piece, n);
		size -= n;
	}
	return ok;
}

static int fill(int from, const struct stat *st, struct sal_sealed *out, struct sal_err *err)
{
	out->size = (size_t)st->st_size;
	out->fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (out->fd < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for it: %s",
				   strerror(errno));
	if (!copy_bytes(from, out->fd, out->size) || !is_unchanged(from, st))
		return sal_err_set(err, SAL_UNAVAILABLE,
				   "it could not be read, or is being written: try again");
	if (fcntl(out->fd, F_ADD_SEALS, SEALS) < 0)
		return sal_err_set(err, SAL_INTERNAL, "its copy cannot be sealed: %s",
				   strerror(errno));
	out->bytes = mmap(NULL, out->size, PROT_READ, MAP_PRIVATE, out->fd, 0);
	if (out->bytes == MAP_FAILED) {
		out->bytes = NULL;
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for it: %s",
				   strerror(errno));
	}
	return SAL_OK;
}

int sal_sealed_open(const char *path, struct sal_sealed *out, struct sal_err *err)
{
	/* Opening a FIFO must not wait for its writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	int rc;

	*out = (struct sal_sealed){ .fd = -1 };
	if (fd < 0 || fstat(fd, &st) < 0) {
		rc = sal_err_set(err, errno == ENOENT ? SAL_NOT_FOUND : SAL_PERMISSION_DENIED, "%s",
				 strerror(errno));
		sal_close(&fd);
		return rc;
	}
	rc = check_file(&st, err);
	if (rc >= 0)
		rc = fill(fd, &st, out, err);
	sal_close(&fd);
	if (rc < 0)
		sal_sealed_close(out);
	return rc;
}

void sal_sealed_close(struct sal_sealed *sealed)
{
	if (sealed->bytes)
		(void)munmap((void *)sealed->bytes, sealed->size);
	sealed->bytes = NULL;
	sal_close(&sealed->fd);
}
