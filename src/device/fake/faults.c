/* SPDX-License-Identifier: Apache-2.0 */
/* The faults: reading them, and what they do to a call. */
#include "device/fake/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	[FAKE_CALL_EXECUTE] = "execute",
};

/* --- reading --- */

/* FAKE_CALL_ANY: there is none of that name. */
static enum fake_call call_named(const char *name)
{
	enum fake_call call = 0;

	while (call < FAKE_CALL_COUNT && strcmp(name, call_names[call]) != 0)
		call++;
	return call;
}

/* A whole number that is not 0, with nothing before and only `stop` or the end after it. */
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
static bool read_hold_up(struct fake_fault *fault, char *name, char *rest)
{
	char *call = name;
	const char *kind = strsep(&call, ":");
	bool slow = strcmp(kind, "slow") == 0;
	uint64_t ms = 0;

	fault->effect = FAKE_HOLDS_UP;
	fault->call = call ? call_named(call) : FAKE_CALL_ANY;
	if ((!slow && strcmp(kind, "endless") != 0) || (call && fault->call == FAKE_CALL_ANY) ||
	    !read_count(&rest, ':', &fault->at) || (rest != NULL) != slow ||
	    (slow && !read_count(&rest, '\0', &ms)))
		return false;
	fault->hold_up_ns = slow ? ms * NS_PER_MS : FAKE_FOREVER;
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
	if (d->fault_count == FAKE_MAX_FAULTS)
		return false;
	if (strncmp(name, "slow", 4) == 0 || strncmp(name, "endless", 7) == 0) {
		if (!read_hold_up(&fault, name, rest))
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
				   "\"%s\" is neither \"fake\" nor \"fake:\" and faults", path);
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

/* --- holding up --- */

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
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	if (ns == FAKE_FOREVER)
		return until;
	until.tv_sec += (time_t)(ns / NS_PER_S);
	until.tv_nsec += (long)(ns % NS_PER_S);
	until.tv_sec += until.tv_nsec / (long)NS_PER_S;
	until.tv_nsec %= (long)NS_PER_S;
	return until;
}

void sal_fake_enter(struct sal_stream *s)
{
	pthread_mutex_lock(&s->device->lock);
	s->held_up++;
	pthread_mutex_unlock(&s->device->lock);
}

void sal_fake_leave(struct sal_stream *s)
{
	struct sal_device *d = s->device;

	pthread_mutex_lock(&d->lock);
	s->held_up--;
	pthread_cond_broadcast(&d->change);
	pthread_mutex_unlock(&d->lock);
}

void sal_fake_let_go(struct sal_stream *s)
{
	struct sal_device *d = s->device;

	pthread_mutex_lock(&d->lock);
	s->let_go = true;
	pthread_cond_broadcast(&d->change);
	while (s->held_up > 0)
		pthread_cond_wait(&d->change, &d->lock);
	pthread_mutex_unlock(&d->lock);
}

/* False if the stream or the device is closed meanwhile. */
static bool hold_up(struct sal_device *d, struct sal_stream *s, uint64_t ns)
{
	struct timespec until = sal_fake_later(ns);
	uint32_t *held_up = s ? &s->held_up : &d->held_up;
	const bool *let_go = s ? &s->let_go : &d->closing;
	bool released;
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	(*held_up)++;
	while (!*let_go && rc == 0) {
		if (ns == FAKE_FOREVER)
			pthread_cond_wait(&d->change, &d->lock);
		else
			rc = pthread_cond_timedwait(&d->change, &d->lock, &until);
	}
	released = *let_go;
	(*held_up)--;
	pthread_cond_broadcast(&d->change);
	pthread_mutex_unlock(&d->lock);
	return !released;
}

/* --- a call --- */

/* Only stream threads call done functions, and they call nothing else of the table. */
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
	uint64_t count, all, hold_up_ns = 0;
	int code = SAL_OK;

	if (d->strict && is_in_done(d))
		SAL_BUG("%s was called from within a done function", call_names[call]);
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
		if (f->effect == FAKE_HOLDS_UP && number % f->at == 0 && f->hold_up_ns > hold_up_ns)
			hold_up_ns = f->hold_up_ns;
	}
	if (hold_up_ns > 0 && !hold_up(d, s, hold_up_ns))
		return sal_err_set(err, SAL_CANCELLED, "the stream was closed");
	if (code == SAL_OK)
		return SAL_OK;
	return sal_err_set(err, (enum sal_code)code, "%s %" PRIu64 " was told to fail",
			   call_names[call], count);
}
