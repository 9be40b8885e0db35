/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options - filters the compile options of a client, so that they affect nothing but the client's
 * program.
 *
 * XLA's options can name files and directories. The compiler, and later the daemon when it runs the
 * program, would read or write those files with the daemon's rights. Other options switch off XLA's
 * checks, or end the process. So only options that are known to concern the program alone are
 * accepted. In a serialised CompileOptionsProto, options are
 *
 *   kept      if flags.c lists them as harmless, or if they have XLA's own default value or none;
 *             kept options stay the same byte for byte
 *   dropped   if the program is the same without them (dumps, logs, caches, the CUDA directory),
 *             or if they are not known
 *   refused   if the program depends on them: files, command lines for ptxas and LLVM (which can
 *             load libraries), options that switch off the compiler's checks or concern the whole
 *             process
 *
 * Overrides by name (env_option_overrides, which jax.jit's compiler_options fill) follow the same
 * rules, with one exception: an unknown override is refused, since somebody asked for it.
 */
#ifndef SAL_COMPILE_OPTIONS_H
#define SAL_COMPILE_OPTIONS_H

#include "base/err.h"
#include "base/facts.h"

/*
 * Returns the number of dropped fields, and the cleaned options in *out_bytes. The caller owns
 * *out_bytes; it is never larger than options. Or returns -SAL_INVALID_ARGUMENT with the name of
 * the refused option.
 */
int sal_options_clean(struct sal_text options, char **out_bytes, size_t *out_size,
		      struct sal_err *err);

#endif
