/* SPDX-License-Identifier: Apache-2.0 */
/*
 * views - arguments that are views of host memory: see late.h in the room buffer.
 *
 * An iteration gets what the memory holds at the call. So each view among the arguments is replaced by
 * a copy, which lives for one call. A copy may be donated; the view stays as it is.
 *
 * Threads: that of the call.
 */
#ifndef SAL_ADAPTOR_PROGRAM_VIEWS_H
#define SAL_ADAPTOR_PROGRAM_VIEWS_H

#include <stddef.h>

#include "adaptor/function.h"

struct adp_views {
	PJRT_Buffer *const *const *original; /* borrowed: the lists of the caller */
	PJRT_Buffer **buffers; /* owned: all lists, one behind the other; NULL: there is no view */
	PJRT_Buffer *const **lists; /* owned: they point into buffers */
	PJRT_Buffer **copies; /* owned, and so are the buffers in it */
	size_t count; /* of copies */
};

/* Replaces args->argument_lists, if there is a view. After a failure adp_views_drop is not needed. */
PJRT_Error *adp_views_replace(struct adp_views *views, PJRT_LoadedExecutable_Execute_Args *args);
/* Ends the copies, and gives args its own lists back. Call this when the iteration is sent. */
void adp_views_drop(struct adp_views *views, PJRT_LoadedExecutable_Execute_Args *args);

#endif
