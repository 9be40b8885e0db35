/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options - what of a client's compile options the daemon's processes may be asked to do.
 *
 * XLA's options can name files and directories, which the compiler, and later the daemon when it runs the
 * program, would read or write with the daemon's rights. So, in a serialised CompileOptionsProto:
 *
 *   dropped   where the program stays the same without it: dumps, logs, caches, the CUDA directory
 *   refused   where it would not: files that the program, its profile or its target is read from,
 *             command lines for ptxas and LLVM (which can load libraries)
 *   kept      everything else, unknown fields too, byte for byte; empty paths are no paths
 *
 * Overrides by name (env_option_overrides, which jax.jit's compiler_options fill) are held to the same rules.
 */
#ifndef SAL_COMPILE_OPTIONS_H
#define SAL_COMPILE_OPTIONS_H

#include "base/err.h"
#include "base/facts.h"

/*
 * Returns how many fields were dropped, with the cleaned options in *out_bytes, owned by the caller, never
 * larger than options; or -SAL_INVALID_ARGUMENT with the name of what is refused.
 */
int sal_options_clean(struct sal_text options, char **out_bytes, size_t *out_size,
		      struct sal_err *err);

#endif
