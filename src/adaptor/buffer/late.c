/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/buffer/late.h"

#include <stdlib.h>
#include <string.h>

#include "adaptor/buffer/layouts.h"
#include "adaptor/client/client.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/promise.h"
#include "wire/messages.h"

bool adp_late_is_possible(PJRT_Client *client, const struct adp_shape *shape)
{
	return adp_sub_byte_bits(shape->type) == 0 && adp_is_host_platform(client) &&
	       adp_host_bytes(shape->type, shape->dims, shape->rank) <= SAL_INLINE_MAX &&
	       adp_conn_is_serving(client->conn);
}

/* False for lack of memory. */
static bool make_late(PJRT_Buffer *b)
{
	b->ready = adp_promise_create(b->client->conn);
	if (!b->ready)
		return false;
	adp_promise_bind(b->ready, b);
	adp_promise_fulfil(b->ready, 0, NULL);
	atomic_store(&b->is_late, true);
	return true;
}

void *adp_late_keep(PJRT_Buffer *b)
{
	b->host = aligned_alloc(64, (size_t)(b->bytes + 64) / 64 * 64);
	return b->host && make_late(b) ? b->host : NULL;
}

PJRT_Error *adp_view_create(const PJRT_Client_CreateViewOfDeviceBuffer_Args *args,
			    const struct adp_shape *shape, PJRT_Buffer **out_buffer)
{
	PJRT_Client *client = args->client;
	PJRT_Buffer *b = adp_buffer_create(client, adp_next_id(client->conn, 1), shape, NULL);

	if (!b)
		return adp_out_of_memory();
	b->is_view = true;
	b->host = args->device_buffer_ptr;
	if (!make_late(b)) {
		(void)adp_buffer_forget(b); /* the daemon does not know it */
		(void)adp_Buffer_Destroy(&(PJRT_Buffer_Destroy_Args){ .buffer = b });
		return adp_out_of_memory();
	}
	b->on_view_end = args->on_delete_callback;
	b->on_view_end_arg = args->on_delete_callback_arg;
	*out_buffer = b;
	return NULL;
}

void adp_view_end(PJRT_Buffer *b)
{
	if (b->on_view_end)
		b->on_view_end(b->host, b->on_view_end_arg);
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
