/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why_turn - who runs in a job's lane, who goes before it, and how long that takes.
 *
 * A time is named only if the iterations that come first have been seen before, and if the policy
 * lets each of them go once.
 */
#include "service/admin/why.h"

#include <inttypes.h>
#include <math.h>

#include "base/units.h"
#include "core/engine.h"
#include "core/lane.h"
#include "service/admin/admin.h"
#include "service/client/session.h"
#include "service/run/dispatch.h"
#include "service/server.h"

static const char *name_of(const struct sal_session *core)
{
	return ((const struct svc_session *)core->user)->name;
}

static double share_of(const struct svc_why *why, const struct sal_session *core)
{
	const struct svc_session *s;
	uint64_t all_ns = 0;

	TAILQ_FOREACH(s, &why->server->sessions, link)
		all_ns += s->core->used_ns;
	return all_ns ? (double)core->used_ns / (double)all_ns : 0;
}

static void add_holder(struct svc_why *why, const struct sal_session *core)
{
	(void)json_array_append_new(why->holders,
				    json_pack("{s:I, s:o, s:f}", "id", (json_int_t)core->id, "name",
					      svc_json_text(name_of(core)), "share",
					      share_of(why, core)));
}

uint64_t svc_why_run_ns(const struct svc_why *why, const struct sal_session *core)
{
	const struct svc_execution *x = svc_execution_of(core->running);

	return svc_execution_has_started(x) && why->now_ns > x->start_ns ? why->now_ns - x->start_ns
									 : 0;
}

/* The rest of its running iteration; NAN if the program is new, or runs longer than ever. */
static double left_s(const struct svc_why *why, const struct sal_session *core)
{
	uint64_t so_far_ns = svc_why_run_ns(why, core), expected_ns = core->running->expected_ns;

	if (expected_ns == 0 || so_far_ns > 2 * expected_ns)
		return NAN;
	return so_far_ns < expected_ns ? svc_seconds(expected_ns - so_far_ns) : 0;
}

/* How long the next turn of a ready session takes. */
static double turn_s(const struct svc_why *why, const struct sal_session *core)
{
	const struct sal_iteration *head = TAILQ_FIRST(&core->queue);

	if (!head) /* its turn is reserved */
		return core->reserved_until_ns > why->now_ns
			       ? svc_seconds(core->reserved_until_ns - why->now_ns)
			       : 0;
	return head->expected_ns ? svc_seconds(head->expected_ns) : NAN;
}

/* Put the sessions ahead of it into "holders" and the sentence, and add up how long they take. */
static uint32_t count_ahead(struct svc_why *why, const struct sal_lane *lane,
			    struct sal_words *names)
{
	const struct sal_session *core;
	uint32_t count = 0;

	for (core = sal_lane_first(lane); core && core != why->s->core;
	     core = sal_lane_next(core)) {
		if (count < WHY_NAMED_MAX)
			sal_words_add(names, "%s%s (id %" PRIu64 ")", count ? ", " : "",
				      name_of(core), core->id);
		if (core != lane->running)
			add_holder(why, core);
		why->estimate_s += turn_s(why, core);
		count++;
	}
	return count;
}

static void say_who_runs(struct svc_why *why, const struct sal_lane *lane)
{
	char run[SAL_UNITS_TEXT];

	if (lane->running) {
		add_holder(why, lane->running);
		why->estimate_s = left_s(why, lane->running);
		sal_words_add(&why->words, ", where %s (id %" PRIu64 ") has run for %s",
			      name_of(lane->running), lane->running->id,
			      sal_duration_format(svc_why_run_ns(why, lane->running), run,
						  sizeof(run)));
	} else if (lane->shifted) {
		why->estimate_s = NAN;
		sal_words_add(&why->words, ", which waits for a neighbour's boundary to get its "
					   "range of memory");
	}
}

void svc_why_ready(struct svc_why *why)
{
	const struct sal_session *core = why->s->core;
	const struct sal_policy *policy = sal_engine_policy(why->server->engine);
	const struct sal_lane *lane = core->lane;
	struct sal_words names = { 0 };
	uint32_t ahead;

	why->waits_for = "turn";
	why->estimate_s = 0;
	sal_words_add(&why->words, "ready: it waits for its turn in lane %u", lane->index);
	say_who_runs(why, lane);
	if (core->in_express) {
		sal_words_add(&why->words, "; its program is short and goes ahead of the order.");
		return;
	}
	ahead = count_ahead(why, lane, &names);
	if (ahead == 0)
		sal_words_add(&why->words, "; under %s it is next", policy->name);
	else
		sal_words_add(&why->words, "; under %s %u go%s before it: %s%s", policy->name,
			      ahead, ahead == 1 ? "es" : "", names.at,
			      ahead > WHY_NAMED_MAX ? ", ..." : "");
	if (policy->owns_lane && (ahead > 0 || lane->running))
		sal_words_add(&why->words, ", and the first keeps the lane until it ends");
	sal_words_add(&why->words, ".");
	if (!policy->takes_turns &&
	    (ahead > 0 || (lane->running && sal_session_before(lane->running, core))))
		why->estimate_s = NAN; /* they may be granted again and again */
}
