/* SPDX-License-Identifier: Apache-2.0 */
/* The faults: their syntax, and their effect on a call. */
#include "device/fake/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys/clock.h"

#define NS_PER_S 1000000000u
#define NS_PER_MS UINT64_C(1000000)

static const char *const call_names[FAKE_CALL_COUNT] = {
	[FAKE_CALL_OPEN_STREAM] = "open_stream",
	[FAKE_CALL_LOAD] = "load",
	[FAKE_CALL_UNLOAD] = "unload",
	[FAKE_CALL_UPLOAD] = "upload",
	[FAKE_CALL_DOWNLOAD] = "download",
	[FAKE_CALL_COPY] = "copy",
	[FAKE_CALL_WHEN_READY] = "when_ready",
	[FAKE_CALL_FREE_BUFFER] = "free_buffer",
	[FAKE_CALL_SAVE] = "save",
	[FAKE_CALL_RESTORE] = "restore",
	[FAKE_CALL_EMPTY] = "empty",
	[FAKE_CALL_REFILL] = "refill",
	[FAKE_CALL_ADOPT] = "adopt",
	[FAKE_CALL_EXECUTE] = "execute",
};

/* Reading */

/* FAKE_CALL_ANY: no call has this name. */
static enum fake_call call_named(const char *name)
{
	enum fake_call call = 0;

	while (call < FAKE_CALL_COUNT && strcmp(name, call_names[call]) != 0)
		call++;
	return call;
}

/* Reads a whole number other than 0. Only `stop` or the end may follow. */
static bool read_count(char **text, char stop, uint64_t *out_number)
{
	char *word = strsep(text, (char[]){ stop, '\0' });
	char *end;

	*out_number = 0;
	if (!word || *word < '0' || *word > '9')
		return false;
	*out_number = strtoull(word, &end, 10);
	return *end == '\0' && *out_number > 0 && *out_number < UINT32_MAX;
}

/* CALL@N, or CALL@N=CODE. */
static bool read_failure(struct fake_fault *fault, const char *name, char *rest)
{
	uint64_t code = SAL_INTERNAL;

	fault->effect = FAKE_FAILS;
	fault->call = call_named(name);
	if (fault->call == FAKE_CALL_ANY || fault->call == FAKE_CALL_FREE_BUFFER ||
	    fault->call == FAKE_CALL_UNLOAD || !read_count(&rest, '=', &fault->at) ||
	    (rest && !read_count(&rest, '\0', &code)) || code > SAL_UNAUTHENTICATED)
		return false;
	fault->code = (int)code;
	return true;
}

/* slow@N:MS, slow:CALL@N:MS, endless@N, endless:CALL@N. */
static bool read_delay(struct fake_fault *fault, char *name, char *rest)
{
	char *call = name;
	const char *kind = strsep(&call, ":");
	bool slow = strcmp(kind, "slow") == 0;
	uint64_t ms = 0;

	fault->effect = FAKE_DELAYS;
	fault->call = call ? call_named(call) : FAKE_CALL_ANY;
	if ((!slow && strcmp(kind, "endless") != 0) || (call && fault->call == FAKE_CALL_ANY) ||
	    !read_count(&rest, ':', &fault->at) || (rest != NULL) != slow ||
	    (slow && !read_count(&rest, '\0', &ms)))
		return false;
	fault->delay_ns = slow ? ms * NS_PER_MS : FAKE_FOREVER;
	return true;
}

static bool read_mode(struct sal_device *d, const char *text)
{
	if (strcmp(text, "inline") == 0)
		return d->runs_inline = true;
	if (strcmp(text, "chained") == 0)
		return d->chained = true;
	if (strcmp(text, "strict") == 0)
		return d->strict = true;
	return false;
}

static bool read_fault(struct sal_device *d, char *text)
{
	struct fake_fault fault = { 0 };
	char *rest = text;
	char *name = strsep(&rest, "@");

	if (!rest)
		return read_mode(d, name);
	if (d->fault_count == FAKE_FAULTS_MAX)
		return false;
	if (strncmp(name, "slow", 4) == 0 || strncmp(name, "endless", 7) == 0) {
		if (!read_delay(&fault, name, rest))
			return false;
	} else if (!read_failure(&fault, name, rest)) {
		return false;
	}
	d->faults[d->fault_count++] = fault;
	return true;
}

int sal_fake_read_faults(struct sal_device *d, const char *path, struct sal_err *err)
{
	char *copy;
	char *rest;
	bool good = true;

	if (!path || strcmp(path, "fake") == 0)
		return SAL_OK;
	if (strncmp(path, "fake:", 5) != 0)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "\"%s\" is neither \"fake\" nor \"fake:\" with faults", path);
	copy = strdup(path + 5);
	if (!copy)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for faults");
	rest = copy;
	while (rest && good)
		good = read_fault(d, strsep(&rest, ","));
	free(copy);
	if (!good || (d->strict && d->chained))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "\"%s\": not every word is a fault like upload@3=14, "
				   "slow:execute@10:500 or endless@100",
				   path);
	return SAL_OK;
}

/* Holding up */

void sal_fake_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

struct timespec sal_fake_later(uint64_t ns)
{
	uint64_t until_ns = sal_now_ns() + (ns == FAKE_FOREVER ? 0 : ns);

	return (struct timespec){
		.tv_sec = (time_t)(until_ns / NS_PER_S),
		.tv_nsec = (long)(until_ns % NS_PER_S),
	};
}

void sal_fake_enter(struct sal_stream *s)
{
	pthread_mutex_lock(&s->device->lock);
	s->calls_inside++;
	pthread_mutex_unlock(&s->device->lock);
}

void sal_fake_leave(struct sal_stream *s)
{
	struct sal_device *d = s->device;

	pthread_mutex_lock(&d->lock);
	s->calls_inside--;
	pthread_cond_broadcast(&d->change);
	pthread_mutex_unlock(&d->lock);
}

void sal_fake_cancel_calls(struct sal_stream *s)
{
	struct sal_device *d = s->device;

	pthread_mutex_lock(&d->lock);
	s->is_cancelled = true;
	pthread_cond_broadcast(&d->change);
	while (s->calls_inside > 0)
		pthread_cond_wait(&d->change, &d->lock);
	pthread_mutex_unlock(&d->lock);
}

/* Returns false if the stream or the device is closed meanwhile. */
static bool delay(struct sal_device *d, struct sal_stream *s, uint64_t ns)
{
	struct timespec until = sal_fake_later(ns);
	uint32_t *calls_inside = s ? &s->calls_inside : &d->calls_inside;
	const bool *is_cancelled = s ? &s->is_cancelled : &d->closing;
	bool released;
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	(*calls_inside)++;
	while (!*is_cancelled && rc == 0) {
		if (ns == FAKE_FOREVER)
			pthread_cond_wait(&d->change, &d->lock);
		else
			rc = pthread_cond_timedwait(&d->change, &d->lock, &until);
	}
	released = *is_cancelled;
	(*calls_inside)--;
	pthread_cond_broadcast(&d->change);
	pthread_mutex_unlock(&d->lock);
	return !released;
}

/* A call */

/* Only stream threads call done functions. Outside of done functions they call no operation. */
static bool is_in_done(struct sal_device *d)
{
	struct sal_stream *s;
	bool in_done = false;

	pthread_mutex_lock(&d->lock);
	LIST_FOREACH(s, &d->streams, device_link)
		in_done = in_done || pthread_equal(s->thread, pthread_self());
	pthread_mutex_unlock(&d->lock);
	return in_done;
}

int sal_fake_begin_call(struct sal_device *d, struct sal_stream *s, enum fake_call call,
			struct sal_err *err)
{
	uint64_t count, all, delay_ns = 0;
	int code = SAL_OK;

	s = s ? sal_fake_lead(s) : NULL;
	if (d->strict && is_in_done(d))
		SAL_BUG("a done function called %s", call_names[call]);
	pthread_mutex_lock(&d->lock);
	count = ++d->calls[call];
	all = ++d->all_calls;
	pthread_mutex_unlock(&d->lock);
	for (size_t i = 0; i < d->fault_count; i++) {
		const struct fake_fault *f = &d->faults[i];
		uint64_t number = f->call == FAKE_CALL_ANY ? all : count;

		if (f->call != FAKE_CALL_ANY && f->call != call)
			continue;
		if (f->effect == FAKE_FAILS && number == f->at)
			code = f->code;
		if (f->effect == FAKE_DELAYS && number % f->at == 0 && f->delay_ns > delay_ns)
			delay_ns = f->delay_ns;
	}
	if (delay_ns > 0 && !delay(d, s, delay_ns))
		return sal_err_set(err, SAL_CANCELLED, "the stream was closed");
	if (code == SAL_OK)
		return SAL_OK;
	return sal_err_set(err, (enum sal_code)code, "%s %" PRIu64 " was told to fail",
			   call_names[call], count);
}
