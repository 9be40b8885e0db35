/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options - what of a client's compile options the daemon's processes may be asked to do.
 *
 * XLA's options can name files and directories, which the compiler, and later the daemon when it runs the
 * program, would read or write with the daemon's rights; others switch off what XLA checks, or end the process.
 * So only options that are known to concern the program alone are taken. In a serialised CompileOptionsProto:
 *
 *   kept      options that flags.c lists as harmless, and whatever has the value that XLA itself gives it or none:
 *             byte for byte
 *   dropped   options without which the program stays the same (dumps, logs, caches, the CUDA directory), and
 *             options that are not known
 *   refused   options that it depends on: files, command lines for ptxas and LLVM (which can load libraries),
 *             what switches off the compiler's checks or concerns the daemon's whole process
 *
 * Overrides by name (env_option_overrides, which jax.jit's compiler_options fill) are held to the same rules, but
 * one that is not known is refused, since somebody asked for it.
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
