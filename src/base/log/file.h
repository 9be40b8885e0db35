/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file - the destination of the log: a file of limited size, a pipe or a terminal.
 *
 * A regular file that was opened by its path is renamed to PATH.1 before it exceeds its limit, and
 * a new file begins; an older PATH.1 is replaced. If somebody else moves the file, the next write
 * begins a new one.
 *
 * Threads: one at a time.
 */
#ifndef SAL_BASE_LOG_FILE_H
#define SAL_BASE_LOG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct sal_log_file {
	int fd; /* owned */
	char *path; /* owned: absolute; NULL: no name, or not a regular file */
	char *old_path; /* owned */
	uint64_t size_max_bytes; /* 0: no limit */
};

/* path NULL: uses a duplicate of fd. */
int sal_log_file_open(struct sal_log_file *f, const char *path, int fd, uint64_t size_max_bytes,
		      struct sal_err *err);
/* Accepts a file that was not opened. */
void sal_log_file_close(struct sal_log_file *f);
/* Like write(2). May block on a disk, or on the other end of a pipe. */
ssize_t sal_log_file_write(struct sal_log_file *f, const char *bytes, size_t size);
/* True if a write would not block; always true for a regular file. */
bool sal_log_file_is_ready(const struct sal_log_file *f);

#endif
