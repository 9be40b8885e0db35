/* SPDX-License-Identifier: Apache-2.0 */
/* loader: which files are loaded, and the sentences about the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/policy.h"
#include "loader/loader.h"
#include "loader/sealed.h"
#include "unit/compile/folder.h"

#define GOOD SAL_TEST_VARIANTS "/good.so"

static struct sal_loader loader;
static char path[FOLDER_PATH];

static int stop(void **state)
{
	sal_loader_fini(&loader);
	return folder_remove(state);
}

/* Write `size` bytes of a file, and then `tail`, to a new file: `path`. */
static void copy(const char *folder, const char *from, size_t size, const char *tail)
{
	static char bytes[1 << 20];
	FILE *in = fopen(from, "r"), *out;
	size_t n;

	folder_path(folder, "copy.so", path);
	(void)unlink(path);
	out = fopen(path, "w");
	assert_non_null(in);
	assert_non_null(out);
	n = fread(bytes, 1, size < sizeof(bytes) ? size : sizeof(bytes), in);
	assert_int_equal(fwrite(bytes, 1, n, out), n);
	assert_true(fputs(tail, out) >= 0);
	assert_int_equal(fclose(in), 0);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(chmod(path, 0700), 0);
}

static void write_text(const char *folder, const char *text)
{
	copy(folder, "/dev/null", 0, text);
}

/* Loading `from` fails, and the sentence names the file and has these words. */
static void refuse_file(const char *from, int rc, const char *words)
{
	const struct sal_policy *policy = &sal_policy_fair;
	struct sal_err err = { 0 };
	uint32_t count = loader.count;

	assert_int_equal(sal_loader_load(&loader, from, &policy, &err), rc);
	assert_null(policy);
	assert_int_equal(loader.count, count);
	if (!strstr(err.text, words))
		fail_msg("\"%s\" has no \"%s\"", err.text, words);
}

static const struct sal_policy *accept_file(const char *from)
{
	const struct sal_policy *policy;
	struct sal_err err = { 0 };

	if (sal_loader_load(&loader, from, &policy, &err) < 0)
		fail_msg("%s", err.text);
	return policy;
}

static void a_word_with_a_slash_is_a_file(void **state)
{
	(void)state;
	assert_true(sal_loader_is_path("./mine.so"));
	assert_true(sal_loader_is_path("/mine.so"));
	assert_false(sal_loader_is_path("mine.so"));
}

static void a_policy_is_loaded_and_found(void **state)
{
	const struct sal_policy *policy = accept_file(GOOD);
	struct sal_session s = { .id = 7 };

	(void)state;
	assert_string_equal(policy->name, "youngest");
	assert_true(policy->rank(NULL, &s).minor == UINT64_MAX - 7);
	assert_ptr_equal(sal_loader_find(&loader, "youngest"), policy);
	assert_ptr_equal(sal_loader_at(&loader, 0), policy);
	assert_null(sal_loader_find(&loader, "fair"));
}

static void an_equal_file_is_loaded_once(void **state)
{
	const struct sal_policy *policy = accept_file(GOOD);

	copy(*state, GOOD, SIZE_MAX, "");
	assert_ptr_equal(accept_file(path), policy);
	assert_int_equal(loader.count, 1);
}

static void a_changed_file_is_new_code(void **state)
{
	const struct sal_policy *first, *second;

	copy(*state, GOOD, SIZE_MAX, "");
	first = accept_file(path);
	copy(*state, GOOD, SIZE_MAX, "!");
	second = accept_file(path);
	assert_ptr_not_equal(first, second);
	assert_string_equal(first->name, second->name); /* the first is still loaded */
	assert_ptr_equal(sal_loader_find(&loader, "youngest"), second);
	assert_null(sal_loader_at(&loader, 0));
	copy(*state, GOOD, SIZE_MAX, "");
	assert_ptr_equal(accept_file(path), first); /* and is the newest again */
	assert_ptr_equal(sal_loader_find(&loader, "youngest"), first);
}

/* Somebody overwrites the file in place: the loaded code is a copy. */
static void later_writes_do_not_reach_the_policy(void **state)
{
	const struct sal_policy *policy;
	struct sal_session s = { .id = 1 };
	FILE *file;

	copy(*state, GOOD, SIZE_MAX, "");
	policy = accept_file(path);
	file = fopen(path, "r+");
	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), 0), 0);
	assert_int_equal(fclose(file), 0);
	assert_true(policy->rank(NULL, &s).minor == UINT64_MAX - 1);
	assert_string_equal(policy->idea, "the youngest first");
}

static void what_is_no_policy_is_refused(void **state)
{
	refuse_file("/nonexistent/mine.so", -SAL_NOT_FOUND, "/nonexistent/mine.so: No such file");
	refuse_file("/dev/null", -SAL_INVALID_ARGUMENT, "no regular file");
	refuse_file(*state, -SAL_INVALID_ARGUMENT, "no regular file");
	write_text(*state, "");
	refuse_file(path, -SAL_INVALID_ARGUMENT, "it has 0 bytes");
	write_text(*state, "int main(void) { return 0; }\n");
	refuse_file(path, -SAL_INVALID_ARGUMENT, "cc -shared -fPIC");
	refuse_file(SAL_TEST_VARIANTS "/no_symbol.so", -SAL_INVALID_ARGUMENT, "SAL_POLICY_FILE");
	refuse_file(SAL_TEST_VARIANTS "/undefined.so", -SAL_INVALID_ARGUMENT,
		    "undefined symbol: sal_engine_tick");
	refuse_file(SAL_TEST_VARIANTS "/old.so", -SAL_FAILED_PRECONDITION,
		    "version 4 of policies, expected 3");
	refuse_file(SAL_TEST_VARIANTS "/built_in.so", -SAL_ALREADY_EXISTS, "is called fair");
}

/* A FIFO without a writer must not hold us up. */
static void a_fifo_is_refused(void **state)
{
	folder_path(*state, "fifo", path);
	assert_int_equal(mkfifo(path, 0600), 0);
	refuse_file(path, -SAL_INVALID_ARGUMENT, "no regular file");
}

static void broken_libraries_are_refused(void **state)
{
	size_t size;

	write_text(*state,
		   "\177ELF and then nothing that makes sense, for more than 64 bytes......");
	refuse_file(path, -SAL_INVALID_ARGUMENT, "head is broken");
	for (size = 1; size < 8192; size *= 2) {
		copy(*state, GOOD, size, "");
		refuse_file(path, -SAL_INVALID_ARGUMENT, "it");
	}
	copy(*state, "/proc/self/exe", SIZE_MAX, ""); /* a program, and perhaps cut */
	refuse_file(path, -SAL_INVALID_ARGUMENT, "");
}

static void files_that_others_can_write_are_refused(void **state)
{
	copy(*state, GOOD, SIZE_MAX, "");
	assert_int_equal(chmod(path, 0720), 0);
	refuse_file(path, -SAL_PERMISSION_DENIED, "others can write to it (mode 720)");
	assert_int_equal(chmod(path, 0702), 0);
	refuse_file(path, -SAL_PERMISSION_DENIED, "chmod go-w");
	assert_int_equal(chmod(path, 0755), 0);
	(void)accept_file(path);
}

static void files_of_others_are_refused(void **state)
{
	copy(*state, GOOD, SIZE_MAX, "");
	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(path, 12345, 0), 0);
	refuse_file(path, -SAL_PERMISSION_DENIED, "belongs to user 12345, expected user 0");
}

static void huge_files_are_refused(void **state)
{
	copy(*state, GOOD, SIZE_MAX, "");
	assert_int_equal(truncate(path, (off_t)SAL_SEALED_BYTES_MAX + 1), 0);
	refuse_file(path, -SAL_INVALID_ARGUMENT, "expected 1 to 4194304");
}

static void there_is_a_limit(void **state)
{
	char tail[16];
	int i;

	for (i = 0; i < SAL_LOADED_MAX; i++) {
		(void)snprintf(tail, sizeof(tail), "%d", i);
		copy(*state, GOOD, SIZE_MAX, tail);
		(void)accept_file(path);
	}
	refuse_file(GOOD, -SAL_RESOURCE_EXHAUSTED, "64 policy files are loaded");
	(void)accept_file(path); /* an equal one counts as none */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_word_with_a_slash_is_a_file),
		cmocka_unit_test_setup_teardown(a_policy_is_loaded_and_found, folder_make, stop),
		cmocka_unit_test_setup_teardown(an_equal_file_is_loaded_once, folder_make, stop),
		cmocka_unit_test_setup_teardown(a_changed_file_is_new_code, folder_make, stop),
		cmocka_unit_test_setup_teardown(later_writes_do_not_reach_the_policy, folder_make,
						stop),
		cmocka_unit_test_setup_teardown(what_is_no_policy_is_refused, folder_make, stop),
		cmocka_unit_test_setup_teardown(a_fifo_is_refused, folder_make, stop),
		cmocka_unit_test_setup_teardown(broken_libraries_are_refused, folder_make, stop),
		cmocka_unit_test_setup_teardown(files_that_others_can_write_are_refused,
						folder_make, stop),
		cmocka_unit_test_setup_teardown(files_of_others_are_refused, folder_make, stop),
		cmocka_unit_test_setup_teardown(huge_files_are_refused, folder_make, stop),
		cmocka_unit_test_setup_teardown(there_is_a_limit, folder_make, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
