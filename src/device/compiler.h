/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compiler - a vendor's compiler, separate from its device: salus-compile makes images, salusd only
 * loads them.
 *
 * Each device of device.h has a compiler, and the conformance suite (tests/cts/test_devices.c)
 * covers both. A compiled program can be described, serialised and freed. It never runs itself: a
 * stream loads its image.
 *
 * Threads: as in device.h.
 */
#ifndef SAL_DEVICE_COMPILER_H
#define SAL_DEVICE_COMPILER_H

#include "device/device.h"

struct sal_compiled; /* the result of a compilation */

struct sal_compiler_ops {
	/*
	 * Compiles `program` (format "mlir" or "hlo") with a serialised CompileOptionsProto for
	 * this stream's device.
	 */
	int (*compile)(struct sal_stream *s, struct sal_text format, struct sal_text program,
		       struct sal_text options, struct sal_compiled **out_compiled,
		       struct sal_err *err);
	/* These are valid until free_compiled. */
	const struct sal_program_facts *(*facts)(struct sal_compiled *c);
	struct sal_text (*image)(struct sal_compiled *c); /* for a stream's load */
	struct sal_text (*optimized)(struct sal_compiled *c); /* HloModuleProtoWithConfig */
	/* Accepts NULL. */
	void (*free_compiled)(struct sal_compiled *c);
};

extern const struct sal_compiler_ops sal_compiler_pjrt;
extern const struct sal_compiler_ops sal_compiler_fake;

#endif
