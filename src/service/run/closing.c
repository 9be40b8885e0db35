/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/closing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log/log.h"
#include "core/engine.h"
#include "service/client/call.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/idmap.h"
#include "service/memory/buffer.h"
#include "service/memory/freeing.h"
#include "service/memory/paging.h"
#include "service/memory/program.h"
#include "service/memory/stream.h"
#include "service/profile/recall.h"
#include "service/run/attend.h"
#include "service/run/dispatch.h"
#include "service/server.h"

/* The lock is released after so many references. */
#define RELEASE_MAX 4096

bool svc_session_release_queued(struct svc_session *s)
{
	struct svc_execution *x;
	size_t i, n = 0;

	TAILQ_FOREACH(x, &s->executions, link) {
		if (atomic_load_explicit(&x->state, memory_order_relaxed) != SVC_QUEUED ||
		    !x->program) /* released already */
			continue;
		if (n >= RELEASE_MAX)
			return true;
		n += x->arg_count + x->output_count + 1;
		for (i = 0; i < x->output_count; i++)
			svc_buffer_fail(x->outputs[i], SAL_CANCELLED, "the session has ended");
		svc_execution_release(x);
	}
	return false;
}

/* Remember the paces of the programs that are in use now, by this session or by others. */
static void note_paces(struct svc_session *s) SVC_LOCKED
{
	const struct svc_program_keys *keys = &s->recollection.programs;
	uint32_t i;

	for (i = 0; i < keys->count; i++) {
		const struct svc_shared_program *p =
			svc_shared_program_find(s->server, keys->at[i].bytes);

		if (p)
			svc_recall_note(s, keys->at[i].bytes, &p->pace);
	}
}

void svc_session_kill(struct svc_session *s, const char *why)
{
	struct svc_server *server = s->server;

	svc_assert_locked(server);
	if (s->state != SVC_OPEN)
		return;
	s->state = SVC_CLOSING;
	svc_outbox_goodbye(&s->outbox, why);
	svc_outbox_close(&s->outbox);
	svc_calls_end(s);
	note_paces(s);
	svc_recall_end(s);
	svc_attend_end(s);
	sal_engine_pause(server->engine, svc_now_ns(), s->core);
	if (s->socket >= 0)
		(void)shutdown(s->socket, SHUT_RDWR); /* a client that is alive sees the end */
	svc_freeing_post(s);
}

/* Is anything under way: granted iterations, errands, decisions? */
static bool is_busy(const struct svc_session *s)
{
	const struct svc_execution *x;

	TAILQ_FOREACH(x, &s->executions, link)
		if (atomic_load_explicit(&x->state, memory_order_relaxed) != SVC_QUEUED)
			return true;
	return s->is_carried || s->is_posted || s->is_taken_from || s->decision.verdicts != 0;
}

void svc_session_try_end(struct svc_session *s)
{
	struct svc_server *server = s->server;
	struct svc_execution *x;

	svc_assert_locked(server);
	if (s->state != SVC_CLOSING || is_busy(s))
		return;
	SAL_ASSERT(TAILQ_EMPTY(&s->all) && s->charged_bytes == 0 && s->promised_bytes == 0);
	s->state = SVC_CLOSED;
	/* From here on the engine does not use the queued iterations. */
	sal_engine_close(server->engine, svc_now_ns(), s->core);
	while ((x = TAILQ_FIRST(&s->executions))) {
		TAILQ_REMOVE(&s->executions, x, link);
		server->queued--;
		svc_execution_free(x);
	}
	svc_paging_forget(s);
	svc_stream_leave(s);
	TAILQ_REMOVE(&server->sessions, s, link);
	(void)svc_idmap_remove(&server->by_id, s->id);
	sal_log_info("session", "closed id=%" PRIu64 " name=%s", s->id, s->name);
	svc_session_unref(s);
}

const struct svc_execution *svc_session_running(const struct svc_session *s)
{
	const struct svc_execution *x = TAILQ_FIRST(&s->executions); /* they start in order */

	return x && svc_execution_has_started(x) ? x : NULL;
}
