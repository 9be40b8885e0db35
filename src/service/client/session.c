/* SPDX-License-Identifier: Apache-2.0 */
#include "service/client/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log/log.h"
#include "base/sys/fd.h"
#include "core/engine.h"
#include "link/socket.h"
#include "service/client/outbox.h"
#include "service/idmap.h"
#include "service/ledger.h"
#include "service/memory/freeing.h"
#include "service/memory/kind.h"
#include "service/memory/memory.h"
#include "service/profile/recall.h"
#include "service/run/attend.h"
#include "service/run/carrier.h"
#include "service/run/dispatch.h"
#include "service/run/worker.h"
#include "service/server.h"

struct svc_session *svc_session_ref(struct svc_session *s)
{
	(void)atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

/* Give back the limited resources that the session uses. */
static void close_account(struct svc_session *s)
{
	if (!s->account.ledger)
		return;
	svc_limit_give(s, SVC_ARENA_BYTES, s->segment_bytes);
	svc_limit_give(s, SVC_EXPOSED, s->exposed.count);
	svc_limit_give(s, SVC_SESSIONS, s->account.used[SVC_SESSIONS]);
	svc_account_close(&s->account);
}

bool svc_session_is_forgotten(const struct svc_session *s)
{
	return atomic_load(&s->refs) == 0;
}

void svc_session_unref(struct svc_session *s)
{
	struct svc_server *server = s->server;

	if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
		svc_carriers_bury(server, s);
}

/* Free the session, which has nothing on the device any more. */
void svc_session_destroy(struct svc_session *s)
{
	uint32_t i;

	SAL_ASSERT(s->decision.verdicts == 0 && STAILQ_EMPTY(&s->errands) &&
		   TAILQ_EMPTY(&s->executions) && !s->attention.is_attended);
	for (i = 0; i < s->segment_count; i++)
		(void)munmap(s->segments[i].base, (size_t)s->segments[i].bytes);
	if (s->ring_memory)
		(void)munmap(s->ring_memory, s->ring_bytes);
	sal_close(&s->bell);
	sal_close(&s->client_bell);
	svc_outbox_close(&s->outbox);
	(void)pthread_mutex_destroy(&s->outbox.lock);
	svc_idmap_fini(&s->buffers);
	svc_idmap_fini(&s->programs);
	free(s->parked);
	free(s->exposed.numbers);
	close_account(s);
	svc_real_fini(&s->real);
	svc_kind_leave(s->server, s->kind);
	(void)atomic_fetch_sub(&s->server->alive, 1);
	free(s);
}

int svc_session_grow(struct svc_session *s, uint64_t bytes, uint32_t *out_segment,
		     uint64_t *out_bytes, struct sal_err *err)
{
	uint64_t rounded = SVC_SEGMENT_BYTES;
	struct svc_segment *segment = &s->segments[s->segment_count];
	int fd, rc;

	while (rounded < bytes && rounded < UINT64_C(1) << 62)
		rounded *= 2;
	if (s->state != SVC_OPEN || s->segment_count == SAL_SEGMENTS_MAX || bytes > rounded)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
				   "the session's shared memory has reached its limit");
	rc = svc_limit_take(s, SVC_ARENA_BYTES, rounded, err);
	if (rc < 0)
		return rc;
	fd = sal_shared_create("salus-arena", rounded, err);
	segment->base = fd < 0 ? NULL : sal_shared_map(fd, rounded);
	if (!segment->base) {
		svc_limit_give(s, SVC_ARENA_BYTES, rounded);
		if (fd < 0)
			return fd;
		(void)close(fd);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "cannot map shared memory");
	}
	segment->bytes = rounded;
	svc_lock(s->server);
	s->segment_bytes += rounded;
	*out_segment = s->segment_count++;
	svc_unlock(s->server);
	*out_bytes = rounded;
	return fd;
}

void *svc_session_place(struct svc_session *s, const struct sal_place_in_arena *place)
{
	const struct svc_segment *segment;

	if (place->segment >= s->segment_count)
		return NULL;
	segment = &s->segments[place->segment];
	if (place->offset > segment->bytes || place->size > segment->bytes - place->offset)
		return NULL;
	return segment->base + place->offset;
}

/* Make rings and bells, as a client of this minor version expects them. */
static int open_rings(struct svc_session *s, uint32_t minor, int fds[4], struct sal_err *err)
{
	int rc;

	s->ring_bytes = sal_holding_span(SVC_RING_BYTES, minor);
	fds[0] = sal_shared_create("salus-rings", s->ring_bytes, err);
	if (fds[0] < 0)
		return fds[0];
	s->ring_memory = sal_shared_map(fds[0], s->ring_bytes);
	if (!s->ring_memory)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "cannot map the rings");
	s->holding = sal_holding_find(s->ring_memory, SVC_RING_BYTES, minor);
	/*
	 * The client gets the other end of each bell. Neither end can be reached through the other.
	 */
	rc = sal_doorbell_create(&fds[1], &s->bell, err);
	if (rc >= 0)
		rc = sal_doorbell_create(&s->client_bell, &fds[2], err);
	if (rc < 0)
		return rc;
	sal_ring_init(&s->submit, s->ring_memory, SVC_RING_BYTES);
	svc_outbox_init(&s->outbox, (char *)s->ring_memory + sal_ring_span(SVC_RING_BYTES),
			s->client_bell);
	/* The client must ring with its first record. */
	(void)sal_ring_sleep(&s->submit);
	return SAL_OK;
}

/* Refuse the session: the declared memory does not fit. */
static int refuse(struct svc_session *s, struct sal_err *err)
{
	char text[SAL_REASON_BYTES];

	svc_memory_explain(s, &s->refusal, text, sizeof(text));
	return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "%s", text);
}

static int join_engine(struct svc_session *s, const struct sal_hello *hello, struct sal_err *err)
{
	struct sal_job job = {
		.kind = hello->kind == SAL_HELLO_INFERENCE ? SAL_INFERENCE : SAL_TRAINING,
		.kind_undeclared = hello->kind == SAL_HELLO_UNDECLARED,
		.weight_milli = hello->weight_milli,
		.priority = hello->priority,
		.total_ns = hello->total_ns,
		.deadline_ns = hello->deadline_ns,
		.declared = { hello->persist_bytes, hello->ephem_bytes },
	};
	struct svc_server *server = s->server;
	struct sal_session_view view;
	int rc;

	svc_lock(server);
	svc_recall_begin(s, hello, &job);
	rc = sal_engine_open(server->engine, svc_now_ns(), &job, s, &s->core, err);
	if (rc >= 0) {
		s->id = sal_session_id(s->core);
		sal_engine_view(server->engine, s->core, &view);
		if (view.refused)
			rc = refuse(s, err);
		else
			rc = svc_attend_listen(server, s->bell, s->id, err);
		if (rc < 0) {
			sal_engine_close(server->engine, svc_now_ns(), s->core);
			svc_decision_drop(server, &s->decision);
		} else {
			TAILQ_INSERT_TAIL(&server->sessions, s, link);
			(void)svc_idmap_add(&server->by_id, s->id, s);
			svc_memory_publish(s);
		}
	}
	svc_unlock(server);
	svc_worker_wake(server); /* the engine may have granted iterations of other sessions */
	return rc;
}

/* Replace control characters, because names appear in logs and on terminals. */
static void copy_name(char *to, const char *from)
{
	size_t i;

	for (i = 0; i + 1 < SAL_NAME_BYTES && from[i]; i++)
		to[i] = (unsigned char)from[i] < ' ' || from[i] == 0x7f ? '?' : from[i];
	to[i] = '\0';
}

static int open_account(struct svc_session *s, const struct sal_hello *hello, struct sal_err *err)
{
	int rc = svc_limit_check_weight(&s->server->options.limits, hello->weight_milli, err);

	if (rc >= 0)
		rc = svc_account_open(&s->account, &s->server->ledger, s->uid, err);
	return rc < 0 ? rc : svc_limit_take(s, SVC_SESSIONS, 1, err);
}

/* Do the steps that cannot fail. svc_session_destroy undoes them. */
static void init(struct svc_session *s, struct svc_server *server, const struct sal_hello *hello,
		 const struct ucred *peer)
{
	atomic_init(&s->refs, 1);
	(void)atomic_fetch_add(&server->alive, 1);
	s->server = server;
	svc_real_init(&s->real, server);
	s->bell = s->client_bell = s->socket = -1;
	s->open_ns = svc_now_ns();
	s->devices = svc_kind_wish(server, hello);
	s->patience.understands = hello->minor >= SAL_MINOR_NEWS;
	s->takes_back = hello->minor >= SAL_MINOR_REFUSED;
	s->names_memories = hello->minor >= SAL_MINOR_MEMORIES;
	copy_name(s->name, hello->name);
	s->pid = peer->pid;
	s->uid = peer->uid;
	(void)pthread_mutex_init(&s->outbox.lock, NULL);
	svc_idmap_init(&s->buffers);
	svc_idmap_init(&s->programs);
	TAILQ_INIT(&s->all);
	TAILQ_INIT(&s->executions);
	TAILQ_INIT(&s->tasks);
	TAILQ_INIT(&s->unprepared);
	STAILQ_INIT(&s->errands);
	svc_freeing_init(s);
	s->decision.session = s;
}

int svc_session_create(struct svc_server *server, const struct sal_hello *hello,
		       const struct ucred *peer, struct svc_session **out_session, int fds[4],
		       struct sal_err *err)
{
	struct svc_session *s = calloc(1, sizeof(*s));
	uint64_t bytes;
	uint32_t segment;
	int i, rc;

	*out_session = NULL;
	fds[0] = fds[1] = fds[2] = fds[3] = -1;
	if (!s)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	init(s, server, hello, peer);
	rc = svc_kind_enter(server, s->devices, &s->kind, err);
	if (rc >= 0)
		rc = open_account(s, hello, err);
	if (rc >= 0)
		rc = open_rings(s, hello->minor, fds, err);
	if (rc >= 0)
		rc = fds[3] = svc_session_grow(s, SVC_SEGMENT_BYTES, &segment, &bytes, err);
	if (rc >= 0)
		rc = join_engine(s, hello, err);
	if (rc >= 0) {
		*out_session = s;
		return SAL_OK;
	}
	for (i = 0; i < 4; i++)
		sal_close(&fds[i]);
	svc_kind_leave_soon(server, s->kind);
	s->kind = 0;
	svc_session_destroy(s);
	return rc;
}
