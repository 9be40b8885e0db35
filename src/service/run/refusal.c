/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusal - a text for people: why the engine refused an iteration.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/units.h"
#include "core/engine.h"
#include "service/client/session.h"
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

enum sal_code svc_refusal_explain(const struct svc_execution *x, char *text, size_t size)
{
	const struct sal_record *refusal = &x->decision.refusal;

	if (refusal->reason != SAL_REFUSE_DEADLINE && refusal->reason != SAL_REFUSE_LOAD) {
		svc_memory_explain(x->session, refusal, text, size);
		return SAL_RESOURCE_EXHAUSTED;
	}
	explain_deadline(x, text, size);
	return SAL_DEADLINE_EXCEEDED;
}
