/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context - PJRT_ExecuteContext, and PJRT's FFI extension, through which jaxlib puts data into it.
 *
 * jaxlib makes a context for each Execute and adds the list of the program's Python functions. Other
 * uses of the extension are refused: the daemon runs no code of its clients.
 */
#ifndef SAL_ADAPTOR_PYTHON_CONTEXT_H
#define SAL_ADAPTOR_PYTHON_CONTEXT_H

#include <stdint.h>

#include "adaptor/function.h"

ADP_FUNCTION(ExecuteContext_Create);
ADP_FUNCTION(ExecuteContext_Destroy);

/* How many Python functions the context has. Accepts NULL. */
uint32_t adp_context_functions(const PJRT_ExecuteContext *context, void *const **out_functions);

/* The extension, chained before `next`. Call this once. */
PJRT_Extension_Base *adp_ffi_extension(PJRT_Extension_Base *next);

#endif
