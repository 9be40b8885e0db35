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

static void isolated_pythons_are_known(void **state)
{
	static const struct {
		const char *words[WORDS];
		bool isolated;
	} cases[] = {
		{ { "python", "-I", "t.py" }, true },
		{ { "/usr/bin/python3", "-u", "-BE", "t.py" }, true },
		{ { "python", "-X", "dev", "-I", "-c", "x" }, true },
		{ { "python", "t.py", "-I" }, false },
		{ { "python", "-m", "Item", "-E" }, false },
		{ { "python", "-c", "-I" }, false },
		{ { "python", "-W", "-I", "t.py" }, false },
		{ { "python", "-Werror::Important", "t.py" }, false },
		{ { "python", "-XImporttime", "t.py" }, false },
		{ { "python", "--EI", "t.py" }, false },
		{ { "python" }, false },
		{ { "sh", "-I" }, false },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(cli_job_is_isolated((char *const *)cases[i].words),
				 cases[i].isolated);
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

static void expect_variable(const struct cli_job_env *env, const char *variable, const char *before,
			    const char *after)
{
	if (before)
		assert_int_equal(setenv(variable, before, 1), 0);
	else
		assert_int_equal(unsetenv(variable), 0);
	assert_int_equal(cli_job_env_set(env, NULL), SAL_OK);
	if (after)
		assert_string_equal(getenv(variable), after);
	else
		assert_null(getenv(variable));
}

static void platforms_of_the_user_stay(void **state)
{
	struct cli_job_env cuda = plain;

	(void)state;
	cuda.platform = "cuda";
	expect_variable(&plain, "JAX_PLATFORMS", NULL, "cpu");
	expect_variable(&plain, "JAX_PLATFORMS", "", "cpu");
	expect_variable(&plain, "JAX_PLATFORMS", "cpu", "cpu");
	expect_variable(&plain, "JAX_PLATFORMS", "cuda,cpu", "cuda,cpu");
	expect_variable(&plain, "JAX_PLATFORMS", "tpu", "cpu,tpu");
	expect_variable(&plain, "JAX_PLATFORMS", "cpux,xcpu", "cpu,cpux,xcpu");
	expect_variable(&cuda, "JAX_PLATFORMS", NULL, "cuda,cpu");
	expect_variable(&cuda, "JAX_PLATFORMS", "cpu", "cuda,cpu");
	expect_variable(&cuda, "JAX_PLATFORMS", "cpu,cuda", "cpu,cuda");
	expect_variable(&cuda, "JAX_PLATFORMS", "gpu", "gpu");
}

static void folders_of_the_user_stay(void **state)
{
	struct cli_job_env env = plain;

	(void)state;
	expect_variable(&env, "PYTHONPATH", NULL, NULL);
	expect_variable(&env, "PYTHONPATH", "/u", "/u");
	env.modules = "/m";
	expect_variable(&env, "PYTHONPATH", NULL, "/m");
	expect_variable(&env, "PYTHONPATH", "", "/m"); /* no entry for the working directory */
	expect_variable(&env, "PYTHONPATH", "/u", "/m:/u");
	expect_variable(&env, "PYTHONPATH", "/m:/u:/m/gpu:/mm", "/m:/u:/mm");
	expect_variable(&env, "PYTHONPATH", "/u::", "/m:/u::");
	env.platform = "cuda";
	expect_variable(&env, "PYTHONPATH", "/m:/u", "/m/gpu:/m:/u");
}

static void torch_gets_a_device_that_exists(void **state)
{
	struct cli_job_env env = plain;

	(void)state;
	expect_variable(&env, "PJRT_DEVICE", NULL, "LIBRARY");
	assert_string_equal(getenv("PJRT_LIBRARY_PATH"), "/lib/p.so");
	env.modules = "/m";
	expect_variable(&env, "PJRT_DEVICE", NULL, "SALUS");
	expect_variable(&env, "PJRT_DEVICE", "", "SALUS");
	expect_variable(&env, "PJRT_DEVICE", "CPU", "SALUS");
	expect_variable(&env, "PJRT_DEVICE", "SALUS", "SALUS");
	expect_variable(&env, "PJRT_DEVICE", "TPU", "TPU");
	expect_variable(&env, "PJRT_DEVICE", "CPUS", "CPUS");
	env.isolated = true;
	expect_variable(&env, "PJRT_DEVICE", "CPU", "LIBRARY");
	env.platform = "cuda";
	expect_variable(&env, "PJRT_DEVICE", "CPU", "CPU");
}

static void the_largest_list_fits(void **state)
{
	struct cli_job_env env = plain;
	struct cli_job_vars vars;

	(void)state;
	env.reserve = env.weight = env.priority = env.time = env.kind = env.deadline = "x";
	env.modules = "/m";
	env.isolated = true;
	assert_int_equal(unsetenv("PJRT_DEVICE"), 0);
	assert_int_equal(cli_job_vars_init(&vars, &env, NULL), SAL_OK);
	assert_int_equal(vars.count, 14);
	assert_true(vars.count <= CLI_JOB_VARS_MAX);
	cli_job_vars_fini(&vars);
	assert_int_equal(vars.count, 0);
}

static void only_what_was_asked_is_set(void **state)
{
	struct cli_job_env env = plain;

	(void)state;
	assert_int_equal(unsetenv("JAX_PLATFORMS"), 0);
	assert_int_equal(setenv("SALUS_WEIGHT", "3", 1), 0);
	assert_int_equal(unsetenv("SALUS_TIME"), 0);
	env.reserve = "1,2";
	assert_int_equal(cli_job_env_set(&env, NULL), SAL_OK);
	assert_string_equal(getenv("SALUS_MEMORY"), "1,2");
	assert_string_equal(getenv("SALUS_WEIGHT"), "3");
	assert_null(getenv("SALUS_TIME"));
	assert_string_equal(getenv("JAX_PLATFORMS"), "cpu");
	assert_string_equal(getenv("SALUS_PLUGIN"), "/lib/p.so");
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
		cmocka_unit_test(isolated_pythons_are_known),
		cmocka_unit_test(plugins_of_others_are_kept),
		cmocka_unit_test(platforms_of_the_user_stay),
		cmocka_unit_test(folders_of_the_user_stay),
		cmocka_unit_test(torch_gets_a_device_that_exists),
		cmocka_unit_test(the_largest_list_fits),
		cmocka_unit_test(only_what_was_asked_is_set),
		cmocka_unit_test(what_jax_cannot_read_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
