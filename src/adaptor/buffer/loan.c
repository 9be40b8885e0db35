/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/buffer/loan.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/promise.h"
#include "wire/messages.h"

enum loan_state {
	LENT,
	CONSUMED,
	RETURNED
};

struct lent {
	uint64_t id;
	PJRT_Buffer *buffer; /* borrowed; NULL: the host has deleted it */
};

struct adp_loan {
	_Atomic int refs;
	struct adp_conn *conn; /* owned reference */
	struct adp_promise *promise; /* owned reference */
	pthread_mutex_t lock; /* guards the rest; a buffer in `lent` is not freed meanwhile */
	enum loan_state state;
	size_t count;
	struct lent lent[];
};

struct adp_loan *adp_loan_create(struct adp_conn *conn, struct adp_promise *promise, size_t room)
{
	struct adp_loan *loan = calloc(1, sizeof(*loan) + room * sizeof(*loan->lent));

	if (!loan)
		return NULL;
	atomic_init(&loan->refs, 1);
	loan->conn = adp_conn_ref(conn);
	loan->promise = adp_promise_ref(promise);
	(void)pthread_mutex_init(&loan->lock, NULL);
	return loan;
}

void adp_loan_unref(struct adp_loan *loan)
{
	if (!loan || atomic_fetch_sub_explicit(&loan->refs, 1, memory_order_acq_rel) > 1)
		return;
	(void)pthread_mutex_destroy(&loan->lock);
	adp_promise_unref(loan->promise);
	adp_conn_unref(loan->conn);
	free(loan);
}

struct adp_promise *adp_loan_promise(const struct adp_loan *loan)
{
	return loan->promise;
}

void adp_loan_add(struct adp_loan *loan, PJRT_Buffer *b)
{
	(void)atomic_fetch_add_explicit(&loan->refs, 1, memory_order_relaxed);
	b->lent_at = loan->count;
	loan->lent[loan->count++] = (struct lent){ b->id, b };
	adp_loan_unref(atomic_exchange(&b->loan, loan)); /* it may have come back from another */
}

void adp_loan_consume(struct adp_loan *loan)
{
	(void)pthread_mutex_lock(&loan->lock);
	loan->state = CONSUMED;
	(void)pthread_mutex_unlock(&loan->lock);
}

/* The daemon has these buffers, and no handle refers to them any more. */
static void delete_orphans(struct adp_conn *conn, const uint64_t *ids, size_t count)
{
	struct sal_msg_delete *m;

	if (count == 0)
		return;
	m = adp_reserve(conn, SAL_MSG_DELETE, sal_record_size(sizeof(*m), count * sizeof(*ids)));
	if (!m)
		return;
	m->count = (uint32_t)count;
	memcpy(m + 1, ids, count * sizeof(*ids));
	adp_send(conn, true);
}

void adp_loan_return(struct adp_loan *loan)
{
	uint64_t *orphans = calloc(loan->count + 1, sizeof(*orphans)); /* none: they stay */
	size_t i, n = 0;

	(void)pthread_mutex_lock(&loan->lock);
	loan->state = RETURNED;
	for (i = 0; i < loan->count; i++) {
		if (loan->lent[i].buffer)
			adp_buffer_recover(loan->lent[i].buffer);
		else if (orphans)
			orphans[n++] = loan->lent[i].id;
	}
	(void)pthread_mutex_unlock(&loan->lock);
	delete_orphans(loan->conn, orphans, n);
	free(orphans);
}

bool adp_loan_leave(PJRT_Buffer *b)
{
	struct adp_loan *loan = atomic_exchange(&b->loan, NULL);
	bool is_back;

	if (!loan)
		return false;
	(void)pthread_mutex_lock(&loan->lock);
	is_back = loan->state == RETURNED;
	loan->lent[b->lent_at].buffer = NULL;
	(void)pthread_mutex_unlock(&loan->lock);
	adp_loan_unref(loan);
	return is_back;
}
