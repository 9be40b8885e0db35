/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/memory.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/units.h"
#include "core/engine.h"
#include "service/client/session.h"
#include "service/memory/program.h"
#include "service/run/attend.h"
#include "service/run/dispatch.h"
#include "service/server.h"

uint64_t svc_memory_round(const struct svc_server *server, uint64_t bytes)
{
	uint64_t grain = server->grain_bytes;

	return bytes > UINT64_MAX - grain ? bytes : (bytes + grain - 1) / grain * grain;
}

static uint64_t limit_of(const struct svc_session *s)
{
	uint64_t capacity = sal_engine_memory(s->server->engine)->capacity_bytes;
	struct sal_session_view view;
	uint64_t limit;

	sal_engine_view(s->server->engine, s->core, &view);
	limit = view.job.limit_bytes;
	return limit && limit < capacity ? limit : capacity;
}

/* What the session holds: its buffers, promised ones, and what the vendor keeps beyond them. */
static uint64_t held_bytes(const struct svc_session *s)
{
	uint64_t buffers = s->charged_bytes + s->promised_bytes, limit;

	if (s->real.framework_bytes == 0)
		return buffers;
	limit = limit_of(s); /* the vendor's needs are no reason to refuse */
	if (buffers >= limit || s->real.framework_bytes > limit - buffers)
		return buffers > limit ? buffers : limit;
	return buffers + s->real.framework_bytes;
}

static void tell(struct svc_session *s, uint64_t bytes)
{
	sal_engine_need(s->server->engine, svc_now_ns(), s->core, bytes);
}

static bool has_room(const struct svc_session *s, uint64_t want)
{
	struct sal_session_memory memory = sal_session_memory(s->core);

	return memory.place == SAL_RESIDENT && want <= memory.held_bytes;
}

bool svc_memory_is_settling(const struct svc_session *s, uint64_t more_bytes)
{
	return s->freeing_bytes > 0 &&
	       !has_room(s, svc_memory_round(s->server, held_bytes(s) + more_bytes));
}

/*
 * The bytes do not fit beside the session's own iteration, and the iteration waits for the session's
 * Python. The answer comes behind the record that asks for the bytes: each would wait for the other.
 */
static bool would_wait_for_itself(struct svc_session *s, uint64_t want)
{
	const struct svc_execution *x = TAILQ_FIRST(&s->executions);
	uint64_t most = limit_of(s), scratch;

	if (LIST_EMPTY(&s->calls) || !x || !svc_execution_has_started(x))
		return false;
	scratch = x->iteration.needs.ephem_bytes;
	if (scratch < x->shared->pace.scratch_bytes)
		scratch = x->shared->pace.scratch_bytes;
	if (want <= most && scratch <= most - want)
		return false;
	s->refusal = (struct sal_record){ .what = SAL_REFUSE,
					  .session = s->id,
					  .persist_bytes = want,
					  .ephem_bytes = scratch,
					  .value = most };
	return true;
}

enum svc_answer svc_memory_ask(struct svc_session *s, uint64_t more_bytes)
{
	struct sal_session_memory memory = sal_session_memory(s->core);
	uint64_t tracked = memory.tracked_bytes;
	uint64_t want;

	svc_assert_locked(s->server);
	if (__builtin_add_overflow(held_bytes(s), more_bytes, &want))
		want = UINT64_MAX;
	want = svc_memory_round(s->server, want);
	if (has_room(s, want)) {
		if (want > tracked)
			tell(s, want);
		return SVC_YES;
	}
	if (s->freeing_bytes > 0)
		return SVC_LATER;
	s->need_refused = would_wait_for_itself(s, want);
	/* The engine brings a paged-out session back only if the session needs more than before. */
	if (!s->need_refused)
		tell(s, memory.place != SAL_RESIDENT && want <= tracked ? tracked + 1 : want);
	if (s->need_refused)
		return SVC_NO;
	return has_room(s, want) ? SVC_YES : SVC_LATER;
}

void svc_memory_settle(struct svc_session *s)
{
	uint64_t tracked, want;

	svc_assert_locked(s->server);
	if (s->state == SVC_CLOSED)
		return;
	if (s->parked) { /* the parked record needs memory, maybe less than before */
		svc_unpark(s);
		return;
	}
	tracked = sal_session_memory(s->core).tracked_bytes;
	want = svc_memory_round(s->server, held_bytes(s));
	if (want > tracked || tracked - want > s->server->grain_bytes)
		tell(s, want);
}

void svc_memory_publish(struct svc_session *s)
{
	struct sal_holding *holding = s->holding;

	if (!holding || s->state != SVC_OPEN)
		return;
	atomic_store_explicit(&holding->limit_bytes, limit_of(s), memory_order_relaxed);
	atomic_store_explicit(&holding->peak_bytes, s->peak_bytes, memory_order_relaxed);
	/* release: a client that reads persist_bytes also reads the peak that belongs to it */
	atomic_store_explicit(&holding->persist_bytes, s->live_bytes, memory_order_release);
}

/* List the sessions that hold memory, as far as the text has room. */
static int list_holders(const struct svc_server *server, char *text, size_t size)
{
	const struct svc_session *s;
	char bytes[SAL_UNITS_TEXT];
	int used = 0;

	TAILQ_FOREACH(s, &server->sessions, link) {
		uint64_t held_bytes = sal_session_memory(s->core).held_bytes;

		if (held_bytes == 0 || (size_t)used >= size)
			continue;
		used += snprintf(text + used, size - (size_t)used, "%s%s (%" PRIu64 ") %s",
				 used ? ", " : "", s->name, s->id,
				 sal_bytes_format(held_bytes, bytes, sizeof(bytes)));
	}
	return used;
}

static const char *note_on(uint16_t reason)
{
	switch (reason) {
	case SAL_REFUSE_NO_PAGING:
		return " (others wait for memory too, and paging is off)";
	case SAL_REFUSE_PAGE_OUT:
		return " (others wait for memory too, and none of them could be paged out)";
	case SAL_REFUSE_PAGE_IN:
		return " (its own memory is paged out and could not be brought back)";
	default:
		return "";
	}
}

void svc_memory_explain(struct svc_session *s, const struct sal_record *refusal, char *text,
			size_t size)
{
	char all[SAL_UNITS_TEXT], kept[SAL_UNITS_TEXT], scratch[SAL_UNITS_TEXT];
	char most[SAL_UNITS_TEXT], holders[400];
	uint64_t sum = 0;
	bool of_limit = refusal->reason == SAL_REFUSE_LIMIT;

	if (__builtin_add_overflow(refusal->persist_bytes, refusal->ephem_bytes, &sum))
		sum = UINT64_MAX;
	holders[0] = '\0';
	(void)list_holders(s->server, holders, sizeof(holders));
	(void)snprintf(
		text, size,
		"salus: out of memory: %s needs %s (%s kept + %s scratch), and the most it can "
		"have is %s, %s%s. Now held: %s. %s",
		s->name, sal_bytes_format(sum, all, sizeof(all)),
		sal_bytes_format(refusal->persist_bytes, kept, sizeof(kept)),
		sal_bytes_format(refusal->ephem_bytes, scratch, sizeof(scratch)),
		sal_bytes_format(refusal->value, most, sizeof(most)),
		of_limit ? "the job's limit" : "all of the device", note_on(refusal->reason),
		holders[0] ? holders : "nothing",
		of_limit ? "Raise it with `salus set JOB limit=SIZE`, or use a smaller "
			   "batch or model."
			 : "Use a smaller batch or model, or give salusd more with --memory.");
}
