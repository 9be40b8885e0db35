/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk - compiled programs in a directory: one sealed file for each program. The key is the file's
 * name.
 *
 * A file is complete or absent: it is written under a temporary name, synced and renamed. A reader
 * removes a file that is truncated, damaged, not sealed by this user, or stored under a wrong name.
 * A file of another plugin stays. When the directory exceeds its size limit, the least recently
 * used files are removed. Several daemons may share a directory: each may exceed the limit by a
 * 16th before it notices the others' files.
 *
 * No failure here fails a request: a full or missing disk only costs compilations.
 *
 * Threads: any, at the same time; after opening, only room_bytes changes. Calls block on the file
 * system.
 */
#ifndef SAL_COMPILE_DISK_H
#define SAL_COMPILE_DISK_H

#include <stdatomic.h>

#include "compile/store/seal.h"

struct sal_disk {
	int dir_fd;
	uint64_t limit_bytes;
	_Atomic uint64_t room_bytes; /* bytes to write before the directory is listed again */
	struct sal_seal seal;
};

/* Makes the directory and its parents, readable by the user alone. */
int sal_disk_open(struct sal_disk *disk, const char *path, uint64_t limit_bytes,
		  const uint8_t identity[SAL_IDENTITY_BYTES], struct sal_err *err);
/* Accepts a disk that did not open (dir_fd -1). */
void sal_disk_close(struct sal_disk *disk);

/* A new image, owned by the caller, or NULL. */
struct sal_image *sal_disk_read(const struct sal_disk *disk,
				const uint8_t key[SAL_PROGRAM_KEY_BYTES]);

/* Then removes files beyond the size limit. Fails if the image was not stored. */
int sal_disk_write(struct sal_disk *disk, struct sal_image *image);

#endif
