/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file - where the log's bytes end up: a file of bounded size, or somebody's pipe or terminal.
 *
 * A regular file that was opened by its path is renamed to PATH.1 before it would grow too large, and begun anew;
 * an older PATH.1 is replaced. If somebody else moves the file, the next write begins a new one.
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
	char *path; /* owned: absolute; NULL: it has no name, or is no regular file */
	char *old_path; /* owned */
	uint64_t size_max_bytes; /* 0: no bound */
};

/* path NULL: a copy of fd. */
int sal_log_file_open(struct sal_log_file *f, const char *path, int fd, uint64_t size_max_bytes,
		      struct sal_err *err);
/* Accepts one that was not opened. */
void sal_log_file_close(struct sal_log_file *f);
/* As write(2). May wait, for a disk or for a reader. */
ssize_t sal_log_file_write(struct sal_log_file *f, const char *bytes, size_t size);
/* It would take some bytes without waiting; always true of a regular file. */
bool sal_log_file_is_ready(const struct sal_log_file *f);

#endif
