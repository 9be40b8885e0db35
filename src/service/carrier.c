/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carrier - the thread for what takes long and must hold nobody up: paging a session out and in, carrying
 * buffers from lane to lane, opening a lane's stream, loading a program into it, tidying up after a session.
 *
 * Errands are done one after the other. While one is under way the session does not run: the engine waits for its
 * paging, and an iteration that is being made ready counts as running. So nobody else changes a buffer's memory;
 * it may be read and dropped meanwhile, and a session may die.
 */
#include "service/service.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/tidy.h"
#include "core/lane.h"

#define READER_NAP_US 50

static void *carry(void *arg)
{
	struct svc_carrier *c = &((struct svc_server *)arg)->carrier;
	struct svc_errand *errand;

	(void)pthread_mutex_lock(&c->lock);
	for (;;) {
		errand = STAILQ_FIRST(&c->errands);
		if (!errand && c->stop)
			break;
		if (!errand) {
			(void)pthread_cond_wait(&c->wake, &c->lock);
			continue;
		}
		STAILQ_REMOVE_HEAD(&c->errands, link);
		(void)pthread_mutex_unlock(&c->lock);
		errand->run(errand);
		(void)pthread_mutex_lock(&c->lock);
	}
	(void)pthread_mutex_unlock(&c->lock);
	return NULL;
}

int svc_carrier_start(struct svc_server *server, struct sal_err *err)
{
	struct svc_carrier *c = &server->carrier;
	sigset_t all, before;
	int rc;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&c->thread, NULL, carry, server);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no thread: %s", strerror(rc));
	c->started = true;
	return SAL_OK;
}

void svc_carrier_stop(struct svc_server *server)
{
	struct svc_carrier *c = &server->carrier;

	if (!c->started)
		return;
	(void)pthread_mutex_lock(&c->lock);
	c->stop = true;
	(void)pthread_cond_signal(&c->wake);
	(void)pthread_mutex_unlock(&c->lock);
	(void)pthread_join(c->thread, NULL);
	c->started = false;
}

void svc_carrier_post(struct svc_server *server, struct svc_errand *errand)
{
	struct svc_carrier *c = &server->carrier;

	(void)pthread_mutex_lock(&c->lock);
	STAILQ_INSERT_TAIL(&c->errands, errand, link);
	(void)pthread_cond_signal(&c->wake);
	(void)pthread_mutex_unlock(&c->lock);
}

/* --- tidying ------------------------------------------------------------------------------------------------ */

static void run_tidy(struct svc_errand *errand)
{
	struct svc_carrier *c =
		(struct svc_carrier *)((char *)errand - offsetof(struct svc_carrier, tidying));

	atomic_store(&c->tidies, false); /* what is freed from now on is for the next time */
	sal_tidy();
}

void svc_carrier_tidy(struct svc_server *server)
{
	struct svc_carrier *c = &server->carrier;

	if (atomic_exchange(&c->tidies, true))
		return;
	c->tidying.run = run_tidy;
	svc_carrier_post(server, &c->tidying);
}

/* --- paging ------------------------------------------------------------------------------------------------- */

static struct svc_session *session_of(struct svc_errand *errand)
{
	return (struct svc_session *)((char *)errand - offsetof(struct svc_session, paging));
}

/* References to all buffers of a session that have memory; to be dropped under the lock. */
static struct svc_buffer **list_buffers(struct svc_session *s, size_t *out_count)
{
	struct svc_buffer *b, **list;
	size_t n = 0;

	TAILQ_FOREACH(b, &s->all, link)
		n++;
	list = calloc(n + 1, sizeof(struct svc_buffer *));
	n = 0;
	if (list)
		TAILQ_FOREACH(b, &s->all, link)
			if (b->device || b->saved)
				list[n++] = svc_buffer_ref(b);
	*out_count = n;
	return list;
}

static void drop_list(struct svc_buffer **list, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		svc_buffer_unref(list[i]);
	free(list);
}

/*
 * From the device to the host. One that cannot be saved stays where it is. Where the device allows, the buffer can
 * keep its place and lose only its pages, so that it comes back to the same address; nobody may read it then.
 */
static int save(struct svc_buffer *b, bool keep_place, struct sal_err *err)
{
	struct svc_server *server = b->session->server;
	struct sal_buffer *device = b->device;
	struct sal_saved *saved;
	int rc = server->ops->save(device, &saved, err);

	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&server->lock);
	b->saved = saved;
	(void)pthread_mutex_unlock(&server->lock);
	if (keep_place && server->ops->empty(device) >= 0)
		return SAL_OK;
	(void)pthread_mutex_lock(&server->lock);
	b->device = NULL;
	(void)pthread_mutex_unlock(&server->lock);
	server->ops->free_buffer(device);
	return SAL_OK;
}

/* And back, into a lane. */
static int restore(struct svc_buffer *b, uint32_t lane, struct sal_err *err)
{
	struct svc_server *server = b->session->server;
	struct sal_buffer *empty = b->device, *device = empty;
	int rc;

	if (empty && b->lane == lane)
		rc = server->ops->refill(empty, b->saved, err);
	else
		rc = server->ops->restore(server->lanes[lane].stream, b->saved, &device, err);
	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&server->lock);
	b->device = device;
	b->lane = lane;
	b->saved = NULL;
	(void)pthread_mutex_unlock(&server->lock);
	if (empty != device)
		server->ops->free_buffer(empty);
	return SAL_OK;
}

static int open_lane(struct svc_server *server, uint32_t lane, struct sal_err *err)
{
	struct sal_stream *stream = NULL;
	int rc;

	if (server->lanes[lane].stream)
		return SAL_OK;
	rc = server->ops->open_stream(server->device, &stream, err);
	if (rc < 0)
		return rc;
	sal_log_info("lane", "opened index=%u", (unsigned)lane);
	(void)pthread_mutex_lock(&server->lock);
	server->lanes[lane].stream = stream;
	(void)pthread_mutex_unlock(&server->lock);
	return SAL_OK;
}

/* The engine hears of it, and whoever may run now does. */
static void end_paging(struct svc_session *s, struct svc_buffer **list, size_t count,
		       void (*report)(struct sal_engine *, uint64_t, struct sal_session *))
{
	struct svc_server *server = s->server;

	(void)pthread_mutex_lock(&server->lock);
	drop_list(list, count);
	s->leaving = false;
	report(server->engine, svc_now_ns(), s->core);
	if (!s->dead)
		svc_memory_settle(s);
	(void)svc_turn(server);
	(void)pthread_mutex_unlock(&server->lock);
	svc_worker_wake(server);
	svc_session_unref(s);
}

static void run_page_out(struct svc_errand *errand)
{
	struct svc_session *s = session_of(errand);
	uint64_t began_ns = svc_now_ns();
	struct sal_err err = { 0 };
	size_t count, i, left = 0;
	struct svc_buffer **list;

	(void)pthread_mutex_lock(&s->server->lock);
	list = list_buffers(s, &count);
	(void)pthread_mutex_unlock(&s->server->lock);
	while (atomic_load(&s->readers) > 0)
		(void)usleep(READER_NAP_US);
	for (i = 0; i < count && !s->dead; i++)
		if (svc_buffer_is_there(list[i]) && save(list[i], true, &err) < 0)
			left++;
	if (left > 0)
		sal_log_error("paging", "%zu buffers of %s stay on the device: %s", left, s->name,
			      err.text);
	sal_log_debug("paging", "out session=%" PRIu64 " buffers=%zu us=%" PRIu64, s->id, count,
		      (svc_now_ns() - began_ns) / 1000);
	end_paging(s, list, count, sal_engine_paged_out);
}

static void run_page_in(struct svc_errand *errand)
{
	struct svc_session *s = session_of(errand);
	uint64_t began_ns = svc_now_ns();
	struct sal_err err = { 0 };
	size_t count, i, left = 0;
	struct svc_buffer **list;
	uint32_t lane;

	(void)pthread_mutex_lock(&s->server->lock);
	list = list_buffers(s, &count);
	lane = s->core->lane ? s->core->lane->index : 0;
	(void)pthread_mutex_unlock(&s->server->lock);
	if (open_lane(s->server, lane, &err) < 0)
		lane = 0;
	for (i = 0; i < count && !s->dead; i++)
		if (list[i]->saved && restore(list[i], lane, &err) < 0)
			left++;
	if (left > 0) /* its next iteration tries again, and fails if it cannot be */
		sal_log_error("paging", "%zu buffers of %s could not be brought back: %s", left,
			      s->name, err.text);
	sal_log_debug("paging", "in session=%" PRIu64 " buffers=%zu us=%" PRIu64, s->id, count,
		      (svc_now_ns() - began_ns) / 1000);
	end_paging(s, list, count, sal_engine_paged_in);
}

void svc_carrier_page_out(struct svc_session *s)
{
	(void)svc_session_ref(s);
	s->leaving = true;
	s->paging.run = run_page_out;
	svc_carrier_post(s->server, &s->paging);
}

void svc_carrier_page_in(struct svc_session *s)
{
	(void)svc_session_ref(s);
	s->paging.run = run_page_in;
	svc_carrier_post(s->server, &s->paging);
}

/* --- making an iteration ready -------------------------------------------------------------------------------- */

/* Everything it uses is where it runs. */
int svc_carrier_fetch(struct svc_execution *x, struct sal_err *err)
{
	struct svc_server *server = x->session->server;
	int rc = open_lane(server, x->lane, err);
	size_t i;

	if (rc >= 0)
		rc = svc_program_load(server, x->program, x->lane, err);
	for (i = 0; i < x->arg_count && rc >= 0; i++) {
		struct svc_buffer *b = x->args[i];

		if (svc_buffer_is_there(b) && b->lane != x->lane)
			rc = save(b, false, err);
		if (rc >= 0 && b->saved)
			rc = restore(b, x->lane, err);
	}
	return rc;
}
