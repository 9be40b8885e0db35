/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusal - an iteration that does not start: why the engine refused it, in a text for people, and
 * what the client gets back. Also how a client learns of the end of an iteration.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "core/engine.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/idmap.h"
#include "service/memory/buffer.h"
#include "service/memory/memory.h"
#include "service/run/dispatch.h"
#include "service/server.h"

static void explain_deadline(const struct svc_execution *x, char *text, size_t size)
{
	const struct svc_session *s = x->session;
	const struct sal_record *refusal = &x->decision.refusal;
	char time[SAL_UNITS_TEXT], deadline[SAL_UNITS_TEXT], load[64] = "";
	struct sal_session_view view;

	sal_engine_view(s->server->engine, s->core, &view);
	if (refusal->reason == SAL_REFUSE_LOAD)
		(void)snprintf(load, sizeof(load), ", and all deadlines need %" PRIu64 " %% of it",
			       refusal->value / 10000);
	(void)snprintf(text, size,
		       "salus: a deadline that cannot be met: an iteration of %s takes %s of the "
		       "device, its deadline is %s%s. Use a smaller batch or model, raise the "
		       "deadline with `salus set JOB deadline=TIME`%s.",
		       s->name, sal_duration_format(x->iteration.expected_ns, time, sizeof(time)),
		       sal_duration_format(view.job.deadline_ns, deadline, sizeof(deadline)), load,
		       load[0] ? ", or run fewer jobs with deadlines" : "");
}

/* An argument that failed: its reason is what the user has to know. NULL: none did. */
static const struct svc_buffer *find_failed(const struct svc_execution *x)
{
	size_t i;

	for (i = 0; i < x->arg_count; i++)
		if (x->args[i]->code)
			return x->args[i];
	return NULL;
}

enum sal_code svc_refusal_explain(const struct svc_execution *x, char *text, size_t size)
{
	const struct sal_record *refusal = &x->decision.refusal;
	const struct svc_buffer *failed = find_failed(x);

	if (failed) {
		(void)snprintf(text, size, "%s", failed->text ? failed->text : "");
		return (enum sal_code)failed->code;
	}
	if (refusal->reason != SAL_REFUSE_DEADLINE && refusal->reason != SAL_REFUSE_LOAD) {
		svc_memory_explain(x->session, refusal, text, size);
		return SAL_RESOURCE_EXHAUSTED;
	}
	explain_deadline(x, text, size);
	return SAL_DEADLINE_EXCEEDED;
}

/* An id may be in use again, or there may be no memory for it: then the buffer ends. */
void svc_execution_give_back(struct svc_execution *x)
{
	struct svc_session *s = x->session;
	size_t i;

	if (!s->takes_back || s->state != SVC_OPEN)
		return;
	for (i = 0; i < x->donated_count; i++) {
		struct svc_buffer *b = x->args[x->donated[i]];

		if (svc_idmap_add(&s->buffers, x->donated_ids[i], b))
			(void)svc_buffer_ref(b);
	}
	x->is_refused = true;
}

void svc_refuse_request(struct svc_session *s, uint64_t request, int code, const char *text)
{
	if (s->takes_back)
		svc_outbox_refused(&s->outbox, request, code, text);
	else
		svc_outbox_done(&s->outbox, request, code, text, strlen(text));
}

/* No iteration of the session runs while it is paged, so the moments of the paging are stable. */
static void report_times(struct svc_execution *x)
{
	const struct svc_session *s = x->session;
	struct sal_times times = {
		.submit_ns = x->submit_ns,
		.grant_ns = x->grant_ns,
		.start_ns = x->start_ns,
		.end_ns = x->end_ns,
		.out_from_ns = s->paged_out.from_ns,
		.out_until_ns = s->paged_out.until_ns,
		.in_from_ns = s->paged_in.from_ns,
		.in_until_ns = s->paged_in.until_ns,
		.lane = x->lane,
	};

	svc_outbox_done(&x->session->outbox, x->request, 0, &times, sizeof(times));
}

void svc_execution_report(struct svc_execution *x)
{
	const char *why = x->text ? x->text : "";

	if (x->is_timed && x->code == 0)
		report_times(x);
	else if (x->is_refused)
		svc_outbox_refused(&x->session->outbox, x->request, x->code, why);
	else
		svc_outbox_done(&x->session->outbox, x->request, x->code, x->code ? why : NULL,
				x->code ? strlen(why) : 0);
}
