/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/store/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "base/sys/fd.h"
#include "base/sys/file.h"
#include "base/sys/io.h"
#include "compile/store/image.h"
#include "compile/store/secret.h"

#define NAME_CHARS 64
_Static_assert(NAME_CHARS == 2 * SAL_PROGRAM_KEY_BYTES, "two digits for each byte");
#define TEMP_PREFIX "tmp-"
/* A temporary file that is older than this was left behind by a crash. */
#define TEMP_AGE_S_MAX 3600
/*
 * The directory is listed again after this fraction of the size limit was written: other daemons
 * may have written there.
 */
#define LISTED_PART 16

struct entry {
	char name[NAME_CHARS + 1];
	uint64_t bytes;
	struct timespec used;
};

struct listing {
	struct entry *at; /* owned */
	size_t count, room;
	uint64_t bytes;
};

static void name_of(const uint8_t key[SAL_PROGRAM_KEY_BYTES], char name[NAME_CHARS + 1])
{
	(void)sodium_bin2hex(name, NAME_CHARS + 1, key, SAL_PROGRAM_KEY_BYTES);
}

/* Open */

static int make_directories(const char *path)
{
	char *copy = strdup(path);
	int rc;

	if (!copy)
		return -ENOMEM;
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(copy, 0700);
		*slash = '/';
	}
	rc = mkdir(copy, 0700) == 0 || errno == EEXIST ? 0 : -errno;
	free(copy);
	return rc;
}

/*
 * Returns true if the directory belongs to this user and is closed to others. Closes it if
 * necessary.
 */
static bool is_private(int dir_fd)
{
	struct stat st;

	if (fstat(dir_fd, &st) != 0 || st.st_uid != geteuid())
		return false;
	return (st.st_mode & 077) == 0 || fchmod(dir_fd, 0700) == 0;
}

int sal_disk_open(struct sal_disk *disk, const char *path, uint64_t limit_bytes,
		  const uint8_t identity[SAL_IDENTITY_BYTES], struct sal_err *err)
{
	uint8_t secret[SAL_SEAL_SECRET_BYTES];
	int rc;

	memset(disk, 0, sizeof(*disk));
	disk->limit_bytes = limit_bytes;
	rc = make_directories(path);
	disk->dir_fd = rc < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (disk->dir_fd < 0) {
		rc = rc < 0 ? -rc : errno;
		return sal_err_set(err, SAL_UNAVAILABLE, "cannot open the program cache %s: %s",
				   path, strerror(rc));
	}
	if (!is_private(disk->dir_fd)) {
		sal_disk_close(disk);
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "the program cache %s belongs to another user", path);
	}
	rc = sal_secret_load(disk->dir_fd, secret);
	if (rc < 0) {
		sal_disk_close(disk);
		return sal_err_set(err, (enum sal_code) - rc,
				   "cannot store a secret in the program cache %s", path);
	}
	sal_seal_init(&disk->seal, secret, identity);
	sodium_memzero(secret, sizeof(secret));
	return SAL_OK;
}

void sal_disk_close(struct sal_disk *disk)
{
	sal_close(&disk->dir_fd);
	sodium_memzero(&disk->seal, sizeof(disk->seal));
}

/* Read */

/* -SAL_DATA_LOSS and similar errors: the file is useless. */
static int read_file(const struct sal_disk *disk, int fd, struct sal_image **out_image)
{
	uint8_t head[SAL_SEAL_HEAD_BYTES];
	uint8_t mac[SAL_SEAL_MAC_BYTES];
	struct stat st;
	int rc;

	if (fstat(fd, &st) != 0)
		return -SAL_UNAVAILABLE;
	if (!S_ISREG(st.st_mode) || !sal_read_all(fd, head, sizeof(head)))
		return -SAL_DATA_LOSS;
	rc = sal_seal_begin(head, (uint64_t)st.st_size, out_image, NULL);
	if (rc < 0)
		return rc;
	if (!sal_read_all(fd, sal_image_room(*out_image), sal_image_bytes(*out_image)) ||
	    !sal_read_all(fd, mac, sizeof(mac)))
		return -SAL_DATA_LOSS;
	return sal_seal_check(&disk->seal, *out_image, head, mac, NULL);
}

/*
 * A temporary failure, or a genuine file of another plugin: a daemon with that plugin may still use
 * the file.
 */
static bool is_to_stay(int rc)
{
	return rc == -SAL_UNAVAILABLE || rc == -SAL_RESOURCE_EXHAUSTED ||
	       rc == -SAL_FAILED_PRECONDITION;
}

struct sal_image *sal_disk_read(const struct sal_disk *disk,
				const uint8_t key[SAL_PROGRAM_KEY_BYTES])
{
	char name[NAME_CHARS + 1];
	struct sal_image *image = NULL;
	int fd;
	int rc;

	name_of(key, name);
	fd = openat(disk->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		if (errno == ELOOP)
			(void)unlinkat(disk->dir_fd, name, 0);
		return NULL;
	}
	rc = read_file(disk, fd, &image);
	if (rc == SAL_OK && memcmp(image->key, key, SAL_PROGRAM_KEY_BYTES) != 0)
		rc = -SAL_DATA_LOSS;
	if (rc == SAL_OK)
		(void)futimens(fd, NULL); /* marks the file as used */
	(void)close(fd);
	if (rc == SAL_OK)
		return image;
	if (!is_to_stay(rc))
		(void)unlinkat(disk->dir_fd, name, 0);
	sal_image_unref(image);
	return NULL;
}

/* Keep within the bound */

static bool is_entry(const char *name)
{
	return strlen(name) == NAME_CHARS && strspn(name, "0123456789abcdef") == NAME_CHARS;
}

static void list_one(struct listing *l, const char *name, const struct stat *st)
{
	if (l->count == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct entry *at = realloc(l->at, room * sizeof(*at));

		if (!at)
			return; /* without a time, the file cannot be removed this time */
		l->at = at;
		l->room = room;
	}
	memcpy(l->at[l->count].name, name, NAME_CHARS + 1);
	l->at[l->count].bytes = (uint64_t)st->st_size;
	l->at[l->count].used = st->st_mtim;
	l->bytes += (uint64_t)st->st_size;
	l->count++;
}

/* Also removes temporary files of crashed writers. */
static void list_entries(const struct sal_disk *disk, struct listing *l)
{
	int fd = openat(disk->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;
	struct stat st;

	if (!dir) {
		sal_close(&fd);
		return;
	}
	/* The stream is this call's own. */
	while ((d = readdir(dir))) { // NOLINT(concurrency-mt-unsafe)
		bool temp = strncmp(d->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0;

		if (!temp && !is_entry(d->d_name))
			continue;
		if (fstatat(disk->dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		if (!temp)
			list_one(l, d->d_name, &st);
		else if (time(NULL) - st.st_mtim.tv_sec > TEMP_AGE_S_MAX)
			(void)unlinkat(disk->dir_fd, d->d_name, 0);
	}
	(void)closedir(dir);
}

static int compare_used(const void *left, const void *right)
{
	const struct entry *a = left;
	const struct entry *b = right;

	if (a->used.tv_sec != b->used.tv_sec)
		return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
	if (a->used.tv_nsec != b->used.tv_nsec)
		return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
	return memcmp(a->name, b->name, NAME_CHARS);
}

/*
 * Never removes the newcomer: the file system's clock is too coarse to tell it from files that were
 * written just before.
 */
static void trim(struct sal_disk *disk, const char *newcomer)
{
	uint64_t room = disk->limit_bytes / LISTED_PART;
	struct listing l = { 0 };

	list_entries(disk, &l);
	if (l.bytes > disk->limit_bytes)
		qsort(l.at, l.count, sizeof(*l.at), compare_used);
	for (size_t i = 0; i < l.count && l.bytes > disk->limit_bytes; i++) {
		if (strcmp(l.at[i].name, newcomer) == 0)
			continue;
		if (unlinkat(disk->dir_fd, l.at[i].name, 0) == 0 || errno == ENOENT)
			l.bytes -= l.at[i].bytes;
	}
	if (l.bytes >= disk->limit_bytes)
		room = 0;
	else if (room > disk->limit_bytes - l.bytes)
		room = disk->limit_bytes - l.bytes;
	atomic_store(&disk->room_bytes, room);
	free(l.at);
}

/* Returns true if this many more bytes surely stay within the size limit. */
static bool take_room(struct sal_disk *disk, uint64_t bytes)
{
	uint64_t room = atomic_load(&disk->room_bytes);

	while (room >= bytes)
		if (atomic_compare_exchange_weak(&disk->room_bytes, &room, room - bytes))
			return true;
	return false;
}

/* Write */

static bool write_file(const struct sal_disk *disk, int fd, struct sal_image *image)
{
	uint8_t head[SAL_SEAL_HEAD_BYTES];
	uint8_t mac[SAL_SEAL_MAC_BYTES];

	sal_seal_make(&disk->seal, image, head, mac);
	return sal_write_all(fd, head, sizeof(head)) &&
	       sal_write_all(fd, sal_image_room(image), sal_image_bytes(image)) &&
	       sal_write_all(fd, mac, sizeof(mac)) && fsync(fd) == 0;
}

int sal_disk_write(struct sal_disk *disk, struct sal_image *image)
{
	char name[NAME_CHARS + 1];
	char temp[sizeof(TEMP_PREFIX) + 16];
	uint64_t nonce;
	bool fine;
	int fd;

	if (sal_seal_bytes(image) > disk->limit_bytes)
		return -SAL_RESOURCE_EXHAUSTED;
	name_of(image->key, name);
	randombytes_buf(&nonce, sizeof(nonce));
	(void)snprintf(temp, sizeof(temp), TEMP_PREFIX "%016llx", (unsigned long long)nonce);
	fd = sal_file_create(disk->dir_fd, temp);
	if (fd < 0)
		return -SAL_UNAVAILABLE;
	fine = write_file(disk, fd, image);
	fine = close(fd) == 0 && fine;
	if (!sal_file_replace(disk->dir_fd, temp, name, fine))
		return -SAL_UNAVAILABLE;
	if (!take_room(disk, sal_seal_bytes(image)))
		trim(disk, name);
	return SAL_OK;
}
