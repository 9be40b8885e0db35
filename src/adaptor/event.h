/* SPDX-License-Identifier: Apache-2.0 */
/* event - PJRT_Event: a view of a promise. */
#ifndef SAL_ADAPTOR_EVENT_H
#define SAL_ADAPTOR_EVENT_H

#include <stdbool.h>

#include "adaptor/function.h"

struct adp_promise;

/*
 * An event that belongs to the caller; takes the reference. waited_for: whoever registers a
 * callback is going to wait for it, so registering polls first. NULL for lack of memory.
 */
PJRT_Event *adp_event_create(struct adp_promise *take_promise, bool waited_for);

ADP_FUNCTION(Event_Destroy);
ADP_FUNCTION(Event_IsReady);
ADP_FUNCTION(Event_Error);
ADP_FUNCTION(Event_Await);
ADP_FUNCTION(Event_OnReady);

#endif
