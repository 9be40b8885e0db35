/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/buffer/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "adaptor/buffer/exposed.h"
#include "adaptor/buffer/host.h"
#include "adaptor/buffer/late.h"
#include "adaptor/buffer/layouts.h"
#include "adaptor/buffer/loan.h"
#include "adaptor/buffer/prefetch.h"
#include "adaptor/buffer/upload.h"
#include "adaptor/client/client.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/event.h"
#include "adaptor/promise.h"
#include "wire/messages.h"

/* Deleting so many bytes wakes the daemon. */
#define WAKE_BYTES (1 << 20)
/* Of an upload this large we ask at once whether the daemon accepted it. */
#define ASK_BYTES (1 << 20)

uint64_t adp_host_bytes(PJRT_Buffer_Type type, const int64_t *dims, size_t rank)
{
	uint64_t n = sal_type_bytes(type);
	size_t i;

	for (i = 0; i < rank; i++)
		if (__builtin_mul_overflow(n, (uint64_t)dims[i], &n))
			return UINT64_MAX;
	return n;
}

static uint64_t device_bytes(const struct adp_shape *shape)
{
	uint64_t bytes = adp_host_bytes(shape->type, shape->dims, shape->rank);
	unsigned bits = adp_sub_byte_bits(shape->type);

	return bits ? (bytes * bits + 7) / 8
		    : bytes; /* one element a byte on the host, packed on the device */
}

static void count(PJRT_Buffer *b)
{
	int64_t live, peak;

	if (adp_memory_is_host(b->memory) || atomic_exchange(&b->counted, true))
		return;
	live = atomic_fetch_add(&b->client->live_bytes, (int64_t)b->bytes) + (int64_t)b->bytes;
	peak = atomic_load(&b->client->peak_bytes);
	while (live > peak && !atomic_compare_exchange_weak(&b->client->peak_bytes, &peak, live))
		;
}

static void uncount(PJRT_Buffer *b)
{
	if (atomic_exchange(&b->counted, false))
		(void)atomic_fetch_sub(&b->client->live_bytes, (int64_t)b->bytes);
}

PJRT_Buffer *adp_buffer_create(PJRT_Client *client, uint64_t id, const struct adp_shape *shape,
			       struct adp_promise *take_ready)
{
	PJRT_Buffer *b = malloc(sizeof(*b) + 2 * shape->rank * sizeof(int64_t));
	size_t i;

	if (!b) {
		if (take_ready)
			adp_promise_unref(take_ready);
		return NULL;
	}
	*b = (PJRT_Buffer){
		.client = adp_client_ref(client),
		.id = id,
		.type = shape->type,
		.rank = shape->rank,
		.dims = (int64_t *)(b + 1),
		.minor_to_major = (int64_t *)(b + 1) + shape->rank,
		.bytes = device_bytes(shape),
		.memory = shape->memory,
		.ready = take_ready,
		.is_output = take_ready != NULL,
	};
	(void)pthread_mutex_init(&b->host_lock, NULL);
	for (i = 0; i < shape->rank; i++) {
		b->dims[i] = shape->dims[i];
		b->minor_to_major[i] = shape->minor_to_major ? shape->minor_to_major[i]
							     : (int64_t)(shape->rank - 1 - i);
	}
	count(b);
	if (take_ready)
		adp_promise_bind(take_ready, b);
	return b;
}

void adp_buffer_fail(PJRT_Buffer *b)
{
	atomic_store(&b->failed, true);
	uncount(b);
}

bool adp_buffer_forget(PJRT_Buffer *b)
{
	if (atomic_exchange(&b->deleted, true))
		return false;
	uncount(b);
	return true;
}

void adp_buffer_recover(PJRT_Buffer *b)
{
	if (!atomic_load(&b->failed))
		count(b);
	atomic_store(&b->deleted, false);
}

/* The host deletes it. True if the daemon has to be told. */
static bool forget_for_good(PJRT_Buffer *b)
{
	return adp_buffer_forget(b) || (adp_loan_leave(b) && adp_buffer_forget(b));
}

/* Tells the daemon. This must not fail; a dead daemon holds no buffer. */
void adp_buffer_send_delete(PJRT_Buffer *b)
{
	PJRT_Client *client = b->client;
	struct sal_msg_delete *m;
	uint64_t unseen;

	m = adp_reserve(b->client->conn, SAL_MSG_DELETE, sizeof(*m) + sizeof(uint64_t));
	if (!m)
		return;
	m->count = 1;
	memcpy(m + 1, &b->id, sizeof(b->id));
	unseen = atomic_fetch_add(&client->deleted_bytes, b->bytes) + b->bytes;
	if (unseen >= WAKE_BYTES)
		atomic_store(&client->deleted_bytes, 0);
	adp_send(client->conn, unseen >= WAKE_BYTES);
}

static void delete_buffer(PJRT_Buffer *b)
{
	if (forget_for_good(b) && !adp_late_forget(b) && !adp_exposed_retain(b))
		adp_buffer_send_delete(b);
}

PJRT_Error *adp_Buffer_Destroy(PJRT_Buffer_Destroy_Args *args)
{
	if (!args->buffer)
		return NULL;
	delete_buffer(args->buffer);
	(void)adp_loan_leave(args->buffer);
	if (args->buffer->ready) {
		adp_promise_unbind(args->buffer->ready, args->buffer);
		adp_promise_unref(args->buffer->ready);
	}
	adp_prefetch_drop(args->buffer);
	adp_exposed_release(args->buffer);
	adp_host_free(args->buffer);
	(void)pthread_mutex_destroy(&args->buffer->host_lock);
	adp_client_unref(args->buffer->client);
	free(args->buffer);
	return NULL;
}

PJRT_Error *adp_Buffer_Delete(PJRT_Buffer_Delete_Args *args)
{
	delete_buffer(args->buffer);
	return NULL;
}

PJRT_Error *adp_Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args *args)
{
	args->is_deleted = atomic_load(&args->buffer->deleted);
	return NULL;
}

PJRT_Error *adp_Buffer_ElementType(PJRT_Buffer_ElementType_Args *args)
{
	args->type = args->buffer->type;
	return NULL;
}

PJRT_Error *adp_Buffer_Dimensions(PJRT_Buffer_Dimensions_Args *args)
{
	args->dims = args->buffer->dims;
	args->num_dims = args->buffer->rank;
	return NULL;
}

PJRT_Error *adp_Buffer_UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args *args)
{
	args->unpadded_dims = args->buffer->dims;
	args->num_dims = args->buffer->rank;
	return NULL;
}

PJRT_Error *adp_Buffer_DynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args *args)
{
	args->dynamic_dim_indices = NULL;
	args->num_dynamic_dims = 0;
	return NULL;
}

PJRT_Error *adp_Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args *args)
{
	memset(&args->layout, 0, sizeof(args->layout));
	args->layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
	args->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
	args->layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
	args->layout.tiled.minor_to_major = args->buffer->minor_to_major;
	args->layout.tiled.minor_to_major_size = args->buffer->rank;
	return NULL;
}

PJRT_Error *adp_Buffer_OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args *args)
{
	args->on_device_size_in_bytes = (size_t)args->buffer->bytes;
	return NULL;
}

PJRT_Error *adp_Buffer_Device(PJRT_Buffer_Device_Args *args)
{
	args->device = args->buffer->memory->device;
	return NULL;
}

PJRT_Error *adp_Buffer_Memory(PJRT_Buffer_Memory_Args *args)
{
	args->memory = args->buffer->memory;
	return NULL;
}

/* On a CPU this process can have the bytes, see host.h: JAX then makes arrays of them in place. */
PJRT_Error *adp_Buffer_IsOnCpu(PJRT_Buffer_IsOnCpu_Args *args)
{
	args->is_on_cpu = adp_is_host_platform(args->buffer->client);
	return NULL;
}

static void on_awaited(void *ctx, const struct adp_answer *answer)
{
	struct adp_promise *promise = ctx;

	adp_promise_fulfil(promise, answer->code, answer->text);
	adp_promise_unref(promise);
}

/*
 * The daemon does not answer uploads and copies, so ask it. This must not fail: the promise takes
 * the error.
 */
static void ask_when_ready(PJRT_Buffer *b, struct adp_promise *promise)
{
	struct adp_conn *conn = b->client->conn;
	struct sal_msg_await *m = NULL;
	uint64_t request;

	if (atomic_load(&b->deleted)) {
		adp_promise_fulfil(promise, 0, NULL);
		return;
	}
	request = adp_request(conn, on_awaited, adp_promise_ref(promise));
	if (request)
		m = adp_reserve(conn, SAL_MSG_AWAIT, sizeof(*m));
	if (!m) {
		if (!request || adp_request_drop(conn, request))
			on_awaited(promise,
				   &(struct adp_answer){
					   .code = SAL_UNAVAILABLE,
					   .text = "salus: salusd cannot be asked any more",
				   });
		return;
	}
	m->request = request;
	m->id = b->id;
	adp_send(conn, true);
}

/* False for lack of memory. */
static bool make_ready(PJRT_Buffer *b)
{
	b->ready = adp_promise_create(b->client->conn);
	if (b->ready)
		adp_promise_bind(b->ready, b);
	return b->ready != NULL;
}

void adp_buffer_sent(PJRT_Buffer *b)
{
	if (b->bytes >= ASK_BYTES && make_ready(b))
		ask_when_ready(b, b->ready);
}

struct adp_promise *adp_buffer_ready(PJRT_Buffer *b)
{
	struct adp_promise *ready;
	bool is_new;

	(void)pthread_mutex_lock(&b->host_lock);
	is_new = !b->ready && make_ready(b);
	ready = b->ready ? adp_promise_ref(b->ready) : NULL;
	(void)pthread_mutex_unlock(&b->host_lock);
	if (is_new)
		ask_when_ready(b, ready);
	return ready;
}

PJRT_Error *adp_buffer_await(PJRT_Buffer *b)
{
	struct adp_promise *ready = adp_buffer_ready(b);
	PJRT_Error *error = NULL;

	if (ready && adp_promise_wait(ready) != 0)
		error = adp_promise_error(ready);
	adp_promise_unref(ready);
	return error;
}

PJRT_Error *adp_Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args *args)
{
	PJRT_Buffer *b = args->buffer;
	struct adp_promise *ready = adp_buffer_ready(b);

	if (!ready)
		return adp_out_of_memory();
	/*
	 * A caller that asks about an upload is going to wait for it. JAX asks about every output.
	 */
	args->event = adp_event_create(ready, !b->is_output);
	return args->event ? NULL : adp_out_of_memory();
}

static PJRT_Error *copy_known(PJRT_Buffer *from, PJRT_Memory *memory, PJRT_Buffer **out)
{
	struct adp_conn *conn = from->client->conn;
	struct adp_shape shape = { from->type, from->rank, from->dims, memory,
				   from->minor_to_major };
	struct sal_msg_copy *m;
	PJRT_Error *error;
	PJRT_Buffer *to;

	if (atomic_load(&from->deleted))
		return adp_error(SAL_INVALID_ARGUMENT, "Buffer has been deleted or donated.");
	if (memory->device->client != from->client)
		return adp_error(SAL_UNIMPLEMENTED, "salus: a copy to a device of another client");
	error = adp_late_send(from);
	if (error)
		return error;
	to = adp_buffer_create(from->client, adp_next_id(conn, 1), &shape, NULL);
	if (!to)
		return adp_out_of_memory();
	m = adp_reserve(conn, SAL_MSG_COPY, sizeof(*m));
	if (!m) {
		(void)adp_Buffer_Destroy(&(PJRT_Buffer_Destroy_Args){ .buffer = to });
		return adp_unavailable(conn);
	}
	m->header.device = (uint8_t)memory->device->number;
	m->header.memory = adp_memory_number(memory);
	m->from = from->id;
	m->to = to->id;
	adp_send(conn, true);
	adp_buffer_sent(to);
	*out = to;
	return NULL;
}

static PJRT_Error *copy_to(PJRT_Buffer *from, PJRT_Memory *memory, PJRT_Buffer **out)
{
	PJRT_Buffer *known = NULL;
	PJRT_Error *error;

	if (!from->is_view)
		return copy_known(from, memory, out);
	error = adp_view_copy(from, &known);
	if (!error)
		error = copy_known(known, memory, out);
	(void)adp_Buffer_Destroy(&(PJRT_Buffer_Destroy_Args){ .buffer = known });
	return error;
}

PJRT_Error *adp_Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args *args)
{
	PJRT_Memory *memory =
		adp_memory_of_kind(args->dst_device, args->buffer->memory->facts->kind);

	return copy_to(args->buffer, memory, &args->dst_buffer);
}

PJRT_Error *adp_Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args *args)
{
	return copy_to(args->buffer, args->dst_memory, &args->dst_buffer);
}
