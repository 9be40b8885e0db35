/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why_turn - who runs in a job's lane, which jobs are ahead, and how long they take.
 *
 * With several lanes the answer also says why the job does not run beside those that run.
 *
 * The answer has a time only if the programs of the iterations ahead have run before, and if the
 * policy gives each job ahead one turn.
 */
#include "service/admin/why.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "core/engine.h"
#include "service/admin/admin.h"
#include "service/client/session.h"
#include "service/run/dispatch.h"
#include "service/server.h"

static uint64_t used_ns(const struct svc_why *why, const struct sal_session *core)
{
	struct sal_session_view view;

	sal_engine_view(why->server->engine, core, &view);
	return view.used_ns;
}

static double share_of(const struct svc_why *why, const struct sal_session *core)
{
	const struct svc_session *s;
	uint64_t all_ns = 0;

	TAILQ_FOREACH(s, &why->server->sessions, link)
		all_ns += used_ns(why, s->core);
	return all_ns ? (double)used_ns(why, core) / (double)all_ns : 0;
}

static void add_holder(struct svc_why *why, const struct sal_session *core)
{
	(void)json_array_append_new(
		why->holders,
		json_pack("{s:I, s:o, s:f}", "id", (json_int_t)sal_session_id(core), "name",
			  svc_json_text(svc_why_name(core)), "share", share_of(why, core)));
}

/* The remaining time of an iteration; NAN: the program is new, or takes far too long. */
static double left_s(const struct svc_why *why, struct sal_iteration *running)
{
	uint64_t so_far_ns = svc_why_run_ns(why, running), expected_ns = running->expected_ns;

	if (expected_ns == 0 || so_far_ns > 2 * expected_ns)
		return NAN;
	return so_far_ns < expected_ns ? svc_seconds(expected_ns - so_far_ns) : 0;
}

static void say_who_runs(struct svc_why *why, const struct sal_turn_wait *turn)
{
	struct sal_session_view runs;
	char run[SAL_UNITS_TEXT];

	if (turn->running) {
		sal_engine_view(why->server->engine, turn->running, &runs);
		add_holder(why, turn->running);
		why->estimate_s = left_s(why, runs.running);
		sal_words_add(&why->words, ", where %s (id %" PRIu64 ") has run for %s",
			      svc_why_name(turn->running), sal_session_id(turn->running),
			      sal_duration_format(svc_why_run_ns(why, runs.running), run,
						  sizeof(run)));
	} else if (turn->waits_for_range) {
		why->estimate_s = NAN;
		sal_words_add(&why->words, ", which waits for a neighbour's boundary to get its "
					   "range of memory");
	}
}

/* The jobs that run now: *out_one is one of them. Returns how many. */
static uint32_t count_running(const struct svc_why *why, struct sal_session **out_one)
{
	uint32_t i, count = 0;

	*out_one = NULL;
	for (i = 0; i < SAL_LANES_MAX; i++) {
		struct sal_session *s = sal_engine_running(why->server->engine, i);

		count += s != NULL;
		*out_one = s ? s : *out_one;
	}
	return count;
}

/* who: the job that runs, or "the jobs that run". */
static void say_reason(struct svc_why *why, const struct sal_turn_wait *turn, const char *who)
{
	switch (turn->hold) {
	case SAL_HOLD_NONE:
		break;
	case SAL_HOLD_NO_GAIN:
		sal_words_add(&why->words,
			      "; it would add too little beside %s: %.2fx instead of %.2fx", who,
			      turn->rate_with_milli / 1000.0, turn->rate_milli / 1000.0);
		break;
	case SAL_HOLD_FIRST:
		sal_words_add(&why->words, "; it would slow the first in rank too much: %s", who);
		break;
	case SAL_HOLD_SHARE:
		sal_words_add(&why->words, "; it had more than its share, and waits for %s", who);
		break;
	case SAL_HOLD_SOLO:
		sal_words_add(&why->words, "; it waits until a program that is not understood yet "
					   "has run alone");
		break;
	}
}

const char *svc_why_hold_name(enum sal_hold hold)
{
	static const char *const names[] = {
		[SAL_HOLD_NONE] = NULL,	    [SAL_HOLD_NO_GAIN] = "gain", [SAL_HOLD_FIRST] = "first",
		[SAL_HOLD_SHARE] = "share", [SAL_HOLD_SOLO] = "solo",
	};

	return names[hold];
}

/* Why the job does not run beside those that run. */
static void say_hold(struct svc_why *why, const struct sal_turn_wait *turn)
{
	struct sal_session *one;
	uint32_t count = count_running(why, &one);
	char who[SAL_NAME_BYTES + 32] = "the jobs that run";

	if (turn->hold == SAL_HOLD_NONE)
		return;
	if (count == 1)
		(void)snprintf(who, sizeof(who), "%s (id %" PRIu64 ")", svc_why_name(one),
			       sal_session_id(one));
	else if (turn->hold == SAL_HOLD_FIRST)
		(void)snprintf(who, sizeof(who), "one of those that run");
	say_reason(why, turn, who);
	if (count == 1 && one != turn->running)
		add_holder(why, one);
	if (count != 1 || one != turn->running)
		why->estimate_s = NAN; /* the end of the lane's own iteration is not enough */
}

/* Add the jobs that are ahead to "holders" and to the sentence. */
static void say_ahead(struct svc_why *why, const struct sal_turn_wait *turn, const char *policy)
{
	uint32_t i, listed = turn->ahead_count < SAL_AHEAD_MAX ? turn->ahead_count : SAL_AHEAD_MAX;

	if (turn->ahead_count == 0)
		sal_words_add(&why->words, "; it is next (%s)", policy);
	else if (!turn->is_order_known)
		sal_words_add(&why->words, "; the next turn goes to another job (%s):", policy);
	else if (turn->ahead_count == 1)
		sal_words_add(&why->words, "; one job is ahead of it (%s):", policy);
	else
		sal_words_add(&why->words, "; %u jobs are ahead of it (%s):", turn->ahead_count,
			      policy);
	for (i = 0; i < listed; i++) {
		if (i < WHY_NAMED_MAX)
			sal_words_add(&why->words, "%s %s (id %" PRIu64 ")", i ? "," : "",
				      svc_why_name(turn->ahead[i]), sal_session_id(turn->ahead[i]));
		add_holder(why, turn->ahead[i]);
	}
	if (turn->ahead_count > WHY_NAMED_MAX)
		sal_words_add(&why->words, ", ...");
}

/* The time is known only if each job ahead has one turn. */
static void estimate(struct svc_why *why, const struct sal_turn_wait *turn, bool takes_turns)
{
	bool others_go_first = turn->ahead_count > 0 || turn->running_goes_first;

	if (turn->ahead_ns == UINT64_MAX || !turn->is_order_known ||
	    (others_go_first && !takes_turns))
		why->estimate_s = NAN;
	else
		why->estimate_s += svc_seconds(turn->ahead_ns);
}

void svc_why_ready(struct svc_why *why)
{
	const struct sal_policy *policy = sal_engine_policy(why->server->engine);
	const struct sal_turn_wait *turn = &why->engine.turn;

	why->waits_for = "turn";
	why->estimate_s = 0;
	sal_words_add(&why->words, "ready: it waits for its turn in lane %u", why->core.lane);
	say_who_runs(why, turn);
	if (turn->is_short) {
		sal_words_add(&why->words, "; its program is short and goes ahead of the order.");
		return;
	}
	say_hold(why, turn);
	say_ahead(why, turn, sal_policy_name(policy));
	if (sal_policy_owns_lane(policy) && (turn->ahead_count > 0 || turn->running))
		sal_words_add(&why->words, ", and the first keeps the lane until it ends");
	sal_words_add(&why->words, ".");
	estimate(why, turn, sal_policy_takes_turns(policy));
}
