/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake - what each record of a client means.
 *
 * The record is our own copy and its shape is valid; what it names is not checked yet. A client that names
 * what it may not (memory outside its arena, an id that is taken, sizes that do not add up) has broken the rules
 * and is disconnected. One that uses what does not exist gets an error, as from any plugin.
 */
#include "service/intake.h"

#include <stdlib.h>
#include <string.h>

/* What one client may have waiting to be compiled or loaded. */
#define JOB_BYTES_MAX (UINT64_C(512) << 20)
#define JOBS_MAX 64

static bool take_delete(struct svc_session *s, const struct sal_msg_delete *m)
{
	const uint64_t *ids = (const uint64_t *)(m + 1);
	uint32_t i;

	for (i = 0; i < m->count; i++)
		svc_buffer_unref(svc_idmap_remove(&s->buffers, ids[i]));
	return true;
}

/* --- executions ---------------------------------------------------------------------------------------- */

/* Buffers for all outputs; on failure none is left. */
static bool make_outputs(struct svc_session *s, const struct sal_msg_execute *m,
			 struct svc_execution *x)
{
	uint32_t i;

	for (i = 0; i < m->output_count; i++) {
		uint64_t bytes = x->program->shared->facts->outputs[i].bytes;
		struct svc_buffer *b = svc_new_buffer(s, m->first_output + i, bytes);

		if (!b)
			return false;
		x->outputs[x->output_count++] = svc_buffer_ref(b);
	}
	return true;
}

/* Arguments that an output takes over leave the client's hands now. */
static void take_donated(struct svc_session *s, const struct sal_msg_execute *m,
			 struct svc_execution *x)
{
	const uint64_t *ids = (const uint64_t *)(m + 1);
	const struct sal_program_facts *facts = x->program->shared->facts;
	size_t i, k;

	for (i = 0; i < facts->donated_count; i++) {
		bool kept = facts->donated[i] >= m->arg_count;

		for (k = 0; k < x->keep_count && !kept; k++)
			kept = x->keep[k] == (int64_t)facts->donated[i];
		if (kept)
			continue;
		x->donated[x->donated_count++] = facts->donated[i];
		svc_buffer_unref(svc_idmap_remove(&s->buffers, ids[facts->donated[i]]));
	}
}

/* References to all arguments; the first that does not exist, or UINT32_MAX. */
static uint32_t take_args(struct svc_session *s, const struct sal_msg_execute *m,
			  struct svc_execution *x)
{
	const uint64_t *ids = (const uint64_t *)(m + 1);
	const uint32_t *keep = (const uint32_t *)(ids + m->arg_count);
	uint32_t i;

	for (i = 0; i < m->arg_count; i++) {
		struct svc_buffer *b = svc_idmap_find(&s->buffers, ids[i]);

		if (!b)
			return i;
		x->args[x->arg_count++] = svc_buffer_ref(b);
	}
	for (i = 0; i < m->keep_count; i++)
		x->keep[x->keep_count++] = keep[i];
	return UINT32_MAX;
}

static struct svc_execution *new_execution(struct svc_session *s, const struct sal_msg_execute *m,
					   struct svc_program *p)
{
	struct svc_execution *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->session = svc_session_ref(s);
	x->program = svc_program_ref(p);
	x->request = m->request;
	x->args = calloc((size_t)m->arg_count + 1, sizeof(struct svc_buffer *));
	x->outputs = calloc((size_t)m->output_count + 1, sizeof(struct svc_buffer *));
	x->keep = calloc((size_t)m->keep_count + 1, sizeof(*x->keep));
	x->donated = calloc(p->shared->facts->donated_count + 1, sizeof(*x->donated));
	STAILQ_INIT(&x->readers);
	if (x->args && x->outputs && x->keep && x->donated)
		return x;
	svc_execution_free(x);
	return NULL;
}

/* It uses what does not exist: its outputs fail. */
static void refuse_execution(struct svc_session *s, const struct sal_msg_execute *m,
			     struct svc_execution *x, uint32_t missing)
{
	const uint64_t *ids = (const uint64_t *)(m + 1);
	size_t i;

	for (i = 0; i < x->output_count; i++)
		svc_buffer_fail(x->outputs[i], SAL_INVALID_ARGUMENT,
				"computed from a buffer that does not exist");
	svc_no_such(s, m->request, "buffer", ids[missing]);
	svc_execution_free(x);
}

static bool take_execute(struct svc_session *s, const struct sal_msg_execute *m)
{
	struct svc_program *p = svc_idmap_find(&s->programs, m->program);
	struct svc_execution *x;
	uint32_t missing;

	if (!p) {
		svc_no_such(s, m->request, "program", m->program);
		return true;
	}
	if (m->output_count != p->shared->facts->output_count)
		return false;
	x = new_execution(s, m, p);
	if (!x)
		return false;
	missing = take_args(s, m, x);
	if (!make_outputs(s, m, x)) {
		svc_execution_free(x);
		return false;
	}
	if (missing != UINT32_MAX) {
		refuse_execution(s, m, x, missing);
		return true;
	}
	take_donated(s, m, x);
	svc_execution_submit(x);
	return true;
}

/* --- programs ------------------------------------------------------------------------------------------ */

/* A copy of bytes in the arena; NULL if the place is not the client's. */
static void *copy_out(struct svc_session *s, const struct sal_place_in_arena *place)
{
	const void *at = svc_session_place(s, place);
	void *copy = at ? malloc((size_t)place->size + 1) : NULL;

	if (copy)
		memcpy(copy, at, (size_t)place->size);
	return copy;
}

/* True if it has enough waiting already; it is told so. */
static bool is_too_much(struct svc_session *s, uint64_t request, uint64_t bytes)
{
	if (bytes <= JOB_BYTES_MAX && s->job_bytes <= JOB_BYTES_MAX - bytes &&
	    s->job_count < JOBS_MAX)
		return false;
	svc_outbox_reply(&s->outbox, request, SAL_RESOURCE_EXHAUSTED,
			 "salusd: too many or too large programs of this job wait to be compiled",
			 0);
	return true;
}

static struct svc_job *new_job(struct svc_session *s, enum svc_job_kind kind, uint64_t request,
			       uint64_t id)
{
	struct svc_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->kind = kind;
	job->session = svc_session_ref(s);
	job->request = request;
	job->id = id;
	return job;
}

static void drop_job(struct svc_job *job)
{
	svc_session_unref(job->session);
	free(job->program);
	free(job->options);
	free(job);
}

static bool take_compile(struct svc_session *s, const struct sal_msg_compile *m)
{
	struct svc_job *job;

	if (!svc_session_place(s, &m->program) || !svc_session_place(s, &m->options))
		return false;
	if (is_too_much(s, m->request, m->program.size + m->options.size))
		return true;
	job = new_job(s, SVC_JOB_COMPILE, m->request, m->id);
	if (!job)
		return false;
	memcpy(job->format, m->format, sizeof(job->format));
	job->program = copy_out(s, &m->program);
	job->options = copy_out(s, &m->options);
	job->program_size = (size_t)m->program.size;
	job->option_size = (size_t)m->options.size;
	if (!job->program || !job->options || svc_idmap_find(&s->programs, m->id)) {
		drop_job(job);
		return false;
	}
	svc_server_post(s->server, job);
	return true;
}

static bool take_load(struct svc_session *s, const struct sal_msg_load *m)
{
	struct svc_job *job;

	if (!svc_session_place(s, &m->blob))
		return false;
	if (is_too_much(s, m->request, m->blob.size))
		return true;
	job = new_job(s, SVC_JOB_LOAD, m->request, m->id);
	if (!job)
		return false;
	job->program = copy_out(s, &m->blob);
	job->program_size = (size_t)m->blob.size;
	if (!job->program || svc_idmap_find(&s->programs, m->id)) {
		drop_job(job);
		return false;
	}
	svc_server_post(s->server, job);
	return true;
}

/* Tell the size, and copy the bytes if there is room for them. */
static bool give(struct svc_session *s, const struct sal_msg_fetch *m, struct sal_text bytes)
{
	void *into = m->into.size > 0 ? svc_session_place(s, &m->into) : NULL;

	if (m->into.size > 0 && !into)
		return false;
	if (into && m->into.size >= bytes.size)
		memcpy(into, bytes.at, bytes.size);
	svc_outbox_reply(&s->outbox, m->request, 0, NULL, bytes.size);
	return true;
}

static bool take_fetch(struct svc_session *s, const struct sal_msg_fetch *m)
{
	struct svc_program *p = svc_idmap_find(&s->programs, m->id);
	struct svc_job *job;

	if (!p) {
		svc_outbox_reply(&s->outbox, m->request, SAL_NOT_FOUND,
				 "salusd: there is no such program", 0);
		return true;
	}
	if (m->what == SAL_FETCH_FACTS)
		return give(s, m, p->shared->image->facts);
	if (m->what == SAL_FETCH_OPTIMIZED)
		return give(s, m, p->shared->image->optimized);
	if (m->into.size > 0 && !svc_session_place(s, &m->into))
		return false;
	if (is_too_much(s, m->request, 0))
		return true;
	job = new_job(s, SVC_JOB_SEAL, m->request, m->id);
	if (!job)
		return false;
	job->into = m->into;
	job->image = sal_image_ref(p->shared->image);
	svc_server_post(s->server, job);
	return true;
}

static bool take_unload(struct svc_session *s, const struct sal_msg_unload *m)
{
	struct svc_program *p = svc_idmap_remove(&s->programs, m->id);

	svc_program_unref(s->server, p);
	return true;
}
static enum svc_taken taken(bool ok)
{
	return ok ? SVC_TAKEN : SVC_BROKEN;
}

enum svc_taken svc_intake(struct svc_session *s, const struct sal_header *record)
{
	if (!sal_submit_is_valid(record))
		return SVC_BROKEN;
	switch (record->type) {
	case SAL_MSG_COMPILE:
		return taken(take_compile(s, (const struct sal_msg_compile *)record));
	case SAL_MSG_LOAD:
		return taken(take_load(s, (const struct sal_msg_load *)record));
	case SAL_MSG_FETCH:
		return taken(take_fetch(s, (const struct sal_msg_fetch *)record));
	case SAL_MSG_UNLOAD:
		return taken(take_unload(s, (const struct sal_msg_unload *)record));
	case SAL_MSG_UPLOAD:
		return svc_take_upload(s, (const struct sal_msg_upload *)record);
	case SAL_MSG_DOWNLOAD:
		return taken(svc_take_download(s, (const struct sal_msg_download *)record));
	case SAL_MSG_EXECUTE:
		return taken(take_execute(s, (const struct sal_msg_execute *)record));
	case SAL_MSG_DELETE:
		return taken(take_delete(s, (const struct sal_msg_delete *)record));
	case SAL_MSG_COPY:
		return svc_take_copy(s, (const struct sal_msg_copy *)record);
	case SAL_MSG_AWAIT:
		return taken(svc_take_await(s, (const struct sal_msg_await *)record));
	default:
		return SVC_BROKEN;
	}
}
