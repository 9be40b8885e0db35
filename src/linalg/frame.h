/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame - from XLA's call of a handler to a linalg_call, and back.
 *
 * XLA first asks each handler for its metadata. We report version 0.1 of the interface: a plugin
 * refuses a handler that is newer than itself, without a word, and 0.1 has all that we use.
 */
#ifndef SAL_LINALG_FRAME_H
#define SAL_LINALG_FRAME_H

#include <xla/ffi/api/c_api.h>

#include "linalg/call.h"

/* Returns NULL, or an error that XLA owns. */
XLA_FFI_Error *sal_linalg_handle(XLA_FFI_CallFrame *frame, const struct linalg_routine *routine,
				 enum lapack_type type);

#endif
