/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order - proves that the comparator of a sort is a strict weak order.
 *
 * XLA:CPU gives the comparator to std::sort. If the comparator is no strict weak order (`a <= b`, a
 * random answer), std::sort reads and writes outside of the array. The proof uses the structure of
 * the comparator, not samples:
 *
 *   A sort of n arrays has a comparator of 2n parameters; 2i and 2i+1 are the elements a and b of
 *   array i. A key is a value that is computed from one side alone, by instructions that give the
 *   same result each time. If the same key is computed from both sides, the two are compared, and
 *   the type has a total order, then the outcome is one of three: less, equal, greater.
 *
 *   The comparator is a strict weak order if two conditions hold. Its keys can be arranged so that
 *   the first key that is not equal decides, whatever the later keys are, with opposite answers for
 *   less and greater. And the answer is no when all keys are equal. The proof evaluates the
 *   comparator with three values (yes, no, maybe): an answer that is not maybe holds whatever the
 *   rest of the comparator computes.
 *
 * Comparisons of floating-point numbers in which NaN is unordered are no total order. A stable sort
 * may use one as its only key: merge sort stays inside the array with any comparator.
 */
#ifndef SAL_COMPILE_ORDER_H
#define SAL_COMPILE_ORDER_H

#include "compile/hlo.h"

/* -SAL_INVALID_ARGUMENT with the reason, which continues the words "its comparator ". */
int sal_order_check(const struct sal_hlo_module *module,
		    const struct sal_hlo_computation *comparator, bool is_stable,
		    struct sal_err *err);

#endif
