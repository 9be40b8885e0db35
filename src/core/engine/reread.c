/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reread - requests of a policy to the engine: read all ranks again, and call the policy's alarm
 * after some device time.
 *
 * A policy knows only its state. The state is a field of the engine, so its address leads to the
 * engine.
 */
#include "core/engine/engine_impl.h"

#include "base/container.h"

static struct sal_engine *engine_of(void *state)
{
	return SAL_CONTAINER_OF(state, struct sal_engine, state);
}

void sal_policy_reread(void *state)
{
	engine_of(state)->reread = true;
}

void sal_policy_wake_after(void *state, uint64_t device_ns)
{
	struct sal_engine *e = engine_of(state);

	e->alarm_ns = device_ns > UINT64_MAX - e->device_ns ? UINT64_MAX : e->device_ns + device_ns;
}

void sal_reread_ranks(struct sal_engine *e)
{
	struct sal_session *s;

	e->reread = false;
	TAILQ_FOREACH(s, &e->sessions, session_link)
		sal_refile(e, s);
}

void sal_count_device_time(struct sal_engine *e, uint64_t used_ns)
{
	e->device_ns += used_ns;
	if (e->device_ns < e->alarm_ns)
		return;
	e->alarm_ns = UINT64_MAX;
	if (e->policy->alarm)
		e->policy->alarm(e->state);
}
