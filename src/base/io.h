/* SPDX-License-Identifier: Apache-2.0 */
/* io - all of it or nothing, from and to a descriptor that blocks; signals do not interrupt it. */
#ifndef SAL_BASE_IO_H
#define SAL_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>

struct iovec;

/* False if there is less, or for an error, which is in errno. */
bool sal_read_all(int fd, void *to, size_t size);
bool sal_write_all(int fd, const void *from, size_t size);
/* The pieces are changed: they are what is left to write. */
bool sal_writev_all(int fd, struct iovec *pieces, int count);

#endif
