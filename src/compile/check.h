/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check - whether a compiled program may be run where others' programs run.
 *
 * A compiler checks types and shapes, but some of what it accepts has the device's runtime write outside of its
 * buffers or wait for ever, in the process that all jobs share. Refused, with a sentence:
 *
 *   custom calls      to anything but what is listed, and TopK whose shapes do not fit together
 *   sorts             whose comparator is not proven to be an order (order.h)
 *   infeed and kin    which wait for a host that never answers
 *   dynamic shapes    in results: the runtime trusts sizes that the program computes (these are custom calls)
 *
 * What is checked is the optimised program: nothing is rewritten after it.
 */
#ifndef SAL_COMPILE_CHECK_H
#define SAL_COMPILE_CHECK_H

#include "base/err.h"
#include "base/facts.h"

struct sal_check {
	struct sal_text platform; /* the vendor's name of it: "cpu", "cuda", ... */
	struct sal_text format, program; /* what the client sent */
	struct sal_text optimized; /* HloModuleProtoWithConfig; empty: the plugin cannot tell */
};

/*
 * HLO that a client sent must not hold what only the compiler makes, fusions and the like. Without an optimised program, what the client sent is checked, if it is HLO; if it is not, a program for the CPU
 * is refused. -SAL_INVALID_ARGUMENT and -SAL_UNIMPLEMENTED say what is wrong with the program.
 */
int sal_check_program(const struct sal_check *check, struct sal_err *err);

#endif
