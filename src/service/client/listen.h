/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen - the socket that jobs connect to, and the lock beside it.
 *
 * Whoever can change the socket's folder can pose as salusd. So the folder must be ours or root's,
 * and nobody else may write to it; the default one, in the user's runtime directory, must be closed
 * to others altogether. The socket is ours alone as long as we hold the lock; one that a dead
 * salusd left behind is replaced. Nothing that is not a socket is ever removed.
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
	dev_t dev; /* of the socket's file, once it is there */
	ino_t ino;
};

/*
 * -SAL_ALREADY_EXISTS: another salusd has it; -SAL_PERMISSION_DENIED: its folder or the lock is
 * open to others, or something is in the way; -SAL_UNAVAILABLE: the system said no. path must stay.
 */
int svc_listen_open(struct svc_listen *l, const char *path, struct sal_err *err);
/* Removes the socket's file if it is still ours. Accepts what is half open. */
void svc_listen_close(struct svc_listen *l);

#endif
