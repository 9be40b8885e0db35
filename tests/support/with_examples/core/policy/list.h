/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list - the policies of the tree, and the examples: for the suites that every policy goes through.
 * This folder comes before src/ where a test is built with the examples.
 */
#include "../../../../../src/core/policy/list.h"
SAL_POLICY(slice)
SAL_POLICY(lottery)
SAL_POLICY(mlfq)
