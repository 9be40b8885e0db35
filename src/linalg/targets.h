/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets - the custom calls for linear algebra that JAX's programs for the CPU contain, by name:
 * what XLA calls when such a program runs, and what salus-compile asks about one.
 *
 * JAX emits the same names and conventions from 0.5.3 on.
 */
#ifndef SAL_LINALG_TARGETS_H
#define SAL_LINALG_TARGETS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/facts.h"
#include "linalg/call.h"

#define LINALG_TARGET_CHARS 40

/* An XLA_FFI_Handler. */
typedef void linalg_handler(void);

struct linalg_target {
	char name[LINALG_TARGET_CHARS];
	const struct linalg_routine *routine;
	enum lapack_type type;
	linalg_handler *handler;
};

size_t sal_linalg_target_count(void);
/* i is less than the count. */
void sal_linalg_target(size_t i, struct linalg_target *out_target);

/* False: no target has this name. */
bool sal_linalg_find(struct sal_text name, struct linalg_target *out_target);

#endif
