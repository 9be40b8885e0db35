/* SPDX-License-Identifier: Apache-2.0 */
/* job_env: the name of a job, and its environment. */
#include "cli/daemon/job_env.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/err.h"

#define PLUGINS "PJRT_NAMES_AND_LIBRARY_PATHS"
#define WORDS 6

static void names_are_those_of_scripts(void **state)
{
	static const struct {
		const char *words[WORDS];
		const char *name;
	} cases[] = {
		{ { "true" }, "true" },
		{ { "/usr/bin/env", "a=b" }, "env" },
		{ { "./train.py", "x" }, "train.py" },
		{ { "python", "train.py", "x.py" }, "train.py" },
		{ { "/opt/bin/python3.11", "-u", "jobs/a b.py" }, "a b.py" },
		{ { "python3", "-W", "error", "-Xdev", "t.py" }, "t.py" },
		{ { "python3", "-X", "dev", "-u", "t.py" }, "t.py" },
		{ { "python3", "-m", "pkg.train", "t.py" }, "pkg.train" },
		{ { "python3", "-c", "print(1)" }, "python3" },
		{ { "python3", "-", "t.py" }, "python3" },
		{ { "python3" }, "python3" },
		{ { "python3", "-m" }, "python3" },
		{ { "python3", "-W" }, "python3" },
		{ { "python3", "" }, "python3" },
		{ { "python3", "dir/" }, "dir/" },
		{ { "/" }, "/" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(cli_job_name((char *const *)cases[i].words), cases[i].name);
}

static const struct cli_job_env plain = {
	.name = "job",
	.socket = "/s",
	.plugin = "/lib/p.so",
	.platform = "cpu",
};

static void expect_plugins(const char *before, const char *after)
{
	if (before)
		assert_int_equal(setenv(PLUGINS, before, 1), 0);
	else
		assert_int_equal(unsetenv(PLUGINS), 0);
	assert_int_equal(cli_job_env_set(&plain, NULL), SAL_OK);
	assert_string_equal(getenv(PLUGINS), after);
}

static void plugins_of_others_are_kept(void **state)
{
	(void)state;
	expect_plugins(NULL, "cpu:/lib/p.so");
	expect_plugins("", "cpu:/lib/p.so");
	expect_plugins(",,", "cpu:/lib/p.so");
	expect_plugins("cpu:/old.so", "cpu:/lib/p.so");
	expect_plugins("tpu:/t.so", "cpu:/lib/p.so,tpu:/t.so");
	expect_plugins("tpu:/t.so,cpu:/old.so,cpux:/x.so", "cpu:/lib/p.so,tpu:/t.so,cpux:/x.so");
	expect_plugins("cpu:/lib/p.so,tpu:/t.so", "cpu:/lib/p.so,tpu:/t.so");
}

static void only_what_was_asked_is_set(void **state)
{
	struct cli_job_env env = plain;

	(void)state;
	assert_int_equal(setenv("SALUS_WEIGHT", "3", 1), 0);
	assert_int_equal(unsetenv("SALUS_TIME"), 0);
	env.reserve = "1,2";
	assert_int_equal(cli_job_env_set(&env, NULL), SAL_OK);
	assert_string_equal(getenv("SALUS_MEMORY"), "1,2");
	assert_string_equal(getenv("SALUS_WEIGHT"), "3");
	assert_null(getenv("SALUS_TIME"));
	assert_string_equal(getenv("JAX_PLATFORMS"), "cpu");
}

static void what_jax_cannot_read_is_refused(void **state)
{
	struct cli_job_env env = plain;
	struct sal_err err = { 0 };

	(void)state;
	env.plugin = "/a,b/p.so";
	assert_int_equal(cli_job_env_set(&env, &err), -SAL_FAILED_PRECONDITION);
	env.plugin = "/a:b/p.so";
	assert_int_equal(cli_job_env_set(&env, &err), -SAL_FAILED_PRECONDITION);
	env = plain;
	env.platform = "";
	assert_int_equal(cli_job_env_set(&env, &err), -SAL_DATA_LOSS);
	env.platform = "cpu:x";
	assert_int_equal(cli_job_env_set(&env, &err), -SAL_DATA_LOSS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_of_scripts),
		cmocka_unit_test(plugins_of_others_are_kept),
		cmocka_unit_test(only_what_was_asked_is_set),
		cmocka_unit_test(what_jax_cannot_read_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
