/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list - all policies, in the order in which people see them.
 *
 * SAL_POLICY(fair) stands for core/policy/fair.c, which defines sal_policy_fair. This is the only
 * list: the build takes the sources from this file, and help, messages and tests take the names.
 * Define SAL_POLICY before you include this file. Add new policies at the end.
 */
SAL_POLICY(fifo)
SAL_POLICY(srtf)
SAL_POLICY(pack)
SAL_POLICY(fair)
SAL_POLICY(rr)
SAL_POLICY(priority)
SAL_POLICY(las)
SAL_POLICY(mix)
SAL_POLICY(deadline)
