/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune - changes knobs of the engine and parameters of the policy while sessions run.
 */
#include "core/engine/engine_impl.h"

/* Every rank may have changed: read all ranks and decide again. */
static void decide_again(struct sal_engine *e)
{
	sal_reread_ranks(e);
	e->dirty_mask |= e->memory.open_mask;
	e->memory_changed = true;
	e->lanes_over = true;
	e->lanes_freed = true;
	e->search_ns = 0;
	sal_settle(e);
}

void sal_engine_set_tuning(struct sal_engine *e, uint64_t now_ns, const struct sal_tuning *tuning)
{
	uint32_t i;

	e->tuning = *tuning;
	sal_begin(e, now_ns, SAL_SET_TUNING, NULL, NULL, 0);
	if (e->claimant && tuning->page_bytes_per_s == 0)
		sal_drop_claim(e);
	if (e->policy->tune)
		e->policy->tune(e->state, tuning);
	for (i = 0; i < SAL_LANES_MAX; i++)
		sal_watch_lane(e, &e->lanes[i]);
	decide_again(e);
}

static uint32_t count_params(const struct sal_policy *policy)
{
	uint32_t count = 0;

	while (policy->params && count < SAL_PARAMS_MAX && policy->params[count].name)
		count++;
	return count;
}

void sal_set_param_defaults(struct sal_engine *e)
{
	uint32_t i, count = count_params(e->policy);

	for (i = 0; i < count; i++) {
		e->params[i] = e->policy->params[i].standard;
		e->policy->set(e->state, i, e->params[i]);
	}
}

/* Start a SAL_SET_PARAM event. The record's `iteration` is the index of the parameter. */
static void begin_set_param(struct sal_engine *e, uint64_t now_ns, uint32_t param, uint64_t value)
{
	struct sal_record r = {
		.iteration = param,
		.value = value,
		.what = SAL_SET_PARAM,
		.lane = SAL_NO_LANE,
	};

	sal_pass_time(e, now_ns);
	r.now_ns = e->now_ns;
	if (e->emit && e->emit_events)
		e->emit(e->emit_ctx, &r, NULL, NULL);
}

void sal_engine_set_param(struct sal_engine *e, uint64_t now_ns, uint32_t param, uint64_t value)
{
	if (param >= count_params(e->policy))
		return;
	e->params[param] = value;
	begin_set_param(e, now_ns, param, value);
	e->policy->set(e->state, param, value);
	decide_again(e);
}

void sal_engine_change(struct sal_engine *e, uint64_t now_ns, const struct sal_change *change)
{
	struct sal_tuning tuning = e->tuning;

	if (change->is_knob) {
		sal_knob_set(&tuning, change->index, change->value);
		sal_engine_set_tuning(e, now_ns, &tuning);
	} else {
		sal_engine_set_param(e, now_ns, change->index, change->value);
	}
}

const struct sal_tuning *sal_engine_tuning(const struct sal_engine *e)
{
	return &e->tuning;
}

uint64_t sal_engine_param(const struct sal_engine *e, uint32_t param)
{
	return param < SAL_PARAMS_MAX ? e->params[param] : 0;
}
