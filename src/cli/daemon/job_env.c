/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/job_env.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* JAX reads `NAME:PATH,NAME:PATH`. */
#define PLUGINS "PJRT_NAMES_AND_LIBRARY_PATHS"

/* PyTorch/XLA's name for our device, and its name for a library without a Python class. */
#define TORCH_DEVICE "SALUS"
#define TORCH_LIBRARY "LIBRARY"

/* The Python modules that hide the vendors' plugins for GPUs, below the other modules. */
#define GPU_MODULES "/gpu"

/* Adds a variable. Takes the value, which is NULL if there was no memory. */
static bool add(struct cli_job_vars *vars, const char *name, char *take_value)
{
	if (!take_value)
		return false;
	vars->at[vars->count].name = name;
	vars->at[vars->count++].value = take_value;
	return true;
}

static bool add_copy(struct cli_job_vars *vars, const char *name, const char *value)
{
	return !value || add(vars, name, strdup(value));
}

__attribute__((format(printf, 1, 2))) static char *format(const char *fmt, ...)
{
	va_list args;
	char *text;
	int length;

	va_start(args, fmt);
	length = vasprintf(&text, fmt, args);
	va_end(args);
	return length < 0 ? NULL : text;
}

/* The user's value of a variable; "" if it is not set. */
static const char *given(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "";
}

/* Is an entry `NAME:PATH` of the list for this platform? */
static bool is_entry_of(const char *entry, const char *platform)
{
	size_t length = strlen(platform);

	return strncmp(entry, platform, length) == 0 && entry[length] == ':';
}

/* Our entry first, then those of other platforms. */
static char *plugin_list(const struct cli_job_env *env)
{
	const char *others = given(PLUGINS);
	char *list = malloc(strlen(env->platform) + strlen(env->plugin) + strlen(others) + 3);
	char *copy = strdup(others), *rest = copy, *entry, *to;

	if (list && copy) {
		to = stpcpy(stpcpy(stpcpy(list, env->platform), ":"), env->plugin);
		while ((entry = strsep(&rest, ",")))
			if (*entry && !is_entry_of(entry, env->platform))
				to = stpcpy(stpcpy(to, ","), entry);
	} else {
		free(list);
		list = NULL;
	}
	free(copy);
	return list;
}

static bool is_gpu(const char *platform)
{
	return strcmp(platform, "cuda") == 0 || strcmp(platform, "rocm") == 0;
}

/* Does a list of JAX's platforms name ours? "gpu" stands for all kinds of GPU. */
static bool has_platform(const char *list, const char *platform)
{
	size_t length = strlen(platform);
	const char *at;

	for (at = list; *at; at += *at == ',') {
		size_t size = strcspn(at, ",");

		if (size == length && strncmp(at, platform, length) == 0)
			return true;
		if (size == 3 && strncmp(at, "gpu", 3) == 0 && is_gpu(platform))
			return true;
		at += size;
	}
	return false;
}

/*
 * The user's list if our platform is in it. Otherwise ours comes first: the job runs on the shared
 * device, and still has the platforms of the user, or the CPU.
 */
static char *platform_list(const char *platform)
{
	const char *list = given("JAX_PLATFORMS");

	if (has_platform(list, platform))
		return strdup(list);
	if (*list)
		return format("%s,%s", platform, list);
	return strcmp(platform, "cpu") == 0 ? strdup(platform) : format("%s,cpu", platform);
}

/* Is this folder of PYTHONPATH one of ours? An outer `salus run` may have put it there. */
static bool is_module_folder(const char *folder, const char *modules)
{
	size_t length = strlen(modules);

	return strncmp(folder, modules, length) == 0 &&
	       (folder[length] == '\0' || strcmp(folder + length, GPU_MODULES) == 0);
}

/* Our folders first, then the user's. An empty entry means the working directory: it stays. */
static char *python_path(const struct cli_job_env *env)
{
	const char *others = given("PYTHONPATH");
	char *ours = is_gpu(env->platform)
			     ? format("%s" GPU_MODULES ":%s", env->modules, env->modules)
			     : strdup(env->modules);
	char *copy = strdup(others), *rest = *others ? copy : NULL, *entry, *to;
	char *path = ours ? malloc(strlen(ours) + strlen(others) + 2) : NULL;

	if (path && copy) {
		to = stpcpy(path, ours);
		while ((entry = strsep(&rest, ":")))
			if (!is_module_folder(entry, env->modules))
				to = stpcpy(stpcpy(to, ":"), entry);
	} else {
		free(path);
		path = NULL;
	}
	free(ours);
	free(copy);
	return path;
}

static bool equal_upper(const char *upper, const char *text)
{
	for (; *upper && *upper == toupper((unsigned char)*text); upper++, text++)
		;
	return *upper == '\0' && *text == '\0';
}

/*
 * PyTorch/XLA has one device in a process. A user who chose another device than the one that salusd
 * serves keeps it. Without our Python module, plain scripts still work, torch_xla.launch does not.
 */
static bool add_torch(struct cli_job_vars *vars, const struct cli_job_env *env)
{
	const char *device = given("PJRT_DEVICE");

	if (*device && !equal_upper(device, env->platform) && strcmp(device, TORCH_DEVICE) != 0)
		return true;
	if (env->modules && !env->isolated)
		return add_copy(vars, "PJRT_DEVICE", TORCH_DEVICE);
	return add_copy(vars, "PJRT_DEVICE", TORCH_LIBRARY) &&
	       add_copy(vars, "PJRT_LIBRARY_PATH", env->plugin);
}

static bool add_all(struct cli_job_vars *vars, const struct cli_job_env *env)
{
	return add_copy(vars, "SALUS_JOB_NAME", env->name) &&
	       add_copy(vars, "SALUS_MEMORY", env->reserve) &&
	       add_copy(vars, "SALUS_WEIGHT", env->weight) &&
	       add_copy(vars, "SALUS_PRIORITY", env->priority) &&
	       add_copy(vars, "SALUS_TIME", env->time) && add_copy(vars, "SALUS_KIND", env->kind) &&
	       add_copy(vars, "SALUS_DEADLINE", env->deadline) &&
	       add_copy(vars, "SALUS_DEVICES", env->devices) &&
	       add_copy(vars, "SALUS_SOCKET", env->socket) &&
	       add_copy(vars, "SALUS_PLUGIN", env->plugin) &&
	       add(vars, "JAX_PLATFORMS", platform_list(env->platform)) &&
	       add(vars, PLUGINS, plugin_list(env)) && add_torch(vars, env) &&
	       (!env->modules || add(vars, "PYTHONPATH", python_path(env)));
}

int cli_job_vars_init(struct cli_job_vars *vars, const struct cli_job_env *env, struct sal_err *err)
{
	vars->count = 0;
	if (!*env->platform || strpbrk(env->platform, ":,"))
		return sal_err_set(err, SAL_DATA_LOSS,
				   "salusd names its platform \"%s\", which JAX cannot take",
				   env->platform);
	if (strpbrk(env->plugin, ":,"))
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "%s: JAX takes no plugin with \":\" or \",\" in its path; "
				   "install Salus elsewhere",
				   env->plugin);
	if (add_all(vars, env))
		return SAL_OK;
	cli_job_vars_fini(vars);
	return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
}

void cli_job_vars_fini(struct cli_job_vars *vars)
{
	while (vars->count > 0)
		free(vars->at[--vars->count].value);
}

int cli_job_env_set(const struct cli_job_env *env, struct sal_err *err)
{
	struct cli_job_vars vars;
	int rc = cli_job_vars_init(&vars, env, err);
	size_t i;

	if (rc < 0)
		return rc;
	for (i = 0; i < vars.count && rc >= 0; i++)
		if (setenv(vars.at[i].name, vars.at[i].value, 1) != 0)
			rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	cli_job_vars_fini(&vars);
	return rc;
}
