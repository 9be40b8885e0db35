/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/buffer/exposed.h"

#include <stdatomic.h>
#include <string.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/buffer/prefetch.h"
#include "adaptor/client/client.h"
#include "adaptor/daemon/blocks.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/promise.h"
#include "wire/messages.h"

/* In the frame of the caller, who waits for the promise. */
struct question {
	struct adp_promise *promise; /* owned reference */
	struct sal_exposed_place place;
};

static void on_exposed(void *ctx, const struct adp_answer *answer)
{
	struct question *q = ctx;
	struct adp_promise *promise = q->promise;

	if (answer->code == 0 && answer->tail_size >= sizeof(q->place))
		memcpy(&q->place, answer->tail, sizeof(q->place));
	adp_promise_fulfil(promise, answer->code, answer->text); /* from here on q may be gone */
	adp_promise_unref(promise);
}

/* Asks the daemon where the buffer is. */
static PJRT_Error *ask(PJRT_Buffer *b, struct question *q)
{
	struct adp_conn *conn = b->client->conn;
	struct sal_msg_expose *m = NULL;
	uint64_t request = adp_request(conn, on_exposed, q);

	if (request)
		m = adp_reserve(conn, SAL_MSG_EXPOSE, sizeof(*m));
	if (!m) {
		PJRT_Error *error = request ? adp_unavailable(conn) : adp_no_request(conn);

		if (!request || adp_request_drop(conn, request))
			on_exposed(q, &(struct adp_answer){ .code = SAL_UNAVAILABLE, .text = "" });
		return error;
	}
	m->request = request;
	m->id = b->id;
	adp_send(conn, true);
	return NULL;
}

PJRT_Error *adp_exposed_find(PJRT_Buffer *b)
{
	struct question q = { .promise = NULL };
	struct adp_promise *promise;
	PJRT_Error *error;

	if (b->bytes < SAL_EXPOSE_MIN || !adp_blocks_can(b->client->conn) ||
	    atomic_load(&b->deleted) || atomic_load(&b->is_late))
		return NULL;
	promise = adp_promise_create(b->client->conn);
	if (!promise)
		return adp_out_of_memory();
	q.promise = adp_promise_ref(promise);
	error = adp_prefetch_take_place(b, on_exposed, &q) ? NULL : ask(b, &q);
	if (adp_promise_wait(promise) != 0 && !error)
		error = adp_promise_error(promise);
	adp_promise_unref(promise);
	if (error || q.place.block == 0 || q.place.bytes < b->bytes)
		return error;
	b->host = adp_block_use(b->client->conn, &q.place);
	if (!b->host)
		return NULL;
	atomic_store(&b->block, q.place.block);
	adp_prefetch_learn(b);
	return NULL;
}

static bool is_read(PJRT_Buffer *b)
{
	return atomic_load(&b->block) && atomic_load(&b->pins) > 0;
}

static void send_owed(PJRT_Buffer *b)
{
	if (atomic_exchange(&b->owes_delete, false))
		adp_buffer_send_delete(b);
}

bool adp_exposed_retain(PJRT_Buffer *b)
{
	if (!is_read(b))
		return false;
	atomic_store(&b->owes_delete, true);
	if (!is_read(b)) /* the last pin may have gone before it could see the debt */
		send_owed(b);
	return true;
}

void adp_exposed_unpinned(PJRT_Buffer *b)
{
	if (atomic_load(&b->pins) == 0)
		send_owed(b);
}

void adp_exposed_release(PJRT_Buffer *b)
{
	send_owed(b);
}

bool adp_exposed_is_gone(PJRT_Buffer *b)
{
	return atomic_load(&b->deleted) && atomic_load(&b->block) && !atomic_load(&b->owes_delete);
}
