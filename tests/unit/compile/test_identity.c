/* SPDX-License-Identifier: Apache-2.0 */
/* identity: the same plugin has the same identity, and any difference changes it. */
#include "compile/store/identity.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "unit/compile/folder.h"

#define TEXT(s) ((struct sal_text){ s, sizeof(s) - 1 })
#define LARGE_BYTES (UINT64_C(64) << 20)

struct identity {
	uint8_t bytes[SAL_IDENTITY_BYTES];
};

static struct identity make(const struct sal_identity_source *source)
{
	struct identity i;

	sal_identity_make(source, i.bytes);
	return i;
}

static void differ(struct identity a, struct identity b)
{
	assert_memory_not_equal(a.bytes, b.bytes, sizeof(a.bytes));
}

static void agree(struct identity a, struct identity b)
{
	assert_memory_equal(a.bytes, b.bytes, sizeof(a.bytes));
}

/* Writes a file of this size, zero except for one byte. All files have the same time. */
static void write_plugin(const char *path, uint64_t size, uint64_t at)
{
	static const struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	if (size > 0)
		assert_int_equal(pwrite(fd, "x", 1, (off_t)at), 1);
	assert_int_equal(futimens(fd, times), 0);
	assert_int_equal(close(fd), 0);
}

static void plugin_says(void **state)
{
	char path[FOLDER_PATH];
	struct sal_identity_source source = { .plugin_path = path,
					      .platform_version = TEXT("cpu"),
					      .device_kind = TEXT("cpu"),
					      .api_minor = 81 };
	struct sal_identity_source other = source;
	const char *options[] = { "a=1", NULL };

	folder_path(*state, "plugin.so", path);
	write_plugin(path, 100, 0);
	agree(make(&source), make(&source));
	other.platform_version = TEXT("cp");
	other.device_kind = TEXT("ucpu"); /* the same letters, split differently */
	differ(make(&source), make(&other));
	other = source;
	other.device_kind = TEXT("gpu");
	differ(make(&source), make(&other));
	other = source;
	other.api_minor = 106;
	differ(make(&source), make(&other));
	other = source;
	other.api_major = 1;
	differ(make(&source), make(&other));
	other = source;
	other.plugin_options = options;
	differ(make(&source), make(&other));
	options[0] = "a=2";
	differ(make(&source), make(&other));
	other.plugin_options = options + 1; /* none */
	agree(make(&source), make(&other));
}

/* Two plugins that describe themselves with the same words. */
static void files_differ(void **state)
{
	static const uint64_t sizes[] = { 1, 4095, 4096, 4097, 100000, LARGE_BYTES };
	char path[FOLDER_PATH];
	char second[FOLDER_PATH];
	struct sal_identity_source a = { .plugin_path = path };
	struct sal_identity_source b = { .plugin_path = second };

	folder_path(*state, "plugin.so", path);
	folder_path(*state, "second.so", second);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		write_plugin(path, sizes[i], 0);
		write_plugin(second, sizes[i], 0);
		agree(make(&a), make(&b)); /* in another place */
		write_plugin(second, sizes[i] + 1, 0);
		differ(make(&a), make(&b));
		if (sizes[i] == 1)
			continue;
		write_plugin(second, sizes[i], sizes[i] - 1);
		differ(make(&a), make(&b));
	}
}

/* In a file of up to 2 MiB every byte counts. In larger ones the time counts. */
static void every_byte_counts(void **state)
{
	char path[FOLDER_PATH];
	struct timespec later[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000, .tv_nsec = 1 } };
	struct sal_identity_source source = { .plugin_path = path };
	struct identity first;

	folder_path(*state, "plugin.so", path);
	write_plugin(path, 1000000, 0);
	first = make(&source);
	for (uint64_t at = 1; at < 1000000; at += 9973) {
		write_plugin(path, 1000000, at);
		differ(first, make(&source));
	}
	write_plugin(path, LARGE_BYTES, 0);
	first = make(&source);
	assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
	differ(first, make(&source));
}

static void without_a_file(void **state)
{
	char path[FOLDER_PATH];
	struct sal_identity_source source = { .plugin_path = path };
	struct sal_identity_source fake = { .plugin_path = "fake" };

	folder_path(*state, "nothing.so", path);
	differ(make(&source), make(&source));
	source.plugin_path = *state; /* not a file */
	differ(make(&source), make(&source));
	agree(make(&fake), make(&fake));
	folder_path(*state, "empty.so", path);
	source.plugin_path = path;
	write_plugin(path, 0, 0);
	agree(make(&source), make(&source));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(plugin_says, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(files_differ, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(every_byte_counts, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(without_a_file, folder_make, folder_remove),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
