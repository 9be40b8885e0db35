/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host - the address of a buffer's bytes in this process.
 *
 * On a CPU a framework may ask where a buffer is and use the bytes in place: numpy views, dlpack,
 * the buffer protocol. The bytes are in the daemon. But buffers never change, so a copy is as good.
 * The first question makes the copy, and waits for it; the copy lives as long as the buffer. A job
 * may hold many results this way. So only the first of them stay in the arena, where they need no
 * second copy: the rest of the arena is for transfers.
 */
#ifndef SAL_ADAPTOR_BUFFER_HOST_H
#define SAL_ADAPTOR_BUFFER_HOST_H

#include "adaptor/function.h"

/* Frees the copy, if there is one. */
void adp_host_free(PJRT_Buffer *buffer);

ADP_FUNCTION(Buffer_UnsafePointer);
ADP_FUNCTION(Buffer_IncreaseExternalReferenceCount);
ADP_FUNCTION(Buffer_DecreaseExternalReferenceCount);
ADP_FUNCTION(Buffer_OpaqueDeviceMemoryDataPointer);

#endif
