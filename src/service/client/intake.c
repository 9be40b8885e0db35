/* SPDX-License-Identifier: Apache-2.0 */
#include "service/client/intake.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile/store/image.h"
#include "service/client/call.h"
#include "service/client/download.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/client/upload.h"
#include "service/idmap.h"
#include "service/ledger.h"
#include "service/memory/buffer.h"
#include "service/memory/host.h"
#include "service/memory/memory.h"
#include "service/memory/program.h"
#include "service/profile/recall.h"
#include "service/run/closing.h"
#include "service/run/dispatch.h"
#include "service/run/tasks.h"
#include "service/server.h"

/* After so many ids of one record, other threads may take the lock. */
#define IDS_AT_ONCE 512
/* So many buffers may fail beyond the limit. Then salusd ends the client. */
#define BEYOND_MAX 4096

enum svc_taken svc_new_buffer(struct svc_session *s, uint64_t id, uint64_t bytes,
			      struct svc_buffer **out_buffer)
{
	struct svc_buffer *b;

	*out_buffer = NULL;
	if (id == 0 || svc_idmap_find(&s->buffers, id))
		return SVC_BROKEN;
	if (s->beyond_count >= BEYOND_MAX)
		return SVC_OVER;
	b = svc_buffer_create(s, bytes);
	if (!b)
		return SVC_NO_MEMORY;
	if (!svc_idmap_add(&s->buffers, id, b)) {
		svc_buffer_unref(b);
		return SVC_NO_MEMORY;
	}
	*out_buffer = b;
	return SVC_TAKEN;
}

void svc_not_found(struct svc_session *s, uint64_t request, const char *what, uint64_t id)
{
	char text[80];
	int n = snprintf(text, sizeof(text), "salusd: there is no %s %" PRIu64, what, id);

	svc_outbox_done(&s->outbox, request, SAL_INVALID_ARGUMENT, text, (size_t)n);
}

/*
 * Other threads may kill the session while they hold the lock. Then the freeing errand uses the
 * session's maps. False: the session was killed.
 */
static bool breathe(struct svc_session *s, uint32_t n) SVC_LOCKED
{
	if (n % IDS_AT_ONCE == IDS_AT_ONCE - 1)
		svc_lock_breathe(s->server);
	return s->state == SVC_OPEN;
}

static enum svc_taken take_delete(struct svc_session *s, const struct sal_msg_delete *m) SVC_LOCKED
{
	const uint64_t *ids = (const uint64_t *)(m + 1);
	uint32_t i;

	for (i = 0; i < m->count && breathe(s, i); i++)
		svc_buffer_unref(svc_idmap_remove(&s->buffers, ids[i]));
	return SVC_TAKEN;
}

/* Make buffers for all outputs. Buffers beyond the limit have already failed. */
static enum svc_taken make_outputs(struct svc_session *s, const struct sal_msg_execute *m,
				   struct svc_execution *x) SVC_LOCKED
{
	const struct sal_program_facts *facts = x->program->shared->facts;
	uint32_t list, i, n = 0;

	for (list = 0; list < x->list_count; list++) {
		uint32_t chip = facts->is_portable ? x->chip : facts->chips[list];

		for (i = 0; i < m->output_count && breathe(s, n); i++, n++) {
			struct svc_buffer *b;
			enum svc_taken taken =
				svc_new_buffer(s, m->first_output + n, facts->outputs[i].bytes, &b);

			if (taken != SVC_TAKEN)
				return taken;
			b->chip = chip;
			if (svc_host_is_kind(s->server, facts->outputs[i].memory_kind))
				svc_host_enter(b);
			x->outputs[x->output_count++] = svc_buffer_ref(b);
		}
	}
	return SVC_TAKEN;
}

/* Outputs take over the memory of donated arguments. The client's ids of these end now. */
static void take_donated(struct svc_session *s, const struct sal_msg_execute *m,
			 struct svc_execution *x) SVC_LOCKED
{
	const uint64_t *ids = (const uint64_t *)(m + 1);
	const struct sal_program_facts *facts = x->program->shared->facts;
	uint32_t list;
	size_t i;

	for (i = 0; i < x->retained_count; i++)
		if ((uint64_t)x->retained[i] < m->arg_count)
			x->is_retained[x->retained[i]] = true;
	for (list = 0; list < x->list_count; list++) {
		for (i = 0; i < facts->donated_count; i++) {
			uint32_t arg = facts->donated[i];

			if (arg >= m->arg_count || x->is_retained[arg])
				continue;
			arg += list * m->arg_count;
			x->donated_ids[x->donated_count] = ids[arg];
			x->donated[x->donated_count++] = arg;
			svc_buffer_unref(svc_idmap_remove(&s->buffers, ids[arg]));
		}
	}
}

/* Take references to all arguments. Returns the first that does not exist, or UINT32_MAX. */
static uint32_t take_args(struct svc_session *s, const struct sal_msg_execute *m,
			  struct svc_execution *x) SVC_LOCKED
{
	const uint64_t *ids = (const uint64_t *)(m + 1);
	uint32_t i, count = x->list_count * m->arg_count;
	const uint32_t *retained = (const uint32_t *)(ids + count);

	for (i = 0; i < count && breathe(s, i); i++) {
		struct svc_buffer *b = svc_idmap_find(&s->buffers, ids[i]);

		if (!b)
			return i;
		x->args[x->arg_count++] = svc_buffer_ref(b);
	}
	for (i = 0; i < m->retained_count; i++)
		x->retained[x->retained_count++] = retained[i];
	return UINT32_MAX;
}

/* Memory of salusd that an execution takes until the execution has ended. */
static uint64_t bytes_of(const struct sal_msg_execute *m)
{
	uint64_t lists = m->header.devices > 1 ? m->header.devices : 1;

	return sizeof(struct svc_execution) + m->header.size +
	       16 * lists * ((uint64_t)m->arg_count + m->output_count);
}

static struct svc_execution *new_execution(struct svc_session *s, const struct sal_msg_execute *m,
					   struct svc_program *p) SVC_LOCKED
{
	struct svc_execution *x = calloc(1, sizeof(*x));
	size_t lists = p->shared->facts->chip_count;

	if (!x)
		return NULL;
	x->session = svc_session_ref(s);
	x->program = svc_program_ref(p);
	x->request = m->request;
	x->calls = (m->flags & SAL_EXECUTE_CALLS) != 0;
	x->is_timed = (m->flags & SAL_EXECUTE_TIMED) != 0;
	x->submit_ns = svc_now_ns();
	x->list_count = (uint32_t)lists;
	x->chip = p->shared->facts->is_portable ? m->header.device : 0;
	x->args = calloc(lists * m->arg_count + 1, sizeof(struct svc_buffer *));
	x->outputs = calloc(lists * m->output_count + 1, sizeof(struct svc_buffer *));
	x->retained = calloc((size_t)m->retained_count + 1, sizeof(*x->retained));
	x->donated = calloc(lists * p->shared->facts->donated_count + 1, sizeof(*x->donated));
	x->donated_ids =
		calloc(lists * p->shared->facts->donated_count + 1, sizeof(*x->donated_ids));
	x->is_retained = calloc((size_t)m->arg_count + 1, sizeof(*x->is_retained));
	STAILQ_INIT(&x->waiters);
	if (x->args && x->outputs && x->retained && x->donated && x->donated_ids && x->is_retained)
		return x;
	svc_execution_free(x);
	return NULL;
}

/*
 * The execution cannot be submitted: fail its outputs and tell the client. No argument was donated.
 */
static void refuse_execution(struct svc_execution *x, int code, const char *text) SVC_LOCKED
{
	size_t i;

	for (i = 0; i < x->output_count; i++)
		if (!x->outputs[i]->is_beyond)
			svc_buffer_fail(x->outputs[i], code, text);
	svc_refuse_request(x->session, x->request, code, text);
	svc_execution_free(x);
}

/* There is never room for a nested execution. */
static void refuse_nested(struct svc_execution *x) SVC_LOCKED
{
	char text[1000];

	svc_memory_explain(x->session, &x->session->refusal, text, sizeof(text));
	refuse_execution(x, SAL_RESOURCE_EXHAUSTED, text);
}

/* An output is beyond a limit: err has the reason. */
static bool is_beyond(const struct svc_execution *x, struct sal_err *err)
{
	size_t i;

	for (i = 0; i < x->output_count && err->code == 0; i++)
		if (x->outputs[i]->is_beyond)
			(void)sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
					  "salusd: too many buffers; `salus limits` tells how many "
					  "a job may have");
		else if (x->outputs[i]->code)
			(void)sal_err_set(err, (enum sal_code)x->outputs[i]->code, "%s",
					  x->outputs[i]->text ? x->outputs[i]->text : "");
	return err->code != 0;
}

/* Charge the execution to the limits of the queue. svc_execution_free gives this back. */
static int take_limits(struct svc_execution *x, uint64_t bytes, struct sal_err *err) SVC_LOCKED
{
	struct svc_session *s = x->session;
	int rc = svc_limit_take(s, SVC_QUEUED_ITERATIONS, 1, err);

	if (rc < 0)
		return rc;
	rc = svc_limit_take(s, SVC_QUEUED_BYTES, bytes, err);
	if (rc < 0) {
		svc_limit_give(s, SVC_QUEUED_ITERATIONS, 1);
		return rc;
	}
	x->is_queue_counted = true;
	x->queued_bytes = bytes;
	s->queued_bytes += bytes;
	return SAL_OK;
}

/* Submit the execution to the engine, or refuse it. */
static void submit(struct svc_session *s, const struct sal_msg_execute *m, struct svc_execution *x,
		   uint32_t missing) SVC_LOCKED
{
	const uint64_t *ids = (const uint64_t *)(m + 1);
	struct sal_err err = { 0 };

	if (s->state != SVC_OPEN) {
		svc_execution_free(x);
	} else if (missing != UINT32_MAX) {
		(void)sal_err_set(&err, SAL_INVALID_ARGUMENT, "salusd: there is no buffer %" PRIu64,
				  ids[missing]);
		refuse_execution(x, err.code, err.text);
	} else if (is_beyond(x, &err) || take_limits(x, bytes_of(m), &err) < 0) {
		refuse_execution(x, err.code, err.text);
	} else {
		take_donated(s, m, x);
		if (!(m->flags & SAL_EXECUTE_NESTED) || !svc_nested_start(x))
			svc_execution_submit(x);
	}
}

static void refuse_unknown(struct svc_session *s, const struct sal_msg_execute *m) SVC_LOCKED
{
	struct sal_err err = { 0 };

	(void)sal_err_set(&err, SAL_INVALID_ARGUMENT, "salusd: there is no program %" PRIu64,
			  m->program);
	svc_refuse_request(s, m->request, err.code, err.text);
}

/* Is there memory for the outputs? A nested execution must not wait for the engine's turn. */
static enum svc_answer ask_for_outputs(struct svc_session *s, const struct sal_msg_execute *m,
				       const struct svc_shared_program *p) SVC_LOCKED
{
	if ((m->flags & SAL_EXECUTE_NESTED) && svc_nested_is_open(s))
		return svc_memory_ask(s, svc_nested_bytes(p));
	if (svc_memory_is_settling(s, p->facts->memory.output > 0
					      ? (uint64_t)p->facts->memory.output *
							p->facts->chip_count
					      : 0))
		return SVC_LATER;
	/* While the record was parked, the session did not tell the engine about freed memory. */
	svc_memory_settle(s);
	return SVC_YES;
}

static enum svc_taken take_execute(struct svc_session *s,
				   const struct sal_msg_execute *m) SVC_LOCKED
{
	struct svc_program *p = svc_idmap_find(&s->programs, m->program);
	const struct sal_program_facts *facts;
	struct svc_execution *x;
	enum svc_answer answer;
	enum svc_taken taken;
	uint32_t missing;

	if (!p) {
		refuse_unknown(s, m);
		return SVC_TAKEN;
	}
	facts = p->shared->facts;
	if (m->output_count != facts->output_count || m->header.device >= s->devices ||
	    (m->header.devices ? m->header.devices : 1) != facts->chip_count)
		return SVC_BROKEN;
	answer = ask_for_outputs(s, m, p->shared);
	if (answer == SVC_LATER)
		return SVC_TAKE_LATER;
	x = new_execution(s, m, p);
	if (!x)
		return SVC_NO_MEMORY;
	missing = take_args(s, m, x);
	taken = make_outputs(s, m, x);
	if (taken != SVC_TAKEN)
		svc_execution_free(x);
	else if (answer == SVC_NO)
		refuse_nested(x);
	else
		submit(s, m, x, missing);
	return taken;
}

/* Charge one task to the limits. Beyond a limit the client gets an error. */
static bool take_compile_limits(struct svc_session *s, uint64_t request, uint64_t bytes) SVC_LOCKED
{
	struct sal_err err = { 0 };

	if (svc_limit_take(s, SVC_COMPILES, 1, &err) >= 0) {
		if (svc_limit_take(s, SVC_COMPILE_BYTES, bytes, &err) >= 0)
			return true;
		svc_limit_give(s, SVC_COMPILES, 1);
	}
	svc_outbox_reply(&s->outbox, request, err.code, err.text, 0);
	return false;
}

/* tasks.c reads the client's bytes, without the lock. */
static enum svc_taken post_task(struct svc_session *s, const struct svc_task *filled) SVC_LOCKED
{
	uint64_t bytes = filled->program_at.size + filled->options_at.size;
	struct svc_task *task;

	if (!take_compile_limits(s, filled->request, bytes))
		return SVC_TAKEN;
	task = malloc(sizeof(*task));
	if (!task) {
		svc_limit_give(s, SVC_COMPILES, 1);
		svc_limit_give(s, SVC_COMPILE_BYTES, bytes);
		return SVC_NO_MEMORY;
	}
	*task = *filled;
	task->session = svc_session_ref(s);
	if (task->image)
		(void)sal_image_ref(task->image);
	svc_tasks_post(s->server, task);
	return SVC_TAKEN;
}

static enum svc_taken take_compile(struct svc_session *s,
				   const struct sal_msg_compile *m) SVC_LOCKED
{
	struct svc_task task = {
		.kind = SVC_TASK_COMPILE,
		.request = m->request,
		.id = m->id,
		.program_at = m->program,
		.options_at = m->options,
	};

	if (!svc_session_place(s, &m->program) || !svc_session_place(s, &m->options) ||
	    svc_idmap_find(&s->programs, m->id))
		return SVC_BROKEN;
	memcpy(task.format, m->format, sizeof(task.format));
	return post_task(s, &task);
}

static enum svc_taken take_load(struct svc_session *s, const struct sal_msg_load *m) SVC_LOCKED
{
	const struct svc_task task = {
		.kind = SVC_TASK_LOAD,
		.request = m->request,
		.id = m->id,
		.program_at = m->blob,
	};

	if (!svc_session_place(s, &m->blob) || svc_idmap_find(&s->programs, m->id))
		return SVC_BROKEN;
	return post_task(s, &task);
}

/* This many bytes may be copied under the lock. */
#define GIVE_MAX 65536u

/* Report the size, and copy the bytes if there is room for them. */
static enum svc_taken give(struct svc_session *s, const struct sal_msg_fetch *m,
			   struct sal_text bytes)
{
	void *into = m->into.size > 0 ? svc_session_place(s, &m->into) : NULL;

	if (into && m->into.size >= bytes.size)
		memcpy(into, bytes.at, bytes.size);
	svc_outbox_reply(&s->outbox, m->request, 0, NULL, bytes.size);
	return SVC_TAKEN;
}

static enum svc_taken take_fetch(struct svc_session *s, const struct sal_msg_fetch *m) SVC_LOCKED
{
	struct svc_program *p = svc_idmap_find(&s->programs, m->id);
	struct svc_task task = {
		.kind = SVC_TASK_FETCH,
		.request = m->request,
		.id = m->id,
		.what = m->what,
		.into = m->into,
	};

	if (!p) {
		svc_outbox_reply(&s->outbox, m->request, SAL_NOT_FOUND,
				 "salusd: there is no such program", 0);
		return SVC_TAKEN;
	}
	if (m->into.size > 0 && !svc_session_place(s, &m->into))
		return SVC_BROKEN;
	task.image = p->shared->image;
	if (m->what == SAL_FETCH_FACTS && task.image->facts.size <= GIVE_MAX)
		return give(s, m, task.image->facts);
	if (m->what == SAL_FETCH_OPTIMIZED && task.image->optimized.size <= GIVE_MAX)
		return give(s, m, task.image->optimized);
	return post_task(s, &task);
}

static enum svc_taken take_unload(struct svc_session *s, const struct sal_msg_unload *m) SVC_LOCKED
{
	struct svc_program *p = svc_idmap_remove(&s->programs, m->id);

	if (p)
		svc_recall_note(s, p->shared->image->key, &p->shared->pace);
	svc_program_unref(p);
	return SVC_TAKEN;
}

static enum svc_taken take(struct svc_session *s, const struct sal_header *record) SVC_LOCKED
{
	if (!sal_submit_is_valid(record))
		return SVC_BROKEN;
	switch (record->type) {
	case SAL_MSG_COMPILE:
		return take_compile(s, (const struct sal_msg_compile *)record);
	case SAL_MSG_LOAD:
		return take_load(s, (const struct sal_msg_load *)record);
	case SAL_MSG_FETCH:
		return take_fetch(s, (const struct sal_msg_fetch *)record);
	case SAL_MSG_UNLOAD:
		return take_unload(s, (const struct sal_msg_unload *)record);
	case SAL_MSG_UPLOAD:
		return svc_take_upload(s, (const struct sal_msg_upload *)record);
	case SAL_MSG_DOWNLOAD:
		return svc_take_download(s, (const struct sal_msg_download *)record);
	case SAL_MSG_EXECUTE:
		return take_execute(s, (const struct sal_msg_execute *)record);
	case SAL_MSG_DELETE:
		return take_delete(s, (const struct sal_msg_delete *)record);
	case SAL_MSG_COPY:
		return svc_take_copy(s, (const struct sal_msg_copy *)record);
	case SAL_MSG_AWAIT:
		return svc_take_await(s, (const struct sal_msg_await *)record);
	case SAL_MSG_OPERANDS:
		return svc_take_operands(s, (const struct sal_msg_operands *)record);
	case SAL_MSG_ANSWER:
		return svc_take_answer(s, (const struct sal_msg_answer *)record);
	case SAL_MSG_EXPOSE:
		return svc_take_expose(s, (const struct sal_msg_expose *)record);
	default:
		return SVC_BROKEN;
	}
}

enum svc_taken svc_intake(struct svc_session *s, const struct sal_header *record) SVC_LOCKED
{
	enum svc_taken taken;

	s->is_taken_from = true;
	taken = take(s, record);
	s->is_taken_from = false;
	svc_session_try_end(s); /* the session may have been killed meanwhile */
	return taken;
}
