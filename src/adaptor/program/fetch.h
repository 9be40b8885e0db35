/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch - the parts of a program that the daemon has: its facts, its optimised text, a sealed blob
 * of it.
 */
#ifndef SAL_ADAPTOR_PROGRAM_FETCH_H
#define SAL_ADAPTOR_PROGRAM_FETCH_H

#include <stdint.h>

#include "adaptor/function.h"
#include "wire/messages.h"

struct adp_optimized;
struct adp_program;

/* The bytes of a part that has `size` bytes; to be freed. */
PJRT_Error *adp_fetch_bytes(struct adp_program *p, enum sal_fetch what, uint64_t size,
			    void **out_bytes);
/* The error for facts that make no sense. */
PJRT_Error *adp_fetch_nonsense(void);
/* What Executable_OptimizedProgram does. Two calls: first the size, then the bytes. */
PJRT_Error *adp_fetch_optimized(PJRT_Executable_OptimizedProgram_Args *args);
void adp_optimized_free(struct adp_optimized *optimized);

ADP_FUNCTION(Executable_OptimizedProgram);
ADP_FUNCTION(Executable_Serialize);

#endif
