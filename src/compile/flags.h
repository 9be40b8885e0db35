/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags - the options of XLA's DebugOptions that are known, and what becomes of each.
 *
 * This is an allow-list: options.c takes no option that is not in the table. Numbers are those of xla/xla.proto and
 * never change their meaning; the table covers XLA from the end of 2024 to the middle of 2026. To add an option, look
 * up what XLA does with it, in the compiler and when the program runs.
 */
#ifndef SAL_COMPILE_FLAGS_H
#define SAL_COMPILE_FLAGS_H

#include <stdint.h>

#include "base/facts.h"

enum sal_flag_kind {
	SAL_FLAG_KEPT, /* says how to make code: concerns the program alone */
	SAL_FLAG_DROPPED, /* the program stays the same without it: dumps, logs, caches, statistics */
	SAL_FLAG_FILE, /* a file that the program depends on, or a command line: refused */
	SAL_FLAG_INTERNAL, /* skips the compiler's own checks, or concerns the whole process: refused */
};

struct sal_flag {
	uint32_t number;
	enum sal_flag_kind kind;
	const char *name;
	/* What XLA sets by itself: as good as not set. NULL and 0: nothing. */
	const char *usual_text;
	uint64_t usual;
};

/* NULL: not known. Several names may have one number, all of one kind. */
const struct sal_flag *sal_flag_by_number(uint32_t number);
const struct sal_flag *sal_flag_by_name(struct sal_text name);

/* Keys of xla_backend_extra_options that XLA:CPU itself reads. All others go to LLVM's command line. */
int sal_flag_is_extra(struct sal_text key);

#endif
