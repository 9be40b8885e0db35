/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt: unusable plugins are refused, with the reason, and none of their entries is called. */
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void refuses(const char *path, int code, const char *reason)
{
	const struct sal_device_config config = { .plugin_path = path };
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
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(other_versions_are_refused),
		cmocka_unit_test(missing_entries_are_named),
		cmocka_unit_test(errors_are_passed_on),
	};

	return cmocka_run_group_tests_name("pjrt", tests, NULL, NULL);
}
