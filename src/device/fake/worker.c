/* SPDX-License-Identifier: Apache-2.0 */
/* A stream: a queue and the thread that works through it. */
#include "device/fake/impl.h"

#include <stdlib.h>

/* The next job, waiting for it; NULL: closing, and nothing left to do. */
static struct fake_job *next_job(struct sal_stream *s, bool *out_closing)
{
	struct fake_job *job;

	pthread_mutex_lock(&s->lock);
	s->busy = false;
	while (STAILQ_EMPTY(&s->jobs) && !s->closing)
		pthread_cond_wait(&s->wake, &s->lock);
	job = STAILQ_FIRST(&s->jobs);
	if (job)
		STAILQ_REMOVE_HEAD(&s->jobs, link);
	s->busy = job != NULL;
	*out_closing = s->closing;
	pthread_mutex_unlock(&s->lock);
	return job;
}

static void *work(void *arg)
{
	struct sal_stream *s = arg;
	struct fake_job *job;
	bool closing;

	while ((job = next_job(s, &closing)))
		job->run(job, closing);
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

void sal_fake_push(struct sal_stream *s, struct fake_job *take_job)
{
	pthread_mutex_lock(&s->lock);
	STAILQ_INSERT_TAIL(&s->jobs, take_job, link);
	/* An iteration inside its call may be waiting as well, for time to pass. */
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

bool sal_fake_is_idle(struct sal_stream *s)
{
	bool idle;

	pthread_mutex_lock(&s->lock);
	idle = !s->busy && STAILQ_EMPTY(&s->jobs);
	pthread_mutex_unlock(&s->lock);
	return idle;
}

static void run_call(struct fake_job *job, bool cancelled)
{
	(void)cancelled;
	job->done(job->done_ctx, SAL_OK, "");
	free(job);
}

void sal_fake_push_done(struct sal_stream *s, sal_done_fn *done, void *ctx)
{
	struct fake_job *job;

	if (!done)
		return;
	job = calloc(1, sizeof(*job));
	if (!job) {
		done(ctx, SAL_OK, "");
		return;
	}
	job->run = run_call;
	job->done = done;
	job->done_ctx = ctx;
	sal_fake_push(s, job);
}

static void stream_free(struct sal_stream *s)
{
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int sal_fake_stream_open(struct sal_device *d, struct sal_stream **out_stream, struct sal_err *err)
{
	struct sal_stream *s;

	*out_stream = NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a stream");
	s->device = d;
	STAILQ_INIT(&s->jobs);
	pthread_mutex_init(&s->lock, NULL);
	sal_fake_cond_init(&s->wake);
	if (pthread_create(&s->thread, NULL, work, s) != 0) {
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
	sal_fake_let_go(s);
	pthread_join(s->thread, NULL);
	pthread_mutex_lock(&s->device->lock);
	LIST_REMOVE(s, device_link);
	pthread_mutex_unlock(&s->device->lock);
	stream_free(s);
}
