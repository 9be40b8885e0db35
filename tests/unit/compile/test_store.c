/* SPDX-License-Identifier: Apache-2.0 */
/* shelf, disk, seal, secret: what is stored, what is removed first, and what is refused. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "compile/store/disk.h"
#include "compile/store/image.h"
#include "compile/store/secret.h"
#include "compile/store/shelf.h"
#include "unit/compile/folder.h"

static const uint8_t first_identity[SAL_IDENTITY_BYTES] = { 1 };
static const uint8_t second_identity[SAL_IDENTITY_BYTES] = { 2 };
#define SEALED(payload) (SAL_SEAL_HEAD_BYTES + (payload) + SAL_SEAL_MAC_BYTES)

static struct sal_image *make_image(uint8_t key, size_t size)
{
	uint64_t sizes[SAL_FRAME_PARTS] = { size / 2, size - size / 2, 0 };
	struct sal_image *image = sal_image_create(sizes);

	assert_non_null(image);
	memset(image->key, key, sizeof(image->key));
	memset(sal_image_room(image), key, size);
	return image;
}

static void key_of(uint8_t number, uint8_t key[SAL_PROGRAM_KEY_BYTES])
{
	memset(key, number, SAL_PROGRAM_KEY_BYTES);
}

static void entry_path(const char *folder, uint8_t number, char path[FOLDER_PATH])
{
	uint8_t key[SAL_PROGRAM_KEY_BYTES];
	char hex[2 * SAL_PROGRAM_KEY_BYTES + 1];

	key_of(number, key);
	folder_path(folder, sodium_bin2hex(hex, sizeof(hex), key, sizeof(key)), path);
}

static bool shelf_has(struct sal_shelf *shelf, uint8_t number)
{
	uint8_t key[SAL_PROGRAM_KEY_BYTES];
	struct sal_image *image;

	key_of(number, key);
	image = sal_shelf_find(shelf, key);
	sal_image_unref(image);
	return image != NULL;
}

static bool disk_has(const struct sal_disk *disk, uint8_t number)
{
	uint8_t key[SAL_PROGRAM_KEY_BYTES];
	struct sal_image *image;

	key_of(number, key);
	image = sal_disk_read(disk, key);
	sal_image_unref(image);
	return image != NULL;
}

static void disk_put(struct sal_disk *disk, uint8_t number, size_t size)
{
	struct sal_image *image = make_image(number, size);

	assert_int_equal(sal_disk_write(disk, image), SAL_OK);
	sal_image_unref(image);
}

static struct sal_disk open_disk(const char *folder, uint64_t limit)
{
	struct sal_err err = { 0 };
	struct sal_disk disk;

	if (sal_disk_open(&disk, folder, limit, first_identity, &err) < 0)
		fail_msg("%s", err.text);
	return disk;
}

/* Shelf */

static void shelf_drops_the_unused_first(void **state)
{
	struct sal_shelf *shelf = sal_shelf_create(100);
	struct sal_image *used = sal_shelf_put(shelf, make_image(1, 40));

	(void)state;
	sal_image_unref(sal_shelf_put(shelf, make_image(2, 40)));
	sal_image_unref(sal_shelf_put(shelf, make_image(3, 20)));
	assert_true(shelf_has(shelf, 2)); /* so it was used after 3 */
	sal_image_unref(sal_shelf_put(shelf, make_image(4, 10)));
	assert_true(shelf_has(shelf, 1));
	assert_true(shelf_has(shelf, 2));
	assert_false(shelf_has(shelf, 3));
	sal_image_unref(sal_shelf_put(shelf, make_image(5, 90)));
	assert_true(shelf_has(shelf, 1)); /* in use, so it stays beyond the limit */
	assert_false(shelf_has(shelf, 2));
	sal_image_unref(used);
	sal_image_unref(sal_shelf_put(shelf, make_image(6, 90)));
	assert_false(shelf_has(shelf, 1));
	assert_true(shelf_has(shelf, 6));
	sal_shelf_destroy(shelf);
}

static void shelf_keeps_one_of_two(void **state)
{
	struct sal_shelf *shelf = sal_shelf_create(1000);
	struct sal_image *first = sal_shelf_put(shelf, make_image(1, 40));
	struct sal_image *second = sal_shelf_put(shelf, make_image(1, 40));

	(void)state;
	assert_ptr_equal(first, second);
	sal_image_unref(second);
	sal_shelf_destroy(shelf);
	assert_int_equal(first->image.at[0], 1); /* our reference outlives the shelf */
	sal_image_unref(first);
}

/* Disk */

static void disk_returns_stored_images(void **state)
{
	const char *folder = *state;
	struct sal_disk disk = open_disk(folder, 1 << 20);
	uint8_t key[SAL_PROGRAM_KEY_BYTES];
	char path[FOLDER_PATH];
	struct sal_image *image;
	struct stat st;

	assert_false(disk_has(&disk, 7));
	disk_put(&disk, 7, 1000);
	disk_put(&disk, 8, 0);
	key_of(7, key);
	image = sal_disk_read(&disk, key);
	assert_non_null(image);
	assert_memory_equal(image->key, key, sizeof(key));
	assert_int_equal(image->facts.size, 500);
	assert_int_equal(image->image.size, 500);
	assert_int_equal(image->optimized.size, 0);
	assert_int_equal(image->image.at[499], 7);
	sal_image_unref(image);
	assert_true(disk_has(&disk, 8));

	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	folder_path(folder, SAL_SECRET_NAME, path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	entry_path(folder, 7, path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	sal_disk_close(&disk);
}

static void put_file(const char *path, const void *at, size_t size)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(at, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static size_t get_file(const char *path, uint8_t *at, size_t room)
{
	FILE *file = fopen(path, "rb");
	size_t size;

	assert_non_null(file);
	size = fread(at, 1, room, file);
	assert_int_equal(fclose(file), 0);
	return size;
}

/* The file is refused, and removed. */
static void is_thrown_away(const struct sal_disk *disk, const char *path, const char *what)
{
	if (disk_has(disk, 1))
		fail_msg("an entry was taken that is %s", what);
	if (access(path, F_OK) == 0)
		fail_msg("an entry was left that is %s", what);
}

static void disk_throws_bad_entries_away(void **state)
{
	const char *folder = *state;
	struct sal_disk disk = open_disk(folder, 1 << 20);
	uint8_t good[SEALED(100) + 1] = { 0 };
	uint8_t bad[SEALED(100)];
	char path[FOLDER_PATH];
	char other[FOLDER_PATH];

	entry_path(folder, 1, path);
	disk_put(&disk, 1, 100);
	assert_int_equal(get_file(path, good, sizeof(good)), SEALED(100));
	for (size_t i = 0; i < SEALED(100); i++) {
		memcpy(bad, good, sizeof(bad));
		bad[i] ^= 0x10;
		put_file(path, bad, sizeof(bad));
		is_thrown_away(&disk, path, "damaged");
	}
	for (size_t size = 0; size < SEALED(100); size += 7) {
		put_file(path, good, size);
		is_thrown_away(&disk, path, "cut");
	}
	put_file(path, good, sizeof(good));
	is_thrown_away(&disk, path, "too long");
	disk_put(&disk, 2, 100);
	entry_path(folder, 2, other);
	assert_int_equal(rename(other, path), 0);
	is_thrown_away(&disk, path, "another program");
	folder_path(folder, "elsewhere", other);
	put_file(other, good, SEALED(100));
	assert_int_equal(symlink(other, path), 0);
	is_thrown_away(&disk, path, "a link");
	put_file(path, good, SEALED(100));
	assert_true(disk_has(&disk, 1));
	sal_disk_close(&disk);
}

/* The sizes in the head exceed the file, or overflow. */
static void disk_believes_no_size(void **state)
{
	const char *folder = *state;
	struct sal_disk disk = open_disk(folder, 1 << 20);
	static const uint64_t sizes[] = { 101, 1 << 30, UINT64_C(1) << 40, UINT64_MAX,
					  UINT64_MAX - SEALED(0) + 1 };
	uint8_t bytes[SEALED(100)];
	char path[FOLDER_PATH];

	entry_path(folder, 1, path);
	disk_put(&disk, 1, 100);
	assert_int_equal(get_file(path, bytes, sizeof(bytes)), sizeof(bytes));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t byte = 0; byte < 8; byte++)
			bytes[SAL_SEAL_HEAD_BYTES - 24 + byte] = (uint8_t)(sizes[i] >> 8 * byte);
		put_file(path, bytes, sizeof(bytes));
		is_thrown_away(&disk, path, "of a size it is not");
	}
	sal_disk_close(&disk);
}

static void disk_takes_nothing_foreign(void **state)
{
	const char *folder = *state;
	struct sal_disk disk = open_disk(folder, 1 << 20);
	struct sal_disk other;
	char path[FOLDER_PATH];
	char secret[FOLDER_PATH];

	entry_path(folder, 1, path);
	disk_put(&disk, 1, 100);
	sal_disk_close(&disk);
	disk = open_disk(folder, 1 << 20);
	assert_true(disk_has(&disk, 1)); /* the secret outlives the daemon */
	assert_int_equal(sal_disk_open(&other, folder, 1 << 20, second_identity, NULL), SAL_OK);
	assert_false(disk_has(&other, 1)); /* made by another plugin */
	assert_true(disk_has(&disk, 1));
	disk_put(&other, 2, 100);
	assert_true(disk_has(&other, 2));
	assert_false(disk_has(&disk, 2));
	sal_disk_close(&other);

	folder_path(folder, SAL_SECRET_NAME, secret);
	assert_int_equal(unlink(secret), 0);
	other = open_disk(folder, 1 << 20);
	is_thrown_away(&other, path, "another user's");
	sal_disk_close(&other);
	sal_disk_close(&disk);
}

/* A secret that others may have read, and one that is damaged. */
static void disk_replaces_a_bad_secret(void **state)
{
	const char *folder = *state;
	struct sal_disk disk = open_disk(folder, 1 << 20);
	char path[FOLDER_PATH];
	uint8_t first[SAL_SEAL_SECRET_BYTES + 1];
	uint8_t second[SAL_SEAL_SECRET_BYTES + 1];
	struct stat st;

	sal_disk_close(&disk);
	folder_path(folder, SAL_SECRET_NAME, path);
	assert_int_equal(get_file(path, first, sizeof(first)), SAL_SEAL_SECRET_BYTES);
	assert_int_equal(chmod(path, 0644), 0);
	disk = open_disk(folder, 1 << 20);
	sal_disk_close(&disk);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(get_file(path, second, sizeof(second)), SAL_SEAL_SECRET_BYTES);
	assert_memory_not_equal(first, second, SAL_SEAL_SECRET_BYTES);
	assert_int_equal(truncate(path, 5), 0);
	disk = open_disk(folder, 1 << 20);
	sal_disk_close(&disk);
	assert_int_equal(get_file(path, first, sizeof(first)), SAL_SEAL_SECRET_BYTES);
}

static void set_age(const char *folder, uint8_t number, time_t seconds)
{
	struct timespec times[2] = { { .tv_sec = time(NULL) - seconds },
				     { .tv_sec = time(NULL) - seconds } };
	char path[FOLDER_PATH];

	entry_path(folder, number, path);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static uint64_t folder_bytes(const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *d;
	uint64_t bytes = 0;

	assert_non_null(dir);
	while ((d = readdir(dir))) {
		char path[FOLDER_PATH];
		struct stat st;

		folder_path(folder, d->d_name, path);
		if (strlen(d->d_name) == 64 && stat(path, &st) == 0)
			bytes += (uint64_t)st.st_size;
	}
	(void)closedir(dir);
	return bytes;
}

static void disk_stays_within_its_bound(void **state)
{
	const char *folder = *state;
	uint64_t limit = UINT64_C(4) * SEALED(1000);
	struct sal_disk disk = open_disk(folder, limit);
	struct sal_image *huge = make_image(99, limit);

	for (uint8_t i = 1; i <= 4; i++) {
		disk_put(&disk, i, 1000);
		set_age(folder, i, 100 - i);
	}
	assert_true(disk_has(&disk, 1)); /* just used, so the youngest */
	disk_put(&disk, 5, 1000);
	assert_false(disk_has(&disk, 2));
	assert_true(disk_has(&disk, 1));
	assert_true(disk_has(&disk, 5));
	assert_int_equal(sal_disk_write(&disk, huge), -SAL_RESOURCE_EXHAUSTED);
	sal_image_unref(huge);
	assert_int_equal(folder_bytes(folder), limit);
	for (uint8_t i = 10; i < 30; i++) {
		disk_put(&disk, i, 700);
		assert_true(folder_bytes(folder) <= limit);
		assert_true(disk_has(&disk, i));
	}
	sal_disk_close(&disk);
}

static void disk_removes_files_of_crashed_writers(void **state)
{
	const char *folder = *state;
	struct sal_disk disk = open_disk(folder, 1 << 20);
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	char stale[FOLDER_PATH];
	char fresh[FOLDER_PATH];
	char alien[FOLDER_PATH];

	folder_path(folder, "tmp-0000000000000001", stale);
	folder_path(folder, "tmp-0000000000000002", fresh);
	folder_path(folder, "README", alien);
	put_file(stale, "x", 1);
	put_file(fresh, "x", 1);
	put_file(alien, "x", 1);
	assert_int_equal(utimensat(AT_FDCWD, stale, old, 0), 0);
	assert_int_equal(utimensat(AT_FDCWD, alien, old, 0), 0);
	disk_put(&disk, 1, 10);
	assert_int_not_equal(access(stale, F_OK), 0);
	assert_int_equal(access(fresh, F_OK), 0);
	assert_int_equal(access(alien, F_OK), 0);
	sal_disk_close(&disk);
}

/*
 * Listing removes temporary files of crashed writers. If such a file is still there, the directory
 * was not listed.
 */
static void disk_is_listed_now_and_then(void **state)
{
	const char *folder = *state;
	struct sal_disk disk = open_disk(folder, UINT64_C(64) * SEALED(1000));
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	char stale[FOLDER_PATH];

	disk_put(&disk, 1, 1000);
	folder_path(folder, "tmp-0000000000000001", stale);
	put_file(stale, "x", 1);
	assert_int_equal(utimensat(AT_FDCWD, stale, old, 0), 0);
	for (uint8_t i = 2; i <= 5; i++)
		disk_put(&disk, i, 1000);
	assert_int_equal(access(stale, F_OK), 0);
	disk_put(&disk, 6, 1000);
	assert_int_not_equal(access(stale, F_OK), 0);
	sal_disk_close(&disk);
}

static void disks_that_share_a_folder_stay_near_its_bound(void **state)
{
	const char *folder = *state;
	uint64_t limit = UINT64_C(64) * SEALED(1000);
	struct sal_disk left = open_disk(folder, limit), right = open_disk(folder, limit);

	for (uint8_t i = 1; i <= 120; i++) {
		disk_put(&left, i, 1000);
		disk_put(&right, (uint8_t)(i + 120), 1000);
		assert_true(folder_bytes(folder) <= limit + limit / 8);
	}
	assert_true(folder_bytes(folder) >= limit - limit / 8);
	sal_disk_close(&left);
	sal_disk_close(&right);
}

static void disk_needs_a_directory(void **state)
{
	const char *folder = *state;
	struct sal_err err = { 0 };
	struct sal_disk disk;
	char file[FOLDER_PATH];
	char below[FOLDER_PATH];

	folder_path(folder, "file", file);
	put_file(file, "x", 1);
	folder_path(file, "cache", below);
	assert_true(sal_disk_open(&disk, below, 1 << 20, first_identity, &err) < 0);
	assert_non_null(strstr(err.text, below));
	sal_disk_close(&disk);
	folder_path(folder, "some/where/deep", below);
	disk = open_disk(below, 1 << 20);
	disk_put(&disk, 1, 10);
	sal_disk_close(&disk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shelf_drops_the_unused_first),
		cmocka_unit_test(shelf_keeps_one_of_two),
		cmocka_unit_test_setup_teardown(disk_returns_stored_images, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(disk_throws_bad_entries_away, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(disk_believes_no_size, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(disk_takes_nothing_foreign, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(disk_replaces_a_bad_secret, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(disk_stays_within_its_bound, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(disk_removes_files_of_crashed_writers, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(disk_is_listed_now_and_then, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(disks_that_share_a_folder_stay_near_its_bound,
						folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(disk_needs_a_directory, folder_make, folder_remove),
	};

	assert_true(sodium_init() >= 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
