/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upload - bytes to the device.
 *
 * The call copies the bytes once, into the arena: the caller may reuse its memory at once, and the
 * vendor uses the arena's bytes in place. Small arrays ride in the record.
 *
 * Threads: any.
 */
#ifndef SAL_ADAPTOR_BUFFER_UPLOAD_H
#define SAL_ADAPTOR_BUFFER_UPLOAD_H

#include "adaptor/function.h"

/* Uploads what the memory of a view holds now: a new buffer, of the caller. */
PJRT_Error *adp_view_copy(const PJRT_Buffer *view, PJRT_Buffer **out_buffer);

ADP_FUNCTION(Client_BufferFromHostBuffer);
ADP_FUNCTION(Client_CreateViewOfDeviceBuffer);
ADP_FUNCTION(Client_CreateUninitializedBuffer);

#endif
