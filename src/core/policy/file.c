/* SPDX-License-Identifier: Apache-2.0 */
#include "core/policy/file.h"

#include <string.h>

#include "core/trace.h"

_Static_assert(SAL_POLICY_NAME_BYTES <= SAL_TRACE_POLICY_BYTES, "a trace holds the whole name");

static int check_layout(const struct sal_policy_file *file, struct sal_err *err)
{
	const struct {
		const char *name;
		uint32_t is, expected;
	} sizes[] = {
		{ "sal_policy", file->policy_bytes, sizeof(struct sal_policy) },
		{ "sal_session", file->session_bytes, sizeof(struct sal_session) },
		{ "sal_lane", file->lane_bytes, sizeof(struct sal_lane) },
		{ "sal_tuning", file->tuning_bytes, sizeof(struct sal_tuning) },
	};
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i].is != sizes[i].expected)
			return sal_err_set(err, SAL_FAILED_PRECONDITION,
					   "it is built for a struct %s of %u bytes, expected %u: "
					   "build it again with the headers of this version",
					   sizes[i].name, sizes[i].is, sizes[i].expected);
	return SAL_OK;
}

/* Is it a text for one line of a terminal, shorter than `size`? */
static bool is_line(const char *text, size_t size)
{
	size_t i;

	for (i = 0; text && i < size && text[i] >= ' ' && text[i] <= '~'; i++)
		;
	return text && i > 0 && i < size && text[i] == '\0';
}

/* Names are words of a command line: no '/', '=' or ','. */
static bool is_name(const char *text, size_t size)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";

	return is_line(text, size) && text[strspn(text, letters)] == '\0' && *text != '-';
}

static int check_words(const struct sal_policy *policy, struct sal_err *err)
{
	if (!is_name(policy->name, SAL_POLICY_NAME_BYTES))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "its policy's name must have 1 to %d of a-z, 0-9, _ and -",
				   SAL_POLICY_NAME_BYTES - 1);
	if (!is_line(policy->idea, SAL_POLICY_IDEA_BYTES))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "the idea of policy %s must be one line of ASCII with less than "
				   "%d bytes",
				   policy->name, SAL_POLICY_IDEA_BYTES);
	if (sal_policy_find(policy->name))
		return sal_err_set(err, SAL_ALREADY_EXISTS,
				   "its policy is called %s, and so is a built-in one: choose "
				   "another name",
				   policy->name);
	return SAL_OK;
}

static bool is_knob(const char *name)
{
	const struct sal_param *knob;

	for (knob = sal_knobs; knob->name; knob++)
		if (strcmp(knob->name, name) == 0)
			return true;
	return false;
}

static int check_param(const struct sal_policy *policy, const struct sal_param *p,
		       struct sal_err *err)
{
	if (!is_name(p->name, SAL_PARAM_NAME_BYTES) || is_knob(p->name))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "a parameter of policy %s has no good name: 1 to %d of a-z, "
				   "0-9, _ and -, and not the name of a knob",
				   policy->name, SAL_PARAM_NAME_BYTES - 1);
	if (!is_line(p->about, SAL_POLICY_IDEA_BYTES))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "parameter %s of policy %s must say what it is, in one line of "
				   "ASCII with less than %d bytes",
				   p->name, policy->name, SAL_POLICY_IDEA_BYTES);
	if ((p->unit != SAL_UNIT_COUNT && p->unit != SAL_UNIT_TIME) || p->min > p->standard ||
	    p->standard > p->max)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "parameter %s of policy %s has no unit, or a default outside "
				   "its range",
				   p->name, policy->name);
	return SAL_OK;
}

/* Has one before it the same name? */
static bool is_twice(const struct sal_param *params, uint32_t index)
{
	uint32_t i;

	for (i = 0; i < index; i++)
		if (strcmp(params[i].name, params[index].name) == 0)
			return true;
	return false;
}

static int check_params(const struct sal_policy *policy, struct sal_err *err)
{
	uint32_t i;
	int rc = SAL_OK;

	for (i = 0; rc >= 0 && policy->params && policy->params[i].name; i++) {
		if (i == SAL_PARAMS_MAX)
			return sal_err_set(err, SAL_INVALID_ARGUMENT,
					   "policy %s has more than %d parameters", policy->name,
					   SAL_PARAMS_MAX);
		rc = check_param(policy, &policy->params[i], err);
	}
	while (rc >= 0 && i-- > 0)
		if (is_twice(policy->params, i))
			return sal_err_set(err, SAL_INVALID_ARGUMENT,
					   "policy %s has two parameters called %s", policy->name,
					   policy->params[i].name);
	return rc;
}

int sal_policy_file_check(const struct sal_policy_file *file, struct sal_err *err)
{
	int rc;

	if (file->abi != SAL_POLICY_ABI)
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "it is built for version %u of policies, expected %u", file->abi,
				   SAL_POLICY_ABI);
	rc = check_layout(file, err);
	if (rc < 0)
		return rc;
	if (!file->policy)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "it names no policy");
	rc = check_words(file->policy, err);
	if (rc >= 0)
		rc = sal_policy_check(file->policy, err);
	return rc < 0 ? rc : check_params(file->policy, err);
}
