/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key - the name of a compiled program: a cryptographic hash of everything that affects the
 * compiler's output.
 */
#ifndef SAL_COMPILE_KEY_H
#define SAL_COMPILE_KEY_H

#include <stdint.h>

#include "base/facts.h"
#include "compile/store/identity.h"
#include "compile/store/image.h"

/* What is compiled. */
struct sal_compile_source {
	struct sal_text format; /* "mlir" or "hlo" */
	struct sal_text program;
	struct sal_text options; /* CompileOptionsProto; see options.h for what becomes of it */
	uint32_t devices; /* of the session that runs it; 0: one */
};

/* source->options must be clean (options.h). identity: of compiler and device (identity.h). */
void sal_program_key(const struct sal_compile_source *source,
		     const uint8_t identity[SAL_IDENTITY_BYTES],
		     uint8_t out_key[SAL_PROGRAM_KEY_BYTES]);

#endif
