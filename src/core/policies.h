/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policies - the policies there are, for callers of the engine. How one is made is in policy.h.
 */
#ifndef SAL_CORE_POLICIES_H
#define SAL_CORE_POLICIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tuning.h"

/* sal_policy_fifo and all others of the list. */
#define SAL_POLICY(name) extern const struct sal_policy sal_policy_##name;
#include "core/policy/list.h"
#undef SAL_POLICY

/* All policies of core/policy/list.h, in that order, ended by NULL. */
extern const struct sal_policy *const sal_policies[];

/* NULL if there is none of that name. */
const struct sal_policy *sal_policy_find(const char *name);

/* Room for the names of all. */
#define SAL_POLICY_NAMES_BYTES 400

/* Their names with `between` in between, cut to fit; returns text. */
const char *sal_policy_names(const char *between, char *text, size_t size);

/* Its place in sal_policies, from 1; 0 if it is not in there. And back: NULL if there is none. */
uint64_t sal_policy_number(const struct sal_policy *policy);
const struct sal_policy *sal_policy_numbered(uint64_t number);

const char *sal_policy_name(const struct sal_policy *policy);

/* One line for people. */
const char *sal_policy_idea(const struct sal_policy *policy);

/* Its own parameters, ended by one without a name; NULL: none. */
const struct sal_param *sal_policy_params(const struct sal_policy *policy);

/*
 * Does the first session of a lane own it until it ends? Does who had a turn go behind the others?
 */
bool sal_policy_owns_lane(const struct sal_policy *policy);
bool sal_policy_takes_turns(const struct sal_policy *policy);

#endif
