/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/admin.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sys/fd.h"
#include "cli/deadline.h"

/* A thousand sessions take a third of a megabyte. */
#define REPLY_MAX (16u << 20)

/* A line that is being received. */
struct line {
	char *at; /* owned */
	size_t used, room;
	int fd; /* owned: the descriptor that came with the line; -1: none */
};

static int refuse_connect(const char *path, int why, struct sal_err *err)
{
	if (why == EAGAIN || why == ETIMEDOUT)
		return sal_err_set(err, SAL_DEADLINE_EXCEEDED, "%s: too busy to accept", path);
	if (why == EACCES || why == EPERM)
		return sal_err_set(err, SAL_PERMISSION_DENIED, "%s: %s", path, strerror(why));
	return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path, strerror(why));
}

static int connect_within(const char *path, int wait_ms, struct sal_err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	/* A full queue of connections makes connect(2) wait for as long as a send may take. */
	struct timeval limit = { .tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000 + 1 };
	int fd, why;

	if (strlen(path) >= sizeof(address.sun_path))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "%.100s...: a socket's path has at most %zu bytes; set "
				   "SALUS_SOCKET to a shorter one",
				   path, sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return sal_err_set(err, SAL_UNAVAILABLE, "socket: %s", strerror(errno));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
	    connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	why = errno;
	(void)close(fd);
	return refuse_connect(path, why, err);
}

/* Waits until fd is ready to read or write (POLLIN, POLLOUT) or has ended. */
static int wait_for(int fd, short events, int64_t deadline_ms, struct sal_err *err)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	do
		n = poll(&p, 1, cli_deadline_left_ms(deadline_ms));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return sal_err_set(err, SAL_INTERNAL, "poll: %s", strerror(errno));
	return n > 0 ? SAL_OK : sal_err_set(err, SAL_DEADLINE_EXCEEDED, "no answer in time");
}

static int send_all(int fd, const char *text, size_t size, int64_t deadline_ms, struct sal_err *err)
{
	while (size > 0) {
		ssize_t n;
		int rc = wait_for(fd, POLLOUT, deadline_ms, err);

		if (rc < 0)
			return rc;
		n = send(fd, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return sal_err_set(err, SAL_DATA_LOSS, "the connection broke: %s",
					   strerror(errno));
		if (n > 0) {
			text += n;
			size -= (size_t)n;
		}
	}
	return SAL_OK;
}

static int send_request(int fd, const json_t *request, int64_t deadline_ms, struct sal_err *err)
{
	char *text = json_dumps(request, JSON_COMPACT);
	size_t length = text ? strlen(text) : 0;
	int rc;

	if (!text)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	text[length] = '\n'; /* replaces the NUL: the line goes out in one piece */
	rc = send_all(fd, text, length + 1, deadline_ms, err);
	free(text);
	return rc;
}

/* Makes room for more bytes. False: the answer is too long, or there is no memory. */
static bool grow(struct line *line)
{
	size_t room = line->room ? line->room * 2 : 4096;
	char *at = room <= REPLY_MAX ? realloc(line->at, room) : NULL;

	if (!at)
		return false;
	line->at = at;
	line->room = room;
	return true;
}

/* Keeps the descriptor that came with the bytes. There is room for one. */
static void take_fd(struct msghdr *message, struct line *line)
{
	struct cmsghdr *head = CMSG_FIRSTHDR(message);

	if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
		return;
	sal_close(&line->fd);
	memcpy(&line->fd, CMSG_DATA(head), sizeof(line->fd));
}

static ssize_t receive_bytes(int fd, struct line *line)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = { line->at + line->used, line->room - line->used };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n > 0)
		take_fd(&message, line);
	return n;
}

/*
 * Receives more bytes. Returns 1 when the line is complete; then line->used counts the bytes before
 * the newline.
 */
static int receive_some(int fd, struct line *line, struct sal_err *err)
{
	ssize_t n = receive_bytes(fd, line);
	char *end;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return sal_err_set(err, SAL_DATA_LOSS, "the connection broke: %s", strerror(errno));
	if (n == 0)
		return sal_err_set(err, SAL_DATA_LOSS,
				   line->used ? "its answer is cut off"
					      : "it closed the connection without an answer");
	end = memchr(line->at + line->used, '\n', (size_t)n);
	line->used = end ? (size_t)(end - line->at) : line->used + (size_t)n;
	return end ? 1 : 0;
}

static int receive_line(int fd, struct line *line, int64_t deadline_ms, struct sal_err *err)
{
	int rc;

	do {
		if (line->used == line->room && !grow(line))
			return sal_err_set(err, SAL_DATA_LOSS, "its answer is too long");
		rc = wait_for(fd, POLLIN, deadline_ms, err);
		if (rc >= 0)
			rc = receive_some(fd, line, err);
	} while (rc == 0);
	return rc;
}

static int receive_reply(int fd, int64_t deadline_ms, json_t **out_reply, int *out_fd,
			 struct sal_err *err)
{
	struct line line = { .fd = -1 };
	json_error_t why;
	int rc = receive_line(fd, &line, deadline_ms, err);

	if (rc >= 0) {
		*out_reply = json_loadb(line.at, line.used, 0, &why);
		if (!*out_reply)
			rc = sal_err_set(err, SAL_DATA_LOSS, "its answer is not JSON: %s",
					 why.text);
	}
	free(line.at);
	*out_fd = line.fd;
	if (*out_reply && !json_is_boolean(json_object_get(*out_reply, "ok"))) {
		json_decref(*out_reply);
		*out_reply = NULL;
		rc = sal_err_set(err, SAL_DATA_LOSS, "its answer does not say whether it is ok");
	}
	return rc < 0 ? rc : SAL_OK;
}

int cli_admin_ask_fd(const char *path, const json_t *request, int wait_ms, json_t **out_reply,
		     int *out_fd, struct sal_err *err)
{
	int64_t deadline_ms = cli_deadline_in(wait_ms);
	struct sal_err why = { 0 };
	int fd, rc;

	*out_reply = NULL;
	*out_fd = -1;
	fd = connect_within(path, wait_ms, err);
	if (fd < 0)
		return fd;
	rc = send_request(fd, request, deadline_ms, &why);
	if (rc >= 0)
		rc = receive_reply(fd, deadline_ms, out_reply, out_fd, &why);
	(void)close(fd);
	if (rc < 0)
		sal_close(out_fd);
	return rc < 0 ? sal_err_set(err, why.code, "salusd at %s: %s", path, why.text) : rc;
}

int cli_admin_ask(const char *path, const json_t *request, int wait_ms, json_t **out_reply,
		  struct sal_err *err)
{
	int fd, rc = cli_admin_ask_fd(path, request, wait_ms, out_reply, &fd, err);

	sal_close(&fd);
	return rc;
}
