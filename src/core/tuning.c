/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "base/words.h"
#include "core/policy.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS (1000 * NS_PER_US)
#define NS_PER_S (1000 * NS_PER_MS)
#define NS_PER_HOUR (3600 * NS_PER_S)

enum knob {
	KNOB_PAGE_MARGIN,
	KNOB_PASS_BOUND,
	KNOB_ANTICIPATE,
	KNOB_SHORT,
	KNOB_IDLE,
	KNOB_GUESS,
	KNOB_MOVE,
	KNOB_SLOW,
	KNOBS
};

const struct sal_param sal_knobs[] = {
	[KNOB_PAGE_MARGIN] = { "page_margin",
			       "a swap must buy this many times the time its copies take",
			       SAL_UNIT_COUNT, 10, 0, 1000000 },
	[KNOB_PASS_BOUND] = { "pass_bound",
			      "how often a waiting job may be passed over before it blocks others",
			      SAL_UNIT_COUNT, 64, 0, 1000000 },
	[KNOB_ANTICIPATE] = { "anticipate",
			      "longest time a turn is reserved for a job between two iterations",
			      SAL_UNIT_TIME, 5 * NS_PER_MS, 0, 10 * NS_PER_S },
	[KNOB_SHORT] = { "short", "programs expected to be shorter do not wait for a turn",
			 SAL_UNIT_TIME, 50 * NS_PER_US, 0, NS_PER_S },
	[KNOB_IDLE] = { "idle", "a job idle for so long gives up its memory to one that waits",
			SAL_UNIT_TIME, NS_PER_S, 0, 24 * NS_PER_HOUR },
	[KNOB_GUESS] = { "guess", "least time a job of unknown length is taken to need",
			 SAL_UNIT_TIME, 600 * NS_PER_S, 0, 1000 * NS_PER_HOUR },
	[KNOB_MOVE] = { "move", "a job changes its lane at most once in this time", SAL_UNIT_TIME,
			500 * NS_PER_MS, 0, NS_PER_HOUR },
	[KNOB_SLOW] = { "slow", "by how many percent others may slow the first job", SAL_UNIT_COUNT,
			10, 0, 10000 },
	[KNOBS] = { 0 },
};

void sal_tuning_default(struct sal_tuning *tuning)
{
	uint32_t i;

	*tuning = (struct sal_tuning){ .page_bytes_per_s = UINT64_C(12000000000) };
	for (i = 0; i < KNOBS; i++)
		sal_knob_set(tuning, i, sal_knobs[i].standard);
}

uint64_t sal_knob_get(const struct sal_tuning *tuning, uint32_t knob)
{
	switch ((enum knob)knob) {
	case KNOB_PAGE_MARGIN:
		return tuning->page_margin;
	case KNOB_PASS_BOUND:
		return tuning->pass_bound;
	case KNOB_ANTICIPATE:
		return tuning->anticipate_ns;
	case KNOB_SHORT:
		return tuning->short_ns;
	case KNOB_IDLE:
		return tuning->idle_ns;
	case KNOB_GUESS:
		return tuning->guess_ns;
	case KNOB_MOVE:
		return tuning->move_ns;
	case KNOB_SLOW:
		return tuning->slow_percent;
	default:
		return 0;
	}
}

void sal_knob_set(struct sal_tuning *tuning, uint32_t knob, uint64_t value)
{
	switch ((enum knob)knob) {
	case KNOB_PAGE_MARGIN:
		tuning->page_margin = (uint32_t)value;
		break;
	case KNOB_PASS_BOUND:
		tuning->pass_bound = (uint32_t)value;
		break;
	case KNOB_ANTICIPATE:
		tuning->anticipate_ns = value;
		break;
	case KNOB_SHORT:
		tuning->short_ns = value;
		break;
	case KNOB_IDLE:
		tuning->idle_ns = value;
		break;
	case KNOB_GUESS:
		tuning->guess_ns = value;
		break;
	case KNOB_MOVE:
		tuning->move_ns = value;
		break;
	case KNOB_SLOW:
		tuning->slow_percent = (uint32_t)value;
		break;
	default:
		break;
	}
}

const char *sal_param_format(const struct sal_param *param, uint64_t value, char *text, size_t size)
{
	if (param->unit == SAL_UNIT_TIME)
		return sal_duration_format(value, text, size);
	(void)snprintf(text, size, "%" PRIu64, value);
	return text;
}

/* The index of a name in the list, whose last entry has no name; -1: not found. */
static int find(const struct sal_param *list, const char *name, size_t length)
{
	int i;

	for (i = 0; list && list[i].name; i++)
		if (strlen(list[i].name) == length && memcmp(list[i].name, name, length) == 0)
			return i;
	return -1;
}

static void add_names(struct sal_words *words, const struct sal_param *list)
{
	for (; list && list->name; list++)
		sal_words_add(words, "%s%s", words->used ? ", " : "", list->name);
}

static int refuse_name(const struct sal_policy *policy, const char *name, size_t length,
		       struct sal_err *err)
{
	struct sal_words names = { 0 };

	add_names(&names, policy->params);
	add_names(&names, sal_knobs);
	return sal_err_set(err, SAL_NOT_FOUND, "\"%.*s\" cannot be tuned under %s; what can be: %s",
			   length < SAL_PARAM_NAME_BYTES ? (int)length : SAL_PARAM_NAME_BYTES, name,
			   policy->name, names.at);
}

static int parse_count(const char *text, uint64_t *out_value, struct sal_err *err)
{
	if (!*text || text[strspn(text, "0123456789")] != '\0' || strlen(text) > 18)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "\"%.40s\" is no whole number", text);
	*out_value = strtoull(text, NULL, 10);
	return SAL_OK;
}

static int parse_value(const struct sal_param *param, const char *text, uint64_t *out_value,
		       struct sal_err *err)
{
	char min[SAL_UNITS_TEXT], max[SAL_UNITS_TEXT];
	struct sal_err why = { 0 };
	int rc = param->unit == SAL_UNIT_TIME ? sal_duration_parse(text, out_value, &why)
					      : parse_count(text, out_value, &why);

	if (rc < 0)
		return sal_err_set(err, why.code, "%s: %s", param->name, why.text);
	if (*out_value >= param->min && *out_value <= param->max)
		return SAL_OK;
	return sal_err_set(err, SAL_OUT_OF_RANGE, "%s is %s, expected %s to %s", param->name, text,
			   sal_param_format(param, param->min, min, sizeof(min)),
			   sal_param_format(param, param->max, max, sizeof(max)));
}

int sal_change_parse(const struct sal_policy *policy, const char *pair, struct sal_change *out,
		     struct sal_err *err)
{
	const char *equals = strchr(pair, '=');
	const struct sal_param *list = policy->params;
	int index;

	*out = (struct sal_change){ 0 };
	if (!equals)
		return sal_err_set(
			err, SAL_INVALID_ARGUMENT,
			"\"%.60s\" is no change: expected NAME=VALUE, such as guess=10min", pair);
	index = find(list, pair, (size_t)(equals - pair));
	if (index < 0) {
		out->is_knob = true;
		list = sal_knobs;
		index = find(list, pair, (size_t)(equals - pair));
	}
	if (index < 0)
		return refuse_name(policy, pair, (size_t)(equals - pair), err);
	out->index = (uint32_t)index;
	return parse_value(&list[index], equals + 1, &out->value, err);
}
