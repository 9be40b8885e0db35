/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk - compiled programs in a directory: one sealed file for each, named by its key.
 *
 * A file is whole or not there (written aside, synced, renamed). What is cut, damaged, not sealed by this
 * user or not what its name says is removed when met; what another plugin made is left alone. Files stay until
 * the directory exceeds its bound; then those go that were not used for longest. Several daemons may share a
 * directory: each may exceed the bound by a 16th of it before it sees what the others wrote.
 *
 * Nothing here is an error to anybody: a disk that is full or gone only costs compilations.
 *
 * Threads: any, at the same time; only room_bytes changes once a disk is open. Calls block on the file system.
 */
#ifndef SAL_COMPILE_DISK_H
#define SAL_COMPILE_DISK_H

#include <stdatomic.h>

#include "compile/store/seal.h"

struct sal_disk {
	int dir_fd;
	uint64_t limit_bytes;
	_Atomic uint64_t room_bytes; /* to be written before the directory must be listed again */
	struct sal_seal seal;
};

/* Makes the directory, with those above it, for the user alone. */
int sal_disk_open(struct sal_disk *disk, const char *path, uint64_t limit_bytes,
		  const uint8_t identity[SAL_IDENTITY_BYTES], struct sal_err *err);
/* Accepts a disk that did not open (dir_fd -1). */
void sal_disk_close(struct sal_disk *disk);

/* A new image, owned by the caller, or NULL. */
struct sal_image *sal_disk_read(const struct sal_disk *disk,
				const uint8_t key[SAL_PROGRAM_KEY_BYTES]);

/* Then removes what exceeds the bound. Fails if nothing was kept. */
int sal_disk_write(struct sal_disk *disk, struct sal_image *image);

#endif
