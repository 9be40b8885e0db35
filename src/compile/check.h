/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check - decides whether a compiled program may run in the process that all jobs share.
 *
 * The compiler checks types and shapes. But for some programs that it accepts, the device's runtime
 * writes outside of its buffers or waits for ever. These programs are refused, with a reason:
 *
 *   custom calls      to a function that is not listed; to TopK and to linear algebra
 *                     (linalg/targets.h) if the shapes do not match; to linear algebra without
 *                     LAPACK
 *   sorts             whose comparator is not proven to be an order (order.h)
 *   infeed, send, ..  the host never answers
 *   dynamic shapes    in results: the runtime trusts sizes that the program computes; these are
 *                     custom calls
 *
 * The check reads the optimised program, because no later pass rewrites that program.
 */
#ifndef SAL_COMPILE_CHECK_H
#define SAL_COMPILE_CHECK_H

#include <stdint.h>

#include "base/err.h"
#include "base/facts.h"

struct sal_check {
	struct sal_text platform; /* the vendor's name for the platform: "cpu", "cuda", ... */
	struct sal_text format, program; /* as the client sent them */
	struct sal_text optimized; /* HloModuleProtoWithConfig; empty: not provided */
	/*
	 * Results. Custom calls take scratch that the compiler does not know of. Of calls that may
	 * run at the same time, all count.
	 */
	uint64_t scratch_bytes; /* of all calls together */
	uint64_t scratch_most; /* of the call with the largest scratch */
};

/*
 * HLO from a client must not contain instructions that only the compiler makes, such as fusions. If
 * there is no optimised program, the client's program is checked, provided that it is HLO. Any
 * other program without an optimised form is refused on the CPU. Returns -SAL_INVALID_ARGUMENT or
 * -SAL_UNIMPLEMENTED, with the reason.
 */
int sal_check_program(struct sal_check *check, struct sal_err *err);

#endif
