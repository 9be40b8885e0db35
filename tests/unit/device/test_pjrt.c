/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt: unusable plugins are refused, with the reason, and none of their entries is called. */
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void refuses_options(const char *path, const char *const *options, int code,
			    const char *reason)
{
	const struct sal_device_config config = { .plugin_path = path, .plugin_options = options };
	struct sal_device *device = (struct sal_device *)&config;
	struct sal_err err = { 0 };

	assert_int_equal(sal_device_pjrt.open(&config, &device, &err), -code);
	assert_null(device);
	assert_int_equal(err.code, code);
	if (!strstr(err.text, reason))
		fail_msg("\"%s\" does not say \"%s\"", err.text, reason);
	/* err may be NULL. */
	assert_int_equal(sal_device_pjrt.open(&config, &device, NULL), -code);
}

static void refuses(const char *path, int code, const char *reason)
{
	refuses_options(path, NULL, code, reason);
}

static void refuses_wrong(const char *wrong, int code, const char *reason)
{
	assert_int_equal(setenv("SAL_TEST_PLUGIN", wrong, 1), 0);
	refuses(SAL_TEST_PLUGIN_PATH, code, reason);
}

static void other_files_are_refused(void **state)
{
	(void)state;
	refuses(NULL, SAL_INVALID_ARGUMENT, "no path");
	refuses("", SAL_INVALID_ARGUMENT, "no path");
	refuses("/nonexistent/plugin.so", SAL_NOT_FOUND, "/nonexistent/plugin.so");
	refuses("libc.so.6", SAL_FAILED_PRECONDITION, "no GetPjrtApi");
}

static void other_versions_are_refused(void **state)
{
	(void)state;
	refuses_wrong("nothing", SAL_FAILED_PRECONDITION, "returned NULL");
	refuses_wrong("empty", SAL_FAILED_PRECONDITION, "no version");
	refuses_wrong("major", SAL_FAILED_PRECONDITION, "has PJRT 1.");
	refuses_wrong("old", SAL_FAILED_PRECONDITION, "has PJRT 0.56");
}

static void missing_entries_are_named(void **state)
{
	(void)state;
	refuses_wrong("short", SAL_FAILED_PRECONDITION, "has no PJRT_Client_Compile");
	refuses_wrong("hole", SAL_FAILED_PRECONDITION, "has no PJRT_LoadedExecutable_Execute");
}

/* The plugin's code and message, on one line; only newer plugins get a tail. */
static void errors_are_passed_on(void **state)
{
	(void)state;
	refuses_wrong("tail", SAL_ABORTED, "got 128 more");
	refuses_wrong("", SAL_ABORTED, "got 0 more");
	refuses_wrong("", SAL_ABORTED, SAL_TEST_PLUGIN_PATH);
}

/* What a plugin refuses names the plugin and the reason. */
static void options_reach_the_plugin(void **state)
{
	static const char *const none[] = { NULL };
	static const char *const unknown[] = { "memory_limit=1048576", "colour=red", NULL };
	static const char *const other_type[] = { "memory_limit=1048576", "platform=1", NULL };
	static const char *const twice[] = { "memory_limit=1", "memory_limit=2", NULL };
	static const char *const broken[] = { "memory_limit", NULL };

	(void)state;
	refuses_options(SAL_TEST_DISCRETE, none, SAL_INVALID_ARGUMENT,
			SAL_TEST_DISCRETE ": the option memory_limit is missing");
	refuses_options(SAL_TEST_DISCRETE, unknown, SAL_INVALID_ARGUMENT, "name: colour");
	refuses_options(SAL_TEST_DISCRETE, other_type, SAL_INVALID_ARGUMENT, "type: platform");
	refuses_options(SAL_TEST_DISCRETE, twice, SAL_INVALID_ARGUMENT, "given twice");
	refuses_options(SAL_TEST_DISCRETE, broken, SAL_INVALID_ARGUMENT, "NAME=VALUE");
}

static void opens(const char *const *options, const char *platform)
{
	const struct sal_device_config config = { .plugin_path = SAL_TEST_DISCRETE,
						  .plugin_options = options };
	const struct sal_device_facts *facts;
	struct sal_device *device;
	struct sal_stream *streams[2];
	struct sal_err err = { 0 };

	if (sal_device_pjrt.open(&config, &device, &err) < 0)
		fail_msg("%s", err.text);
	for (int i = 0; i < 2; i++) /* the second stream is another client */
		assert_int_equal(sal_device_pjrt.open_stream(device, 0, &streams[i], &err), 0);
	facts = sal_device_pjrt.facts(device);
	assert_int_equal(facts->platform_name.size, strlen(platform));
	assert_memory_equal(facts->platform_name.at, platform, strlen(platform));
	assert_false(facts->is_host);
	assert_int_equal(facts->memory_bytes, 1048576);
	assert_int_equal(facts->device_attributes.count, 2);
	assert_memory_equal(facts->device_attributes.at[1].name.at, "core_count", 10);
	for (int i = 0; i < 2; i++)
		sal_device_pjrt.close_stream(streams[i]);
	sal_device_pjrt.close(device);
}

static void options_of_every_type_are_taken(void **state)
{
	static const char *const options[] = { "memory_limit=1048576",	   "platform:text=7",
					       "memory_fraction=0.5",	   "late_errors=true",
					       "visible_devices:ints=0,1", NULL };
	static const char *const cpu[] = { "memory_limit=1048576", "platform=cpu", NULL };

	(void)state;
	opens(options, "7");
	opens(cpu, "cpu");
}

/* CUDA's clients get their allocator, unless the user names another. */
static void cuda_has_defaults(void **state)
{
	static const char *const usual[] = { "memory_limit=1048576", NULL };
	static const char *const other[] = { "memory_limit=1048576", "allocator=bfc", NULL };

	(void)state;
	assert_int_equal(setenv("SAL_DISCRETE_CUDA", "1", 1), 0);
	opens(usual, "discrete");
	refuses_options(SAL_TEST_DISCRETE, other, SAL_INVALID_ARGUMENT, "allocator is \"bfc\"");
	assert_int_equal(unsetenv("SAL_DISCRETE_CUDA"), 0);
}

/* The thread sanitizer does not see the locks of XLA:CPU, which the discrete device uses. */
static bool can_run_xla(void)
{
#if defined(__SANITIZE_THREAD__)
	return false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
	return false;
#endif
#endif
	return true;
}

int main(void)
{
	const struct CMUnitTest discrete[] = {
		cmocka_unit_test(options_reach_the_plugin),
		cmocka_unit_test(options_of_every_type_are_taken),
		cmocka_unit_test(cuda_has_defaults),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(other_versions_are_refused),
		cmocka_unit_test(missing_entries_are_named),
		cmocka_unit_test(errors_are_passed_on),
	};
	int failed = cmocka_run_group_tests_name("pjrt", tests, NULL, NULL);

	if (can_run_xla())
		failed += cmocka_run_group_tests_name("pjrt, discrete", discrete, NULL, NULL);
	return failed;
}
