/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen - the socket that jobs connect to, and the lock beside it.
 *
 * A user who can change the socket's folder can pose as salusd. So the folder must belong to
 * salusd's user or to root, and nobody else may write to it. The default folder, in the user's
 * runtime directory, must be closed to other users altogether. Only the salusd that holds the lock
 * uses the socket. salusd replaces the socket of a dead salusd, but never removes other files.
 *
 * Threads: the main thread.
 */
#ifndef SAL_SERVICE_LISTEN_H
#define SAL_SERVICE_LISTEN_H

#include <sys/types.h>

struct sal_err;

/* Starts as { .fd = -1, .lock_fd = -1 }. */
struct svc_listen {
	const char *path; /* borrowed */
	int fd, lock_fd; /* owned */
	dev_t dev; /* of the socket's file, once the file exists */
	ino_t ino;
};

/*
 * -SAL_ALREADY_EXISTS: another salusd has the socket. -SAL_PERMISSION_DENIED: the folder or the
 * lock is open to other users, or another file is in the way. -SAL_UNAVAILABLE: a system call
 * failed. path must live as long as l.
 */
int svc_listen_open(struct svc_listen *l, const char *path, struct sal_err *err);
/* Remove the socket's file, unless another file has replaced it. Accepts a half-open l. */
void svc_listen_close(struct svc_listen *l);

#endif
