/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policies - the list of all policies, for callers of the engine. policy.h tells how to write one.
 */
#ifndef SAL_CORE_POLICIES_H
#define SAL_CORE_POLICIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/tuning.h"

/* Declares sal_policy_fifo and all other policies of the list. */
#define SAL_POLICY(name) extern const struct sal_policy sal_policy_##name;
#include "core/policy/list.h"
#undef SAL_POLICY

/* All policies of core/policy/list.h, in that order, ended by NULL. */
extern const struct sal_policy *const sal_policies[];

/* Returns NULL if no policy has that name. */
const struct sal_policy *sal_policy_find(const char *name);

/* Enough bytes for the names of all policies. */
#define SAL_POLICY_NAMES_BYTES 400

/* Writes all names, separated by `between`, cut to fit. Returns text. */
const char *sal_policy_names(const char *between, char *text, size_t size);

/* Place of a policy in sal_policies, from 1 (0: not in the list); policy at a place, or NULL. */
uint64_t sal_policy_number(const struct sal_policy *policy);
const struct sal_policy *sal_policy_numbered(uint64_t number);

/*
 * Has the policy all that it needs, and not more memory than there is? If not,
 * -SAL_INVALID_ARGUMENT and a sentence.
 */
int sal_policy_check(const struct sal_policy *policy, struct sal_err *err);

const char *sal_policy_name(const struct sal_policy *policy);

/* One line that tells people what the policy does. */
const char *sal_policy_idea(const struct sal_policy *policy);

/* The policy's parameters; the last entry has no name. NULL: no parameters. */
const struct sal_param *sal_policy_params(const struct sal_policy *policy);

/*
 * owns_lane: does the first session of a lane own the lane until the session ends?
 * takes_turns: does a session go behind the others after its turn?
 */
bool sal_policy_owns_lane(const struct sal_policy *policy);
bool sal_policy_takes_turns(const struct sal_policy *policy);

#endif
