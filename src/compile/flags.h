/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags - the known options of XLA's DebugOptions, and how options.c treats each of them.
 *
 * This is an allow-list: options.c accepts no option that is not in the table. The numbers come
 * from xla/xla.proto and never change their meaning. The table covers XLA from the end of 2024 to
 * the middle of 2026. Before you add an option, read what XLA does with it, in the compiler and
 * when the program runs.
 */
#ifndef SAL_COMPILE_FLAGS_H
#define SAL_COMPILE_FLAGS_H

#include <stdint.h>

#include "base/facts.h"

enum sal_flag_kind {
	SAL_FLAG_KEPT, /* controls code generation: concerns the program alone */
	SAL_FLAG_DROPPED, /* does not change the program: dumps, logs, caches, statistics */
	SAL_FLAG_FILE, /* names a file that the program depends on, or a command line: refused */
	SAL_FLAG_INTERNAL, /* skips compiler checks, or concerns the process: refused */
};

struct sal_flag {
	uint32_t number;
	enum sal_flag_kind kind;
	const char *name;
	/* XLA's own default value; this value counts as not set. NULL and 0: no default. */
	const char *usual_text;
	uint64_t usual;
};

/* NULL: not known. Several names may share one number; they are of the same kind then. */
const struct sal_flag *sal_flag_by_number(uint32_t number);
const struct sal_flag *sal_flag_by_name(struct sal_text name);

/*
 * Keys of xla_backend_extra_options that XLA:CPU reads itself. XLA passes all other keys to LLVM's
 * command line.
 */
int sal_flag_is_extra(struct sal_text key);

#endif
