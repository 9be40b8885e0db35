/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/store/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "base/sys/file.h"

#define TEMP_NAME_BYTES 32
#define TRIES 3

/*
 * -SAL_DATA_LOSS: must be replaced. It is no regular file, belongs to somebody else, is readable by
 * others, or has a wrong size.
 */
static int read_secret(int dir_fd, uint8_t secret[SAL_SEAL_SECRET_BYTES])
{
	int fd = openat(dir_fd, SAL_SECRET_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int rc = -SAL_DATA_LOSS;

	if (fd < 0)
		return errno == ENOENT ? -SAL_NOT_FOUND : -SAL_DATA_LOSS;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    (st.st_mode & 077) == 0 && st.st_size == SAL_SEAL_SECRET_BYTES &&
	    read(fd, secret, SAL_SEAL_SECRET_BYTES) == SAL_SEAL_SECRET_BYTES)
		rc = SAL_OK;
	(void)close(fd);
	return rc;
}

static int write_temp(int dir_fd, const char *name)
{
	uint8_t secret[SAL_SEAL_SECRET_BYTES];
	int fd = sal_file_create(dir_fd, name);
	int rc = SAL_OK;

	if (fd < 0)
		return -SAL_PERMISSION_DENIED;
	randombytes_buf(secret, sizeof(secret));
	if (write(fd, secret, sizeof(secret)) != (ssize_t)sizeof(secret) || fsync(fd) != 0)
		rc = -SAL_RESOURCE_EXHAUSTED;
	if (close(fd) != 0)
		rc = -SAL_RESOURCE_EXHAUSTED;
	sodium_memzero(secret, sizeof(secret));
	return rc;
}

/* Creates the file completely or not at all, and never overwrites another one. */
static int make_secret(int dir_fd)
{
	char name[TEMP_NAME_BYTES];
	uint64_t nonce;
	int rc;

	randombytes_buf(&nonce, sizeof(nonce));
	(void)snprintf(name, sizeof(name), "tmp-%016llx", (unsigned long long)nonce);
	rc = write_temp(dir_fd, name);
	if (rc == SAL_OK && linkat(dir_fd, name, dir_fd, SAL_SECRET_NAME, 0) != 0 &&
	    errno != EEXIST)
		rc = -SAL_PERMISSION_DENIED;
	(void)unlinkat(dir_fd, name, 0);
	return rc;
}

int sal_secret_load(int dir_fd, uint8_t out_secret[SAL_SEAL_SECRET_BYTES])
{
	int rc = -SAL_UNAVAILABLE;

	for (int i = 0; i < TRIES; i++) {
		rc = read_secret(dir_fd, out_secret);
		if (rc == SAL_OK)
			return SAL_OK;
		if (rc == -SAL_DATA_LOSS)
			(void)unlinkat(dir_fd, SAL_SECRET_NAME, 0);
		rc = make_secret(dir_fd);
		if (rc < 0)
			return rc;
	}
	return rc < 0 ? rc : -SAL_UNAVAILABLE;
}
