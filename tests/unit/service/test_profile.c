/* SPDX-License-Identifier: Apache-2.0 */
#include "service/profile/profile.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log/log.h"
#include "unit/compile/folder.h"

/* Helpers */

/* Keys of programs with one-letter names. */
static struct svc_program_keys keys(const char *letters)
{
	struct svc_program_keys keys = { 0 };
	uint8_t bytes[SAL_PROGRAM_KEY_BYTES];

	for (; *letters; letters++) {
		memset(bytes, *letters, sizeof(bytes));
		assert_true(svc_program_keys_add(&keys, bytes));
	}
	return keys;
}

static void remember(struct svc_profiles *p, const char *name, const char *letters,
		     uint64_t persist_bytes, uint64_t total_ns)
{
	struct svc_profile run = {
		.persist_bytes = persist_bytes,
		.ephem_bytes = persist_bytes / 2,
		.iteration_ns = total_ns / 10,
		.iterations = 10,
		.total_ns = total_ns,
		.programs = keys(letters),
	};

	(void)snprintf(run.name, sizeof(run.name), "%s", name);
	assert_int_equal(svc_profiles_remember(p, &run), SAL_OK);
}

static const struct svc_profile *match(const struct svc_profiles *p, const char *name,
				       const char *letters)
{
	struct svc_program_keys some = keys(letters);

	return svc_profiles_match(p, name, &some);
}

static uint64_t persist_of(const struct svc_profiles *p, const char *name, const char *letters)
{
	const struct svc_profile *profile = match(p, name, letters);

	return profile ? profile->persist_bytes : 0;
}

static struct svc_profiles *open_with(const char *path, uint32_t max_count)
{
	struct svc_profiles *p;

	assert_int_equal(svc_profiles_open(path, max_count, &p, NULL), SAL_OK);
	return p;
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int count_files(const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *d;
	int n = 0;

	assert_non_null(dir);
	while ((d = readdir(dir))) // NOLINT(concurrency-mt-unsafe)
		n += d->d_name[0] != '.';
	assert_int_equal(closedir(dir), 0);
	return n;
}

/* Opens the store. Returns the number of lines logged meanwhile. */
static int warnings_of_opening(const char *path, struct svc_profiles **out_profiles)
{
	FILE *log = tmpfile();
	int lines = 0, c;

	assert_non_null(log);
	sal_log_open(fileno(log), SAL_LOG_WARN);
	*out_profiles = open_with(path, 10);
	sal_log_open(STDERR_FILENO, SAL_LOG_WARN);
	rewind(log);
	while ((c = fgetc(log)) != EOF)
		lines += c == '\n';
	assert_int_equal(fclose(log), 0);
	return lines;
}

/* Matching */

static void test_matches_while_all_programs_are_known(void **state)
{
	struct svc_profiles *p = open_with(NULL, 10);

	(void)state;
	remember(p, "mlp", "abc", 100, 1000);
	assert_non_null(match(p, "mlp", "")); /* no program is known yet */
	assert_null(match(p, "cnn", ""));
	assert_int_equal(persist_of(p, "mlp", "a"), 100);
	assert_int_equal(persist_of(p, "mlp", "ca"), 100);
	assert_int_equal(persist_of(p, "mlp", "abc"), 100);
	assert_null(match(p, "mlp", "abd"));
	assert_null(match(p, "mlp", "abcd"));
	assert_null(match(p, "cnn", "a"));
	svc_profiles_close(p);
}

static void test_matches_the_latest_first(void **state)
{
	struct svc_profiles *p = open_with(NULL, 10);

	(void)state;
	remember(p, "mlp", "ab", 100, 1000);
	remember(p, "mlp", "ac", 200, 1000);
	assert_int_equal(persist_of(p, "mlp", "a"), 200);
	assert_int_equal(persist_of(p, "mlp", "ab"), 100);
	remember(p, "mlp", "ba", 300, 1000); /* the same set */
	assert_int_equal(persist_of(p, "mlp", "a"), 300);
	svc_profiles_close(p);
}

static void test_only_so_many_programs_count(void **state)
{
	struct svc_program_keys many = { 0 };
	uint8_t bytes[SAL_PROGRAM_KEY_BYTES] = { 0 };
	int i;

	(void)state;
	for (i = 0; i < SVC_PROFILE_PROGRAMS; i++) {
		bytes[0] = (uint8_t)i;
		assert_true(svc_program_keys_add(&many, bytes));
		assert_false(svc_program_keys_add(&many, bytes));
	}
	bytes[0] = SVC_PROFILE_PROGRAMS;
	assert_false(svc_program_keys_add(&many, bytes));
	assert_int_equal(many.count, SVC_PROFILE_PROGRAMS);
}

/* Merging */

static void test_the_latest_run_counts(void **state)
{
	struct svc_profiles *p = open_with(NULL, 10);
	const struct svc_profile *profile;

	(void)state;
	remember(p, "mlp", "ab", 100, 1000);
	remember(p, "mlp", "ab", 60, 500);
	profile = match(p, "mlp", "ab");
	assert_int_equal(profile->persist_bytes, 60);
	assert_int_equal(profile->ephem_bytes, 30);
	assert_int_equal(profile->total_ns, 500);
	assert_int_equal(profile->iteration_ns, 50);
	assert_int_equal(profile->runs, 2);
	svc_profiles_close(p);
}

static void test_an_aborted_run_only_raises_sizes(void **state)
{
	struct svc_profiles *p = open_with(NULL, 10);
	const struct svc_profile *profile;

	(void)state;
	remember(p, "mlp", "ab", 100, 1000);
	remember(p, "mlp", "ab", 60, 499);
	profile = match(p, "mlp", "ab");
	assert_int_equal(profile->persist_bytes, 100);
	assert_int_equal(profile->total_ns, 1000);
	remember(p, "mlp", "ab", 120, 1);
	assert_int_equal(profile->persist_bytes, 120);
	assert_int_equal(profile->ephem_bytes, 60);
	assert_int_equal(profile->total_ns, 1000);
	assert_int_equal(profile->iterations, 10);
	svc_profiles_close(p);
}

static void test_a_run_aborted_before_its_last_program(void **state)
{
	struct svc_profiles *p = open_with(NULL, 10);

	(void)state;
	remember(p, "mlp", "abc", 100, 1000);
	remember(p, "mlp", "ab", 60, 400);
	assert_int_equal(match(p, "mlp", "ab")->total_ns, 1000);
	/* A longer run with one more program is the run that matches. */
	remember(p, "mlp", "abcd", 200, 9000);
	assert_int_equal(match(p, "mlp", "ab")->total_ns, 9000);
	/* As long as the whole run, with fewer programs: a separate job. */
	remember(p, "mlp", "ab", 60, 9000);
	assert_int_equal(persist_of(p, "mlp", "ab"), 60);
	assert_int_equal(persist_of(p, "mlp", "abcd"), 200);
	svc_profiles_close(p);
}

static const struct sal_pace *pace_of(const struct svc_profile *profile, char letter)
{
	uint8_t bytes[SAL_PROGRAM_KEY_BYTES];

	memset(bytes, letter, sizeof(bytes));
	return svc_program_keys_pace(&profile->programs, bytes);
}

/* A run of 10 iterations. Only its last program has a pace, with this time alone. */
static void remember_pace(struct svc_profiles *p, const char *letters, uint64_t total_ns,
			  uint64_t alone_ns)
{
	struct svc_profile run = {
		.name = "mlp", .iterations = 10, .total_ns = total_ns, .programs = keys(letters)
	};

	svc_program_keys_learn(&run.programs, run.programs.at[run.programs.count - 1].bytes,
			       &(struct sal_pace){ .alone_ns = alone_ns,
						   .runs = 90,
						   .alone_runs = 8,
						   .util_milli = 700,
						   .beside_runs = 80,
						   .told_milli = 600,
						   .beside_ns = 12,
						   .scratch_bytes = 4096 });
	assert_int_equal(svc_profiles_remember(p, &run), SAL_OK);
}

static void test_the_latest_pace_of_each_program_counts(void **state)
{
	struct svc_profiles *p = open_with(NULL, 10);
	const struct svc_profile *profile;

	(void)state;
	remember_pace(p, "ab", 1000, 5);
	profile = match(p, "mlp", "ab");
	assert_int_equal(pace_of(profile, 'a')->runs, 0);
	assert_int_equal(pace_of(profile, 'b')->alone_ns, 5);
	assert_null(pace_of(profile, 'c'));
	remember_pace(p, "ba", 1000, 6); /* in another order; b did not run */
	assert_int_equal(pace_of(profile, 'a')->alone_ns, 6);
	assert_int_equal(pace_of(profile, 'b')->alone_ns, 5);
	remember_pace(p, "b", 10, 7); /* an aborted run */
	assert_ptr_equal(match(p, "mlp", "b"), profile);
	assert_int_equal(pace_of(profile, 'b')->alone_ns, 7);
	assert_int_equal(profile->total_ns, 1000);
	svc_profiles_close(p);
}

static void test_the_latest_kind_counts(void **state)
{
	struct svc_profile run = { .name = "mlp", .total_ns = 1000, .programs = keys("a") };
	struct svc_profiles *p = open_with(NULL, 10);

	(void)state;
	assert_int_equal(svc_profiles_remember(p, &run), SAL_OK);
	run.serves = true;
	assert_int_equal(svc_profiles_remember(p, &run), SAL_OK);
	assert_true(match(p, "mlp", "a")->serves);
	run.serves = false;
	run.total_ns = 10; /* aborted */
	assert_int_equal(svc_profiles_remember(p, &run), SAL_OK);
	assert_true(match(p, "mlp", "a")->serves);
	svc_profiles_close(p);
}

static void test_forgets_what_was_not_run_for_longest(void **state)
{
	struct svc_profiles *p = open_with(NULL, 2);

	(void)state;
	remember(p, "one", "a", 1, 1000);
	remember(p, "two", "a", 2, 1000);
	remember(p, "one", "a", 1, 1000);
	remember(p, "three", "a", 3, 1000);
	assert_int_equal(persist_of(p, "one", "a"), 1);
	assert_null(match(p, "two", "a"));
	assert_int_equal(persist_of(p, "three", "a"), 3);
	svc_profiles_close(p);
}

/* The file */

static void test_comes_back_from_disk(void **state)
{
	char path[FOLDER_PATH];
	struct svc_profiles *p, *copy;
	const struct svc_profile *profile;
	struct stat st;

	folder_path(*state, "profiles.json", path);
	p = open_with(path, 10);
	remember(p, "old", "x", 7, 70);
	remember(p, "mlp \"\xc3\xa4\"", "ab", 100, 1000);
	copy = svc_profiles_copy(p);
	assert_non_null(copy);
	svc_profiles_close(p);
	assert_int_equal(svc_profiles_save(copy, NULL), SAL_OK);
	svc_profiles_close(copy);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(count_files(*state), 1);

	assert_int_equal(warnings_of_opening(path, &p), 0);
	profile = match(p, "mlp \"\xc3\xa4\"", "ab");
	assert_non_null(profile);
	assert_int_equal(profile->persist_bytes, 100);
	assert_int_equal(profile->ephem_bytes, 50);
	assert_int_equal(profile->iteration_ns, 100);
	assert_int_equal(profile->iterations, 10);
	assert_int_equal(profile->total_ns, 1000);
	assert_int_equal(profile->runs, 1);
	svc_profiles_close(p);
	p = open_with(path, 1); /* the order is restored, too */
	assert_null(match(p, "old", "x"));
	assert_non_null(match(p, "mlp \"\xc3\xa4\"", "a"));
	svc_profiles_close(p);
}

static void test_paces_come_back_from_disk(void **state)
{
	const struct sal_pace *pace;
	char path[FOLDER_PATH];
	struct svc_profiles *p;

	folder_path(*state, "profiles.json", path);
	p = open_with(path, 10);
	remember_pace(p, "ab", 1000, 5);
	assert_int_equal(svc_profiles_save(p, NULL), SAL_OK);
	svc_profiles_close(p);
	assert_int_equal(warnings_of_opening(path, &p), 0);
	assert_int_equal(pace_of(match(p, "mlp", "ab"), 'a')->runs, 0);
	pace = pace_of(match(p, "mlp", "ab"), 'b');
	assert_int_equal(pace->alone_ns, 5);
	assert_int_equal(pace->runs, 90);
	assert_int_equal(pace->alone_runs, 8);
	assert_int_equal(pace->util_milli, 700);
	assert_int_equal(pace->beside_runs, 80);
	assert_int_equal(pace->told_milli, 600);
	assert_int_equal(pace->scratch_bytes, 4096);
	assert_int_equal(pace->beside_ns, 0); /* a time on the clock of another daemon */
	svc_profiles_close(p);
}

static void test_a_name_that_is_no_text_stays_in_memory(void **state)
{
	char path[FOLDER_PATH];
	struct svc_profiles *p;

	folder_path(*state, "profiles.json", path);
	p = open_with(path, 10);
	remember(p, "\xff\xfe", "a", 1, 1000);
	remember(p, "mlp", "a", 2, 1000);
	assert_int_equal(svc_profiles_save(p, NULL), SAL_OK);
	assert_int_equal(persist_of(p, "\xff\xfe", "a"), 1);
	svc_profiles_close(p);
	p = open_with(path, 10);
	assert_null(match(p, "\xff\xfe", "a"));
	assert_int_equal(persist_of(p, "mlp", "a"), 2);
	svc_profiles_close(p);
}

#define ENTRY(name, persist, programs) ENTRY_MORE(name, persist, programs, "")
#define ENTRY_MORE(name, persist, programs, more)                                \
	"{\"name\":\"" name "\",\"persist_bytes\":" persist                      \
	",\"ephem_bytes\":1,\"iteration_ns\":1,\"iterations\":1,\"total_ns\":1," \
	"\"runs\":1,\"programs\":[" programs "]" more "}"
#define KEY "\"6161616161616161616161616161616161616161616161616161616161616161\""
#define PACES(paces) FILE_OF("1", ENTRY_MORE("mlp", "5", KEY, ",\"paces\":" paces))
#define PACE(alone, util, runs)                                                            \
	"[{\"alone_ns\":" alone ",\"told_milli\":0,\"util_milli\":" util ",\"runs\":" runs \
	",\"alone_runs\":1,\"beside_runs\":0}]"
#define FILE_OF(version, entries) "{\"version\":" version ",\"profiles\":[" entries "]}"

static const char good[] = FILE_OF("1", ENTRY("mlp", "5", KEY));
static const char *const bad[] = {
	"",
	"{",
	"[]",
	"{\"version\":1,\"profiles\":{}}",
	FILE_OF("2", ENTRY("mlp", "5", KEY)), /* a newer version */
	FILE_OF("1", ENTRY("mlp", "-5", KEY)),
	FILE_OF("1", ENTRY("mlp", "\"5\"", KEY)),
	FILE_OF("1", ENTRY("mlp", "5", "")),
	FILE_OF("1", ENTRY("mlp", "5", KEY "," KEY)),
	FILE_OF("1", ENTRY("mlp", "5", "\"61\"")),
	FILE_OF("1", ENTRY("mlp", "5", "7")),
	FILE_OF("1", ENTRY("mlp", "5", KEY) ",{}"),
	PACES("{}"),
	PACES("[]"),
	PACES("[null,null]"),
	PACES("[7]"),
	PACES("[{}]"),
	PACES(PACE("-1", "500", "1")),
	PACES(PACE("1", "1001", "1")),
	PACES(PACE("1", "500", "4294967296")),
};
static const char *const good_paces[] = { PACES("[null]"), PACES(PACE("9", "1000", "4294967295")) };

static void test_a_damaged_file_is_replaced(void **state)
{
	char path[FOLDER_PATH];
	struct svc_profiles *p;
	size_t i;

	folder_path(*state, "profiles.json", path);
	write_text(path, good);
	assert_int_equal(warnings_of_opening(path, &p), 0);
	assert_int_equal(persist_of(p, "mlp", "a"), 5);
	svc_profiles_close(p);
	for (i = 0; i < sizeof(good_paces) / sizeof(good_paces[0]); i++) {
		write_text(path, good_paces[i]);
		assert_int_equal(warnings_of_opening(path, &p), 0);
		assert_int_equal(pace_of(match(p, "mlp", "a"), 'a')->alone_ns, i ? 9 : 0);
		svc_profiles_close(p);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_text(path, bad[i]);
		assert_int_equal(warnings_of_opening(path, &p), 1);
		assert_null(match(p, "mlp", "a"));
		remember(p, "mlp", "a", 9, 1000);
		assert_int_equal(svc_profiles_save(p, NULL), SAL_OK);
		svc_profiles_close(p);
		assert_int_equal(warnings_of_opening(path, &p), 0);
		assert_int_equal(persist_of(p, "mlp", "a"), 9);
		svc_profiles_close(p);
	}
}

static void test_a_file_of_others_is_not_read(void **state)
{
	char path[FOLDER_PATH], real[FOLDER_PATH];
	struct svc_profiles *p;

	folder_path(*state, "profiles.json", path);
	folder_path(*state, "real.json", real);
	write_text(real, good);
	assert_int_equal(symlink(real, path), 0);
	assert_int_equal(warnings_of_opening(path, &p), 1);
	assert_null(match(p, "mlp", "a"));
	svc_profiles_close(p);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(warnings_of_opening(path, &p), 1);
	svc_profiles_close(p);
	if (geteuid() != 0)
		return;
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(real, path), 0);
	assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
	assert_int_equal(warnings_of_opening(path, &p), 1);
	assert_null(match(p, "mlp", "a"));
	svc_profiles_close(p);
}

static void test_a_file_too_large_is_not_read(void **state)
{
	char path[FOLDER_PATH];
	struct svc_profiles *p;
	FILE *file;

	folder_path(*state, "profiles.json", path);
	write_text(path, good);
	file = fopen(path, "a");
	assert_non_null(file);
	assert_true(fprintf(file, "%*s", 17 << 20, "\n") > 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(warnings_of_opening(path, &p), 1);
	assert_null(match(p, "mlp", "a"));
	svc_profiles_close(p);
}

/* A failed write leaves the old file and no other file. */
static void test_a_full_disk_leaves_the_old_file(void **state)
{
	struct rlimit old, tiny;
	char path[FOLDER_PATH];
	struct svc_profiles *p;
	struct sal_err err = { 0 };

	folder_path(*state, "profiles.json", path);
	write_text(path, good);
	p = open_with(path, 10);
	remember(p, "mlp", "b", 9, 1000);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tiny = old;
	tiny.rlim_cur = 100;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tiny), 0);
	assert_int_equal(svc_profiles_save(p, &err), -SAL_UNAVAILABLE);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_non_null(strstr(err.text, "profiles.json"));
	assert_int_equal(count_files(*state), 1);
	assert_int_equal(persist_of(p, "mlp", "b"), 9);
	svc_profiles_close(p);
	p = open_with(path, 10);
	assert_int_equal(persist_of(p, "mlp", "a"), 5);
	assert_null(match(p, "mlp", "b"));
	svc_profiles_close(p);
}

static void test_what_cannot_be_replaced_leaves_nothing(void **state)
{
	char path[FOLDER_PATH], inner[FOLDER_PATH];
	struct svc_profiles *p;

	folder_path(*state, "profiles.json", path);
	assert_int_equal(mkdir(path, 0700), 0);
	p = open_with(path, 10);
	remember(p, "mlp", "a", 9, 1000);
	assert_int_equal(svc_profiles_save(p, NULL), -SAL_UNAVAILABLE);
	assert_int_equal(count_files(*state), 1);
	svc_profiles_close(p);
	folder_path(*state, "nowhere/profiles.json", inner);
	p = open_with(inner, 10);
	remember(p, "mlp", "a", 9, 1000);
	assert_int_equal(svc_profiles_save(p, NULL), -SAL_UNAVAILABLE);
	svc_profiles_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matches_while_all_programs_are_known),
		cmocka_unit_test(test_matches_the_latest_first),
		cmocka_unit_test(test_only_so_many_programs_count),
		cmocka_unit_test(test_the_latest_run_counts),
		cmocka_unit_test(test_an_aborted_run_only_raises_sizes),
		cmocka_unit_test(test_a_run_aborted_before_its_last_program),
		cmocka_unit_test(test_the_latest_pace_of_each_program_counts),
		cmocka_unit_test(test_the_latest_kind_counts),
		cmocka_unit_test(test_forgets_what_was_not_run_for_longest),
		cmocka_unit_test_setup_teardown(test_comes_back_from_disk, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(test_paces_come_back_from_disk, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(test_a_name_that_is_no_text_stays_in_memory,
						folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_a_damaged_file_is_replaced, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(test_a_file_of_others_is_not_read, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(test_a_file_too_large_is_not_read, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(test_a_full_disk_leaves_the_old_file, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(test_what_cannot_be_replaced_leaves_nothing,
						folder_make, folder_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
