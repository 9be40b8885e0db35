/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch - starts a salus-compile process: its arguments, its three pipes, its environment. Only
 * the listed environment variables are passed on. Variables with compiler options (XLA_FLAGS) are
 * not, because the key of a program covers only the options of the program itself.
 *
 * Threads: the loop's.
 */
#ifndef SAL_COMPILE_LAUNCH_H
#define SAL_COMPILE_LAUNCH_H

#include <uv.h>

#include "compile/allowance.h"

struct sal_launch {
	const char *path, *plugin; /* borrowed */
	const char *const *plugin_options; /* borrowed; ends with NULL; or NULL */
	struct sal_helper_limits limits;
	uv_pipe_t *in, *out, *err; /* borrowed: initialised, not open */
	uv_exit_cb ended;
};

/* 0 or a negative error of libuv. */
int sal_launch(uv_loop_t *loop, const struct sal_launch *launch, uv_process_t *process);

#endif
