/* SPDX-License-Identifier: Apache-2.0 */
#include "link/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sys/clock.h"
#include "base/sys/fd.h"

/* Nobody can change the size of the memory any more. */
#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

int sal_socket_connect(const char *path, struct sal_err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "%s: too long for a socket", path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return sal_err_set(err, SAL_UNAVAILABLE, "socket: %s", strerror(errno));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		int why = errno;

		(void)close(fd);
		return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path, strerror(why));
	}
	return fd;
}

/* Some bytes, and descriptors with the first of them; as sendmsg. */
static ssize_t send_some(int fd, const void *bytes, size_t size, const int *fds, size_t fd_count,
			 int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(SAL_FDS_MAX * sizeof(int))] = { 0 };
	struct iovec part = { .iov_base = (void *)bytes, .iov_len = size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n;

	if (fd_count > 0) {
		struct cmsghdr *head;

		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(head), fds, fd_count * sizeof(int));
	}
	do
		n = sendmsg(fd, &message, MSG_NOSIGNAL | flags);
	while (n < 0 && errno == EINTR);
	return n;
}

int sal_socket_send(int fd, const void *bytes, size_t size, const int *fds, size_t fd_count,
		    struct sal_err *err)
{
	const char *at = bytes;

	while (size > 0) {
		ssize_t n = send_some(fd, at, size, fds, fd_count, 0);

		if (n < 0)
			return sal_err_set(err, SAL_UNAVAILABLE, "send: %s", strerror(errno));
		at += n;
		size -= (size_t)n;
		fd_count = 0; /* they went with the first bytes */
	}
	return SAL_OK;
}

int sal_socket_try_send(int fd, const void *bytes, size_t size, const int *fds, size_t fd_count)
{
	ssize_t n =
		send_some(fd, bytes, size < INT_MAX ? size : INT_MAX, fds, fd_count, MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN)
		return -SAL_UNAVAILABLE;
	return n < 0 ? 0 : (int)n;
}

/* Where received descriptors go. */
struct fd_room {
	int *fds;
	size_t count, taken;
};

/* Stores the descriptors that the caller asked for, closes all others. */
static void take_fds(struct msghdr *message, struct fd_room *room)
{
	struct cmsghdr *head;

	for (head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
		size_t i, n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		for (i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(fd));
			if (room->taken < room->count)
				room->fds[room->taken++] = fd;
			else
				(void)close(fd);
		}
	}
}

/* False when the time is up. */
static bool wait_readable(int fd, int64_t until_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t left = until_ms - sal_now_ms();
	int n;

	do
		n = poll(&p, 1, left > 0 ? (int)left : 0);
	while (n < 0 && errno == EINTR && (left = until_ms - sal_now_ms()) > 0);
	return n > 0;
}

static void close_all(int *fds, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		sal_close(&fds[i]);
	}
}

/* Some bytes, and the descriptors that came with them; as recvmsg. */
static ssize_t receive_some(int fd, void *bytes, size_t size, struct fd_room *room)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(SAL_FDS_MAX * sizeof(int))];
	struct iovec part = { .iov_base = bytes, .iov_len = size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n;

	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	do
		n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		take_fds(&message, room);
	return n;
}

// NOLINTNEXTLINE(readability-function-size): bytes, descriptors, time and errors are seven
int sal_socket_receive(int fd, void *bytes, size_t size, int *fds, size_t fd_count, int timeout_ms,
		       struct sal_err *err)
{
	struct fd_room room = { .fds = fds, .count = fd_count };
	int64_t until_ms = sal_now_ms() + timeout_ms;
	char *at = bytes;
	size_t i;

	for (i = 0; i < fd_count; i++)
		fds[i] = -1;
	while (size > 0) {
		ssize_t n = wait_readable(fd, until_ms) ? receive_some(fd, at, size, &room) : -1;

		if (n <= 0) {
			close_all(fds, fd_count);
			return sal_err_set(err, SAL_UNAVAILABLE,
					   n == 0 ? "the other side hung up" : "no answer");
		}
		at += n;
		size -= (size_t)n;
	}
	return SAL_OK;
}

int sal_shared_create(const char *name, uint64_t bytes, struct sal_err *err)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "memfd: %s", strerror(errno));
	if (ftruncate(fd, (off_t)bytes) < 0 ||
	    fcntl(fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL) < 0) {
		int why = errno;

		(void)close(fd);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "memfd: %s", strerror(why));
	}
	return fd;
}

static bool has_fixed_size(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SIZE_SEALS) == SIZE_SEALS;
}

static void *map_shared(int fd, uint64_t bytes, int access)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != bytes || !has_fixed_size(fd))
		return NULL;
	p = mmap(NULL, (size_t)bytes, access, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

void *sal_shared_map(int fd, uint64_t bytes)
{
	return map_shared(fd, bytes, PROT_READ | PROT_WRITE);
}

void *sal_shared_map_to_read(int fd, uint64_t bytes)
{
	return map_shared(fd, bytes, PROT_READ);
}

int sal_doorbell_create(int *out_ring_fd, int *out_wait_fd, struct sal_err *err)
{
	int ends[2];

	*out_ring_fd = *out_wait_fd = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "socketpair: %s", strerror(errno));
	*out_wait_fd = ends[0];
	*out_ring_fd = ends[1];
	return SAL_OK;
}

void sal_doorbell_ring(int ring_fd)
{
	/* EAGAIN: it is ringing already. */
	if (send(ring_fd, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

void sal_doorbell_quiet(int wait_fd)
{
	char rings[4096];

	/*
	 * Read once: a peer that rings all the time must not hold us up. If more is left, poll
	 * reports it again.
	 */
	if (recv(wait_fd, rings, sizeof(rings), MSG_DONTWAIT) < 0)
		return;
}
