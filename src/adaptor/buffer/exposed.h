/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exposed - large results that this process reads in the daemon's memory (daemon/blocks.h).
 *
 * While somebody reads such a buffer, that is, while it is pinned, its memory must not change. So a
 * pinned argument is not donated (program/donation.h), and the daemon hears of the deletion of a
 * pinned buffer only when the last pin goes.
 *
 * Pins and deletions may race. Who deletes or donates first marks the buffer as deleted and then reads
 * the pins; who pins first adds the pin and then reads the mark. So at least one of them notices.
 *
 * Threads: any.
 */
#ifndef SAL_ADAPTOR_BUFFER_EXPOSED_H
#define SAL_ADAPTOR_BUFFER_EXPOSED_H

#include <stdbool.h>

#include "adaptor/function.h"

/*
 * Sets the buffer's address, if its bytes can be read where they are. Waits for its contents. The
 * caller holds host_lock. An error: the buffer will never have contents.
 */
PJRT_Error *adp_exposed_find(PJRT_Buffer *buffer);
/* The buffer is deleted. True: somebody reads it, and the daemon must not know yet. */
bool adp_exposed_retain(PJRT_Buffer *buffer);
/* The last pin is gone: sends a deletion that waits. */
void adp_exposed_unpinned(PJRT_Buffer *buffer);
/* The buffer is destroyed: likewise. */
void adp_exposed_release(PJRT_Buffer *buffer);
/* The buffer is deleted or donated, and its bytes may change. */
bool adp_exposed_is_gone(PJRT_Buffer *buffer);

#endif
