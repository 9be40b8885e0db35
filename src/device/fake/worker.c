/* SPDX-License-Identifier: Apache-2.0 */
/* A stream: a queue of work, and the thread that runs it. */
#include "device/fake/impl.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "base/sys/thread.h"

/* Waits for the next work. NULL: the stream is closing and the queue is empty. */
static struct fake_work *next_work(struct sal_stream *s, bool *out_closing)
{
	struct fake_work *work;

	pthread_mutex_lock(&s->lock);
	s->busy = false;
	while (STAILQ_EMPTY(&s->queue) && !s->closing)
		pthread_cond_wait(&s->wake, &s->lock);
	work = STAILQ_FIRST(&s->queue);
	if (work)
		STAILQ_REMOVE_HEAD(&s->queue, link);
	s->busy = work != NULL;
	*out_closing = s->closing;
	pthread_mutex_unlock(&s->lock);
	return work;
}

static void *work(void *arg)
{
	struct sal_stream *s = arg;
	struct fake_work *work;
	bool closing;

	if (s->tier > 0)
		(void)setpriority(PRIO_PROCESS, 0, SAL_TIER_NICE);
	while ((work = next_work(s, &closing)))
		work->run(work, closing);
	return NULL;
}

bool sal_fake_pass(struct sal_stream *s, uint64_t ns)
{
	struct timespec until = sal_fake_later(ns);
	bool closing;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	while (ns > 0 && !s->closing && rc == 0) {
		if (ns == FAKE_FOREVER)
			pthread_cond_wait(&s->wake, &s->lock);
		else
			rc = pthread_cond_timedwait(&s->wake, &s->lock, &until);
	}
	closing = s->closing;
	pthread_mutex_unlock(&s->lock);
	return !closing;
}

void sal_fake_push(struct sal_stream *s, struct fake_work *take_work)
{
	s = sal_fake_lead(s);
	pthread_mutex_lock(&s->lock);
	STAILQ_INSERT_TAIL(&s->queue, take_work, link);
	/* An iteration inside its call may be waiting, too. */
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

bool sal_fake_is_idle(struct sal_stream *s)
{
	bool idle;

	pthread_mutex_lock(&s->lock);
	idle = !s->busy && STAILQ_EMPTY(&s->queue);
	pthread_mutex_unlock(&s->lock);
	return idle;
}

static void run_call(struct fake_work *work, bool cancelled)
{
	(void)cancelled;
	work->done(work->done_ctx, SAL_OK, "");
	free(work);
}

void sal_fake_push_done(struct sal_stream *s, sal_done_fn *done, void *ctx)
{
	struct fake_work *work;

	if (!done)
		return;
	work = calloc(1, sizeof(*work));
	if (!work) {
		done(ctx, SAL_OK, "");
		return;
	}
	work->run = run_call;
	work->done = done;
	work->done_ctx = ctx;
	sal_fake_push(s, work);
}

static void stream_free(struct sal_stream *s)
{
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s->others);
	free(s->chip_facts);
	free(s);
}

struct sal_stream *sal_fake_chip(struct sal_stream *s, uint32_t chip)
{
	return chip == 0 ? s : &s->others[chip - 1];
}

static bool make_chips(struct sal_stream *s, uint32_t chips)
{
	s->chip_count = chips;
	s->others = calloc(chips, sizeof(*s->others));
	for (uint32_t i = 0; s->others && i + 1 < chips; i++) {
		s->others[i].device = s->device;
		s->others[i].lead = s;
	}
	return s->others != NULL;
}

int sal_fake_stream_open(struct sal_device *d, uint32_t tier, uint32_t chips,
			 struct sal_stream **out_stream, struct sal_err *err)
{
	struct sal_stream *s;

	*out_stream = NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a stream");
	s->device = d;
	s->tier = tier;
	STAILQ_INIT(&s->queue);
	pthread_mutex_init(&s->lock, NULL);
	sal_fake_cond_init(&s->wake);
	if (!make_chips(s, chips) || sal_thread_start(&s->thread, "fake-stream", work, s) != 0) {
		stream_free(s);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no thread for a stream");
	}
	pthread_mutex_lock(&d->lock);
	LIST_INSERT_HEAD(&d->streams, s, device_link);
	pthread_mutex_unlock(&d->lock);
	*out_stream = s;
	return SAL_OK;
}

void sal_fake_stream_close(struct sal_stream *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->closing = true;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
	sal_fake_cancel_calls(s);
	pthread_join(s->thread, NULL);
	pthread_mutex_lock(&s->device->lock);
	LIST_REMOVE(s, device_link);
	pthread_mutex_unlock(&s->device->lock);
	stream_free(s);
}
