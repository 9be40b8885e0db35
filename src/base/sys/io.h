/* SPDX-License-Identifier: Apache-2.0 */
/* io - reads or writes all bytes of a blocking descriptor, also when signals interrupt a call. */
#ifndef SAL_BASE_SYS_IO_H
#define SAL_BASE_SYS_IO_H

#include <stdbool.h>
#include <stddef.h>

struct iovec;

/* Return false at the end of file, or after an error; errno then says which. */
bool sal_read_all(int fd, void *to, size_t size);
bool sal_write_all(int fd, const void *from, size_t size);
/* Changes the pieces: they describe the rest that is not written. */
bool sal_writev_all(int fd, struct iovec *pieces, int count);

#endif
