/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order - the trees that sort sessions, and moving a session in them after it changed.
 */
#ifndef SAL_CORE_ORDER_H
#define SAL_CORE_ORDER_H

#include "core/lane.h"
#include "core/session.h"

RB_PROTOTYPE(sal_ready_tree, sal_session, ready_link, sal_order_by_rank)
RB_PROTOTYPE(sal_turn_tree, sal_session, turn_link, sal_order_by_rank)
RB_PROTOTYPE(sal_resident_tree, sal_session, resident_link, sal_order_by_rank)
RB_PROTOTYPE(sal_waiting_tree, sal_session, waiting_link, sal_order_waiting)
RB_PROTOTYPE(sal_size_tree, sal_session, size_link, sal_order_by_size)

int sal_order_by_rank(const struct sal_session *a, const struct sal_session *b);
int sal_order_waiting(const struct sal_session *a, const struct sal_session *b);
int sal_order_by_size(const struct sal_session *a, const struct sal_session *b);

#endif
