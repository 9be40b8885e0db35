/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/daemon_env.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/*
 * What passes; a name that ends in "*" is the beginning of names. What does not, and why:
 *
 *     XLA_FLAGS, OMP_*, OPENBLAS_*   one job's wishes would hold for the programs of all, which share a cache
 *     LD_PRELOAD, LD_AUDIT, PYTHON*  code of the job's in a process that is not the job's
 *     SALUS_SOCKET, SALUS_JOB_NAME, SALUS_MEMORY, ...   of the job; salusd is told its socket
 *     all else                       may be a secret: AWS_*, tokens, passwords
 */
static const char *const passing[] = {
	/* where things are */
	"PATH",
	"HOME",
	"USER",
	"LOGNAME",
	"TMPDIR",
	"XDG_CACHE_HOME",
	"XDG_CONFIG_HOME",
	"XDG_DATA_HOME",
	"XDG_RUNTIME_DIR",
	"XDG_STATE_HOME",
	/* how text and times look */
	"LANG",
	"LC_*",
	"TZ",
	/* what an operator of salusd sets */
	"SALUS_PLUGIN",
	"SALUS_LOG",
	"SALUS_DEBUG_CORE",
	"TF_CPP_MIN_LOG_LEVEL",
	/* which device, and the vendor's libraries: on clusters, modules put their folders there */
	"LD_LIBRARY_PATH",
	"CUDA_VISIBLE_DEVICES",
	"CUDA_DEVICE_ORDER",
	"NVIDIA_VISIBLE_DEVICES",
	"NVIDIA_DRIVER_CAPABILITIES",
	"ROCR_VISIBLE_DEVICES",
	"HIP_VISIBLE_DEVICES",
	/* sanitizers, for those who build Salus with them */
	"ASAN_OPTIONS",
	"LSAN_OPTIONS",
	"TSAN_OPTIONS",
	"UBSAN_OPTIONS",
};

static bool matches(const char *pattern, const char *entry)
{
	size_t length = strlen(pattern);

	if (pattern[length - 1] == '*')
		return strncmp(entry, pattern, length - 1) == 0;
	return strncmp(entry, pattern, length) == 0 && entry[length] == '=';
}

static bool passes(const char *entry)
{
	size_t i;

	for (i = 0; i < SAL_COUNT(passing); i++)
		if (matches(passing[i], entry))
			return true;
	return false;
}

char **cli_daemon_env(char *const *from)
{
	size_t count = 0, i;
	char **env;

	while (from[count])
		count++;
	env = calloc(count + 1, sizeof(*env));
	if (!env)
		return NULL;
	for (i = 0, count = 0; from[i]; i++)
		if (passes(from[i]))
			env[count++] = from[i];
	return env;
}
