/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/buffer/late.h"

#include <stdlib.h>
#include <string.h>

#include "adaptor/buffer/layouts.h"
#include "adaptor/client/client.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/promise.h"
#include "wire/messages.h"

bool adp_late_is_possible(PJRT_Client *client, const struct adp_shape *shape)
{
	return adp_sub_byte_bits(shape->type) == 0 && adp_is_host_platform(client) &&
	       adp_host_bytes(shape->type, shape->dims, shape->rank) <= SAL_INLINE_MAX &&
	       adp_conn_is_serving(client->conn);
}

void *adp_late_keep(PJRT_Buffer *b)
{
	b->ready = adp_promise_create(b->client->conn);
	b->host = b->ready ? aligned_alloc(64, (size_t)(b->bytes + 64) / 64 * 64) : NULL;
	if (!b->host)
		return NULL;
	adp_promise_bind(b->ready, b);
	adp_promise_fulfil(b->ready, 0, NULL);
	atomic_store(&b->is_late, true);
	return b->host;
}

/* The lock is held: other threads that need the buffer wait until its record is in the ring. */
static PJRT_Error *send_upload(PJRT_Buffer *b)
{
	size_t dims = b->rank * sizeof(int64_t);
	struct sal_msg_upload *m =
		adp_reserve(b->client->conn, SAL_MSG_UPLOAD,
			    sal_record_size(sizeof(*m), dims + (size_t)b->bytes));

	if (!m)
		return adp_unavailable(b->client->conn);
	m->header.device = (uint8_t)b->memory->device->number;
	m->header.memory = adp_memory_number(b->memory);
	m->id = b->id;
	m->type = b->type;
	m->rank = (uint32_t)b->rank;
	m->size = b->bytes;
	if (dims > 0)
		memcpy(m + 1, b->dims, dims);
	memcpy((char *)(m + 1) + dims, b->host, (size_t)b->bytes);
	adp_send(b->client->conn, false); /* the record that needs the buffer wakes the daemon */
	return NULL;
}

PJRT_Error *adp_late_send(PJRT_Buffer *b)
{
	PJRT_Error *error = NULL;

	if (!atomic_load(&b->is_late))
		return NULL;
	(void)pthread_mutex_lock(&b->host_lock);
	if (atomic_load(&b->is_late)) {
		error = send_upload(b);
		if (!error)
			atomic_store(&b->is_late, false);
	}
	(void)pthread_mutex_unlock(&b->host_lock);
	return error;
}

bool adp_late_forget(PJRT_Buffer *b)
{
	bool was_late;

	if (!atomic_load(&b->is_late))
		return false;
	(void)pthread_mutex_lock(&b->host_lock);
	was_late = atomic_exchange(&b->is_late, false);
	(void)pthread_mutex_unlock(&b->host_lock);
	return was_late;
}
