/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket - the unix socket between client and daemon: connecting, whole messages, descriptors, and
 * the sealed shared memory and doorbells that travel over it.
 *
 * All descriptors are close-on-exec.
 */
#ifndef SAL_LINK_SOCKET_H
#define SAL_LINK_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SAL_FDS_MAX 4

/* Returns the descriptor, or a negative code; -SAL_UNAVAILABLE if nobody listens there. */
int sal_socket_connect(const char *path, struct sal_err *err);

/*
 * Send or receive exactly `size` bytes, or fail with -SAL_UNAVAILABLE; receiving gives up after
 * timeout_ms. Sending to a socket that does not block fails if the bytes do not fit now: part of
 * them may have been sent.
 */
int sal_socket_send(int fd, const void *bytes, size_t size, const int *fds, size_t fd_count,
		    struct sal_err *err);
int sal_socket_receive(int fd, void *bytes, size_t size, int *fds, size_t fd_count, int timeout_ms,
		       struct sal_err *err);

/*
 * Sends what fits now, without waiting. Returns how many bytes, or -SAL_UNAVAILABLE. Descriptors go
 * with the first byte.
 */
int sal_socket_try_send(int fd, const void *bytes, size_t size, const int *fds, size_t fd_count);

/* Anonymous shared memory of fixed size: the peer can neither shrink nor grow it. */
int sal_shared_create(const char *name, uint64_t bytes, struct sal_err *err);
/* NULL if it cannot be mapped, or its size is another or can change. */
void *sal_shared_map(int fd, uint64_t bytes);
/* The same, for reading only. */
void *sal_shared_map_to_read(int fd, uint64_t bytes);

/*
 * A doorbell: one end rings, the other waits for it with poll(2) and then quiets it. It is a pair
 * of sockets: each end has its own flags, so the peer cannot make ours block; and ringing for a
 * process that has ended raises no signal.
 */
int sal_doorbell_create(int *out_ring_fd, int *out_wait_fd, struct sal_err *err);
void sal_doorbell_ring(int ring_fd);
void sal_doorbell_quiet(int wait_fd);

#endif
