/* SPDX-License-Identifier: Apache-2.0 */
/* Events. Callbacks come on the reporter, even if the event is ready when they are registered. */
#include "discrete/discrete.h"

#include <stdio.h>

struct waiter {
	STAILQ_ENTRY(waiter) link;
	PJRT_Event_OnReadyCallback callback;
	void *arg;
};

struct PJRT_Event {
	/* under disc_lock */
	unsigned int refs;
	bool is_ready;
	PJRT_Error_Code code;
	char text[DISC_TEXT_BYTES];
	STAILQ_HEAD(, waiter) waiters; /* owned */
};

/* A callback that is due. */
struct report {
	struct waiter *waiter; /* owned */
	PJRT_Error *error; /* owned until the callback takes it */
};

pthread_mutex_t disc_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t disc_changed = PTHREAD_COND_INITIALIZER;

static struct disc_queue reporter;
static pthread_once_t reporter_once = PTHREAD_ONCE_INIT;
static _Thread_local bool is_reporting;

void disc_refuse_reporter(const char *what)
{
	if (is_reporting)
		disc_die("%s came from a callback", what);
}

static void start_reporter(void)
{
	disc_queue_start(&reporter);
}

static void run_report(void *ctx)
{
	struct report *report = ctx;

	is_reporting = true;
	report->waiter->callback(report->error, report->waiter->arg);
	is_reporting = false;
	free(report->waiter);
	free(report);
}

PJRT_Event *disc_event(void)
{
	PJRT_Event *event = disc_new(1, sizeof(*event));

	(void)pthread_once(&reporter_once, start_reporter);
	event->refs = 1;
	STAILQ_INIT(&event->waiters);
	return event;
}

PJRT_Event *disc_event_ref(PJRT_Event *event)
{
	pthread_mutex_lock(&disc_lock);
	event->refs++;
	pthread_mutex_unlock(&disc_lock);
	return event;
}

void disc_event_unref(PJRT_Event *event)
{
	bool is_last;

	pthread_mutex_lock(&disc_lock);
	is_last = --event->refs == 0;
	pthread_mutex_unlock(&disc_lock);
	if (!is_last)
		return;
	if (!STAILQ_EMPTY(&event->waiters))
		disc_die("an event that never fires has callbacks");
	free(event);
}

static PJRT_Error *error_of(const PJRT_Event *event)
{
	return event->code == PJRT_Error_Code_OK ? NULL
						 : disc_error(event->code, "%s", event->text);
}

static void report(const PJRT_Event *event, struct waiter *take_waiter)
{
	struct report *r = disc_new(1, sizeof(*r));

	r->waiter = take_waiter;
	r->error = error_of(event);
	disc_queue_add(&reporter, run_report, r);
}

void disc_event_fire(PJRT_Event *event, PJRT_Error_Code code, const char *text)
{
	struct waiter *waiter;

	pthread_mutex_lock(&disc_lock);
	event->is_ready = true;
	event->code = code;
	(void)snprintf(event->text, sizeof(event->text), "%s", text);
	pthread_cond_broadcast(&disc_changed);
	pthread_mutex_unlock(&disc_lock);
	/* Nobody adds a waiter to a ready event. */
	while ((waiter = STAILQ_FIRST(&event->waiters))) {
		STAILQ_REMOVE_HEAD(&event->waiters, link);
		report(event, waiter);
	}
}

PJRT_Error *disc_event_wait(PJRT_Event *event)
{
	pthread_mutex_lock(&disc_lock);
	while (!event->is_ready)
		pthread_cond_wait(&disc_changed, &disc_lock);
	pthread_mutex_unlock(&disc_lock);
	return error_of(event);
}

/* The entries */

static PJRT_Error *event_destroy(PJRT_Event_Destroy_Args *args)
{
	DISC_ENTER(PJRT_Event_Destroy_Args, args);
	disc_event_unref(args->event);
	return NULL;
}

static PJRT_Error *event_is_ready(PJRT_Event_IsReady_Args *args)
{
	DISC_ENTER(PJRT_Event_IsReady_Args, args);
	pthread_mutex_lock(&disc_lock);
	args->is_ready = args->event->is_ready;
	pthread_mutex_unlock(&disc_lock);
	return NULL;
}

static PJRT_Error *event_error(PJRT_Event_Error_Args *args)
{
	DISC_ENTER(PJRT_Event_Error_Args, args);
	return error_of(args->event);
}

static PJRT_Error *event_await(PJRT_Event_Await_Args *args)
{
	DISC_ENTER(PJRT_Event_Await_Args, args);
	return disc_event_wait(args->event);
}

static PJRT_Error *event_on_ready(PJRT_Event_OnReady_Args *args)
{
	struct waiter *waiter;
	bool is_ready;

	DISC_ENTER(PJRT_Event_OnReady_Args, args);
	waiter = disc_new(1, sizeof(*waiter));
	waiter->callback = args->callback;
	waiter->arg = args->user_arg;
	pthread_mutex_lock(&disc_lock);
	is_ready = args->event->is_ready;
	if (!is_ready)
		STAILQ_INSERT_TAIL(&args->event->waiters, waiter, link);
	pthread_mutex_unlock(&disc_lock);
	if (is_ready)
		report(args->event, waiter);
	return NULL;
}

void disc_event_entries(PJRT_Api *api)
{
	api->PJRT_Event_Destroy = event_destroy;
	api->PJRT_Event_IsReady = event_is_ready;
	api->PJRT_Event_Error = event_error;
	api->PJRT_Event_Await = event_await;
	api->PJRT_Event_OnReady = event_on_ready;
}
