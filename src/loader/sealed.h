/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealed - a copy of a trusted file in memory, which nobody can change.
 *
 * The file is opened once. Its owner and its bytes come from the same descriptor, so nobody can
 * replace the file between the check and the copy. Later writes to the file do not reach the copy.
 */
#ifndef SAL_LOADER_SEALED_H
#define SAL_LOADER_SEALED_H

#include <stddef.h>

struct sal_err;

/* Most bytes of a file. */
#define SAL_SEALED_BYTES_MAX ((size_t)4 << 20)

struct sal_sealed {
	int fd; /* owned; -1: none */
	const void *bytes; /* owned: mapped; NULL: none */
	size_t size;
};

/*
 * Copy the file. It must be a regular file of this process's user or of root that nobody else can
 * write. -SAL_NOT_FOUND: there is no such file. -SAL_PERMISSION_DENIED: others own it or can write
 * to it. -SAL_UNAVAILABLE: somebody wrote to it meanwhile. May block as long as the disk does.
 */
int sal_sealed_open(const char *path, struct sal_sealed *out, struct sal_err *err);
void sal_sealed_close(struct sal_sealed *sealed);

#endif
