/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/pool/launch.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "device/option.h"

#define NUMBER_TEXT 24
#define ARGUMENTS_MAX (7 + 2 * SAL_PLUGIN_OPTIONS_MAX)

static const char *const passing[] = {
	"PATH",
	"HOME",
	"TMPDIR",
	"LANG",
	"TZ",
	"LD_LIBRARY_PATH",
	"SALUS_DEBUG_CORE",
	"SALUS_LAPACK",
	"TF_CPP_MIN_LOG_LEVEL",
	"CUDA_VISIBLE_DEVICES",
	"NVIDIA_VISIBLE_DEVICES",
	"HIP_VISIBLE_DEVICES",
	"ROCR_VISIBLE_DEVICES",
	"ASAN_OPTIONS",
	"LSAN_OPTIONS",
	"TSAN_OPTIONS",
	"UBSAN_OPTIONS",
};
#define PASSING_COUNT SAL_COUNT(passing)

static bool passes(const char *entry)
{
	for (size_t i = 0; i < PASSING_COUNT; i++) {
		size_t size = strlen(passing[i]);

		if (strncmp(entry, passing[i], size) == 0 && entry[size] == '=')
			return true;
	}
	return false;
}

/* The strings are not copied. */
static void pick_environment(char *out_env[PASSING_COUNT + 1])
{
	size_t count = 0;

	for (char **entry = environ; *entry && count < PASSING_COUNT; entry++)
		if (passes(*entry))
			out_env[count++] = *entry;
	out_env[count] = NULL;
}

/* Adds the options of the plugin behind the other arguments. */
static void add_options(const char *const *options, char *args[ARGUMENTS_MAX + 1])
{
	size_t count = 0;

	while (args[count])
		count++;
	for (; options && *options && count + 2 <= ARGUMENTS_MAX; options++) {
		args[count++] = (char *)"--plugin-option";
		args[count++] = (char *)*options;
	}
	args[count] = NULL;
}

static uv_stdio_container_t new_pipe(uv_pipe_t *pipe, int direction)
{
	return (uv_stdio_container_t){ .flags = (uv_stdio_flags)(UV_CREATE_PIPE | direction),
				       .data.stream = (uv_stream_t *)pipe };
}

int sal_launch(uv_loop_t *loop, const struct sal_launch *launch, uv_process_t *process)
{
	uv_stdio_container_t stdio[3] = { new_pipe(launch->in, UV_READABLE_PIPE),
					  new_pipe(launch->out, UV_WRITABLE_PIPE),
					  new_pipe(launch->err, UV_WRITABLE_PIPE) };
	char memory[NUMBER_TEXT], cpu[NUMBER_TEXT];
	char *env[PASSING_COUNT + 1];
	/* libuv does not change the strings. */
	char *args[ARGUMENTS_MAX + 1] = { (char *)"salus-compile",
					  (char *)"--plugin",
					  (char *)launch->plugin,
					  (char *)"--memory-bytes",
					  memory,
					  (char *)"--cpu-seconds",
					  cpu };
	uv_process_options_t options = { .file = launch->path,
					 .args = args,
					 .env = env,
					 .stdio = stdio,
					 .stdio_count = 3,
					 .exit_cb = launch->ended };

	(void)snprintf(memory, sizeof(memory), "%" PRIu64, launch->limits.memory_bytes);
	(void)snprintf(cpu, sizeof(cpu), "%" PRIu64, launch->limits.cpu_s);
	add_options(launch->plugin_options, args);
	pick_environment(env);
	return uv_spawn(loop, process, &options);
}
