/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order - proves that the comparator of a sort is a strict weak order.
 *
 * XLA:CPU gives the comparator to std::sort, which reads and writes outside of the array if it is none (`a <= b`,
 * a random answer). The proof is on the structure, not on samples:
 *
 *   A sort of n arrays has a comparator of 2n parameters; 2i and 2i+1 are the elements a and b of array i. A key is a
 *   value computed from one side alone by instructions that give the same result each time. If the same key is
 *   computed from both sides and the two are compared, and the type has a total order, the outcome is one of
 *   three: less, equal, greater.
 *
 *   The comparator is a strict weak order if its keys can be put in an order in which the first one that is not equal
 *   decides, whatever all later ones are, with opposite answers for less and greater; and if the answer is no when
 *   all are equal. This is tried with logic of three values (yes, no, maybe): an answer that is not maybe holds
 *   whatever the rest of the comparator computes.
 *
 * Comparisons of floating-point numbers in which NaN is unordered are no total order. With a stable sort they are
 * taken, as the only key: merge sort stays inside the array whatever the comparator says.
 */
#ifndef SAL_COMPILE_ORDER_H
#define SAL_COMPILE_ORDER_H

#include "compile/hlo.h"

/* -SAL_INVALID_ARGUMENT with the reason, after "its comparator ". */
int sal_order_check(const struct sal_hlo_module *module,
		    const struct sal_hlo_computation *comparator, bool is_stable,
		    struct sal_err *err);

#endif
