/* SPDX-License-Identifier: Apache-2.0 */
/*
 * download - bytes from the device.
 *
 * Large arrays arrive in the arena, small ones in the completion. The thread that takes the
 * completion copies them to the caller's memory.
 */
#ifndef SAL_ADAPTOR_BUFFER_DOWNLOAD_H
#define SAL_ADAPTOR_BUFFER_DOWNLOAD_H

#include "adaptor/daemon/arena.h"
#include "adaptor/function.h"

/*
 * Waits until the bytes of b, in the device's order, are at dst. range: where dst is in the arena,
 * or NULL.
 */
PJRT_Error *adp_download_into(PJRT_Buffer *b, void *dst, const struct adp_range *range);

ADP_FUNCTION(Buffer_ToHostBuffer);
ADP_FUNCTION(Buffer_CopyRawToHost);

#endif
