/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/job_env.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* JAX reads `NAME:PATH,NAME:PATH`. */
#define PLUGINS "PJRT_NAMES_AND_LIBRARY_PATHS"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* What python runs: a script, a module (-m), or NULL if neither is given. */
static const char *python_target(char *const *argv)
{
	char *const *arg;

	for (arg = argv + 1; *arg && (*arg)[0] == '-'; arg++) {
		if (strcmp(*arg, "-m") == 0)
			return arg[1];
		if (strcmp(*arg, "-W") == 0 || strcmp(*arg, "-X") == 0)
			arg += arg[1] != NULL;
		else if (strcmp(*arg, "-c") == 0 || strcmp(*arg, "-") == 0)
			return NULL;
	}
	return *arg;
}

const char *cli_job_name(char *const *argv)
{
	const char *command = base_name(argv[0]);
	const char *target = NULL;

	if (strncmp(command, "python", strlen("python")) == 0)
		target = python_target(argv);
	return target && *target ? base_name(target) : command;
}

/* Is an entry `NAME:PATH` of the list for this platform? */
static bool is_entry_of(const char *entry, const char *platform)
{
	size_t length = strlen(platform);

	return strncmp(entry, platform, length) == 0 && entry[length] == ':';
}

/* Our entry first, then those of other platforms. NULL: out of memory. */
static char *plugin_list(const struct cli_job_env *env, const char *others)
{
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

static bool set_plugins(const struct cli_job_env *env)
{
	const char *others = getenv(PLUGINS);
	char *list = plugin_list(env, others ? others : "");
	bool ok = list && setenv(PLUGINS, list, 1) == 0;

	free(list);
	return ok;
}

static bool set(const char *variable, const char *value)
{
	return !value || setenv(variable, value, 1) == 0;
}

int cli_job_env_set(const struct cli_job_env *env, struct sal_err *err)
{
	if (!*env->platform || strpbrk(env->platform, ":,"))
		return sal_err_set(err, SAL_DATA_LOSS,
				   "salusd names its platform \"%s\", which JAX cannot take",
				   env->platform);
	if (strpbrk(env->plugin, ":,"))
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "%s: JAX takes no plugin with \":\" or \",\" in its path; "
				   "install Salus elsewhere",
				   env->plugin);
	if (set("SALUS_JOB_NAME", env->name) && set("SALUS_MEMORY", env->reserve) &&
	    set("SALUS_WEIGHT", env->weight) && set("SALUS_PRIORITY", env->priority) &&
	    set("SALUS_TIME", env->time) && set("SALUS_KIND", env->kind) &&
	    set("SALUS_DEADLINE", env->deadline) && set("SALUS_SOCKET", env->socket) &&
	    set("JAX_PLATFORMS", env->platform) && set_plugins(env))
		return SAL_OK;
	return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
}
