/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/event.h"

#include <stdlib.h>

#include "adaptor/error.h"
#include "adaptor/promise.h"

struct PJRT_Event {
	struct adp_promise *promise; /* owned reference */
	bool waited_for; /* whoever registers a callback is going to wait for it */
};

PJRT_Event *adp_event_create(struct adp_promise *take_promise, bool waited_for)
{
	PJRT_Event *event = malloc(sizeof(*event));

	if (!event) {
		adp_promise_unref(take_promise);
		return NULL;
	}
	event->promise = take_promise;
	event->waited_for = waited_for;
	return event;
}

PJRT_Error *adp_Event_Destroy(PJRT_Event_Destroy_Args *args)
{
	if (args->event) {
		adp_promise_unref(args->event->promise);
		free(args->event);
	}
	return NULL;
}

PJRT_Error *adp_Event_IsReady(PJRT_Event_IsReady_Args *args)
{
	adp_promise_poll(args->event->promise);
	args->is_ready = adp_promise_is_fulfilled(args->event->promise);
	return NULL;
}

PJRT_Error *adp_Event_Error(PJRT_Event_Error_Args *args)
{
	if (!adp_promise_is_fulfilled(args->event->promise))
		return adp_error(SAL_FAILED_PRECONDITION, "salus: the event is not ready yet");
	return adp_promise_error(args->event->promise);
}

PJRT_Error *adp_Event_Await(PJRT_Event_Await_Args *args)
{
	(void)adp_promise_wait(args->event->promise);
	return adp_promise_error(args->event->promise);
}

PJRT_Error *adp_Event_OnReady(PJRT_Event_OnReady_Args *args)
{
	/* The callback may destroy the event, and the last other reference with it. */
	struct adp_promise *p = adp_promise_ref(args->event->promise);
	bool done;

	if (args->event->waited_for)
		adp_promise_poll(p);
	done = adp_promise_then(p, args->callback, args->user_arg);
	adp_promise_unref(p);
	return done ? NULL : adp_out_of_memory();
}
