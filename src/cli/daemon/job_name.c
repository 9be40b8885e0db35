/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line of a job says about it. */
#include <string.h>

#include "cli/daemon/job_env.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static bool is_python(const char *command)
{
	return strncmp(base_name(command), "python", strlen("python")) == 0;
}

/* The option after this one belongs to it. */
static bool takes_value(const char *option)
{
	return strcmp(option, "-W") == 0 || strcmp(option, "-X") == 0;
}

/* The program follows this option: -c, -m, or stdin. */
static bool ends_options(const char *option)
{
	return strcmp(option, "-c") == 0 || strcmp(option, "-m") == 0 || strcmp(option, "-") == 0;
}

/* Is this a cluster of short options with the letter? The rest of -W, -X, -c and -m is no cluster. */
static bool has_letter(const char *option, char letter)
{
	const char *c;

	if (option[1] == '-')
		return false;
	for (c = option + 1; *c && !strchr("WXcm", *c); c++)
		if (*c == letter)
			return true;
	return false;
}

/* What python runs: a script, a module (-m), or NULL if neither is given. */
static const char *python_target(char *const *argv)
{
	char *const *arg;

	for (arg = argv + 1; *arg && (*arg)[0] == '-'; arg++) {
		if (ends_options(*arg))
			return strcmp(*arg, "-m") == 0 ? arg[1] : NULL;
		if (takes_value(*arg))
			arg += arg[1] != NULL;
	}
	return *arg;
}

const char *cli_job_name(char *const *argv)
{
	const char *target = is_python(argv[0]) ? python_target(argv) : NULL;

	return base_name(target && *target ? target : argv[0]);
}

bool cli_job_is_isolated(char *const *argv)
{
	char *const *arg;

	if (!is_python(argv[0]))
		return false;
	for (arg = argv + 1; *arg && (*arg)[0] == '-' && !ends_options(*arg); arg++) {
		if (has_letter(*arg, 'E') || has_letter(*arg, 'I'))
			return true;
		if (takes_value(*arg))
			arg += arg[1] != NULL;
	}
	return false;
}
