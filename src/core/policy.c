/* SPDX-License-Identifier: Apache-2.0 */
#include "core/policy.h"

#include <stdio.h>
#include <string.h>

const struct sal_policy *const sal_policies[] = {
#define SAL_POLICY(name) &sal_policy_##name,
#include "core/policy/list.h"
#undef SAL_POLICY
	NULL,
};

const struct sal_policy *sal_policy_find(const char *name)
{
	const struct sal_policy *const *p;

	for (p = sal_policies; *p; p++)
		if (strcmp((*p)->name, name) == 0)
			return *p;
	return NULL;
}

const char *sal_policy_names(const char *between, char *text, size_t size)
{
	const struct sal_policy *const *p;
	size_t used = 0;

	text[0] = '\0';
	for (p = sal_policies; *p && used < size; p++)
		used += (size_t)snprintf(text + used, size - used, "%s%s",
					 p == sal_policies ? "" : between, (*p)->name);
	return text;
}

uint64_t sal_policy_number(const struct sal_policy *policy)
{
	uint64_t i;

	for (i = 0; sal_policies[i]; i++)
		if (sal_policies[i] == policy)
			return i + 1;
	return 0;
}

const struct sal_policy *sal_policy_numbered(uint64_t number)
{
	uint64_t i;

	for (i = 0; sal_policies[i]; i++)
		if (i + 1 == number)
			return sal_policies[i];
	return NULL;
}

int sal_policy_check(const struct sal_policy *policy, struct sal_err *err)
{
	if (!policy->rank || (policy->params && !policy->set))
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "policy %s has no %s", policy->name,
				   policy->rank ? "set" : "rank");
	if (policy->slot_size > SAL_SLOT_BYTES || policy->state_size > SAL_STATE_BYTES ||
	    policy->lane_slot_size > SAL_LANE_SLOT_BYTES)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "policy %s wants slots of %zu and %zu and a state of %zu bytes; "
				   "the most are %d, %d and %d",
				   policy->name, policy->slot_size, policy->lane_slot_size,
				   policy->state_size, SAL_SLOT_BYTES, SAL_LANE_SLOT_BYTES,
				   SAL_STATE_BYTES);
	return SAL_OK;
}

const char *sal_policy_name(const struct sal_policy *policy)
{
	return policy->name;
}

const char *sal_policy_idea(const struct sal_policy *policy)
{
	return policy->idea;
}

const struct sal_param *sal_policy_params(const struct sal_policy *policy)
{
	return policy->params;
}

bool sal_policy_owns_lane(const struct sal_policy *policy)
{
	return policy->owns_lane;
}

bool sal_policy_takes_turns(const struct sal_policy *policy)
{
	return policy->takes_turns;
}
