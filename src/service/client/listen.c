/* SPDX-License-Identifier: Apache-2.0 */
#include "service/client/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys/fd.h"
#include "link/paths.h"

#define BACKLOG 128

/* Creates the default folder if necessary. */
static int check_folder(const char *path, struct sal_err *err)
{
	char folder[SAL_PATH_BYTES], usual[SAL_PATH_BYTES];
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) : 0;

	if (!slash)
		(void)snprintf(folder, sizeof(folder), ".");
	else
		(void)snprintf(folder, sizeof(folder), "%.*s", length ? (int)length : 1, path);
	if (sal_path_runtime_dir(usual, sizeof(usual), NULL) >= 0 && strcmp(folder, usual) == 0)
		return sal_path_make_private(folder, err);
	return sal_path_check_guarded(folder, err);
}

static int take_lock(struct svc_listen *l, struct sal_err *err)
{
	char path[SAL_PATH_BYTES];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s.lock", l->path);
	l->lock_fd =
		open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (l->lock_fd < 0 && errno == ELOOP)
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "%s is a symbolic link, it may lead anywhere; remove it", path);
	if (l->lock_fd < 0 || fstat(l->lock_fd, &st) < 0)
		return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "%s is no plain file of ours; move it away, or name another "
				   "--socket",
				   path);
	if (flock(l->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return sal_err_set(err, SAL_ALREADY_EXISTS, "another salusd has %s", l->path);
	return SAL_OK;
}

/* This salusd holds the lock, so a socket that exists belongs to a dead salusd. */
static int remove_stale(const char *path, struct sal_err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0) {
		if (errno == ENOENT)
			return SAL_OK;
		return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path, strerror(errno));
	}
	if (!S_ISSOCK(st.st_mode))
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "%s is there and is no socket; salusd does not remove it: move "
				   "it away, or name another --socket",
				   path);
	if (unlink(path) < 0)
		return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path, strerror(errno));
	return SAL_OK;
}

static int make_socket(struct svc_listen *l, const struct sockaddr_un *address, struct sal_err *err)
{
	struct stat st;
	mode_t before;
	int rc;

	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	before = umask(0177); /* closed to other users from the start */
	rc = l->fd < 0 ? -1 : bind(l->fd, (const struct sockaddr *)address, sizeof(*address));
	(void)umask(before);
	if (rc < 0 || lstat(l->path, &st) < 0 || listen(l->fd, BACKLOG) < 0)
		return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", l->path, strerror(errno));
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return SAL_OK;
}

int svc_listen_open(struct svc_listen *l, const char *path, struct sal_err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int rc;

	*l = (struct svc_listen){ .path = path, .fd = -1, .lock_fd = -1 };
	if (strlen(path) >= sizeof(address.sun_path))
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "%s: too long for a socket", path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	rc = check_folder(path, err);
	if (rc >= 0)
		rc = take_lock(l, err);
	if (rc >= 0)
		rc = remove_stale(path, err);
	return rc < 0 ? rc : make_socket(l, &address, err);
}

void svc_listen_close(struct svc_listen *l)
{
	struct stat st;

	if (l->ino && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		(void)unlink(l->path);
	sal_close(&l->fd);
	sal_close(&l->lock_fd);
	*l = (struct svc_listen){ .fd = -1, .lock_fd = -1 };
}
