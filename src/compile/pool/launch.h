/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch - starts a salus-compile process: its arguments, its three pipes, and an environment that is a list of
 * what passes. Options of the compiler that come from the environment (XLA_FLAGS) do not pass: programs are found
 * again by their own options.
 *
 * Threads: the loop's.
 */
#ifndef SAL_COMPILE_LAUNCH_H
#define SAL_COMPILE_LAUNCH_H

#include <uv.h>

#include "compile/allowance.h"

struct sal_launch {
	const char *path, *plugin; /* borrowed */
	struct sal_helper_limits limits;
	uv_pipe_t *in, *out, *err; /* borrowed: initialised, not open */
	uv_exit_cb ended;
};

/* 0 or a negative error of libuv. */
int sal_launch(uv_loop_t *loop, const struct sal_launch *launch, uv_process_t *process);

#endif
