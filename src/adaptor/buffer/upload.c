/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/buffer/upload.h"

#include <string.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/buffer/late.h"
#include "adaptor/buffer/layouts.h"
#include "adaptor/buffer/strided.h"
#include "adaptor/client/client.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/range.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/event.h"
#include "adaptor/promise.h"
#include "wire/messages.h"

struct host_array {
	const char *data;
	size_t element;
	size_t rank;
	const int64_t *dims;
	const int64_t *strides; /* in bytes; NULL: dense, row-major */
};

static void copy_in(const struct host_array *a, uint64_t size, void *to)
{
	int64_t dense[SAL_RANK_MAX], stride = (int64_t)a->element;
	size_t i;

	if (size == 0)
		return;
	if (!a->strides) {
		memcpy(to, a->data, (size_t)size);
		return;
	}
	for (i = a->rank; i-- > 0; stride *= a->dims[i])
		dense[i] = stride;
	adp_copy_strided(&(struct adp_strided){ .rank = a->rank,
						.element = a->element,
						.dims = a->dims,
						.from = a->strides,
						.to = dense },
			 a->data, to);
}

/* from is NULL if the bytes ride in the record. */
static PJRT_Error *send_upload(PJRT_Buffer *b, const struct host_array *a,
			       const struct adp_range *from)
{
	PJRT_Client *client = b->client;
	uint64_t size = adp_host_bytes(b->type, a->dims, a->rank);
	size_t dims = a->rank * sizeof(int64_t);
	struct sal_msg_upload *m =
		adp_reserve(client->conn, SAL_MSG_UPLOAD,
			    sal_record_size(sizeof(*m), dims + (from ? 0 : (size_t)size)));

	if (!m)
		return adp_unavailable(client->conn);
	m->header.device = (uint8_t)b->memory->device->number;
	m->header.memory = adp_memory_number(b->memory);
	m->id = b->id;
	m->type = b->type;
	m->rank = (uint32_t)a->rank;
	m->size = size;
	if (dims)
		memcpy(m + 1, a->dims, dims);
	if (from)
		m->from = from->place;
	else
		copy_in(a, size, (char *)(m + 1) + dims);
	adp_send(client->conn, true);
	return NULL;
}

/* The daemon does not know the buffer. */
static void drop(PJRT_Buffer *b)
{
	if (b)
		(void)adp_buffer_forget(b);
	(void)adp_Buffer_Destroy(&(PJRT_Buffer_Destroy_Args){ .buffer = b });
}

static bool is_shape(const struct adp_shape *shape)
{
	size_t i;

	for (i = 0; i < shape->rank; i++)
		if (shape->dims[i] < 0)
			return false;
	return true;
}

/* A small array of a Python callback: nothing is sent. */
static PJRT_Error *upload_late(PJRT_Client *client, const struct host_array *a,
			       const struct adp_shape *shape, PJRT_Buffer **out_buffer)
{
	PJRT_Buffer *b = adp_buffer_create(client, adp_next_id(client->conn, 1), shape, NULL);
	void *to = b ? adp_late_keep(b) : NULL;

	if (!to) {
		drop(b);
		return adp_out_of_memory();
	}
	copy_in(a, b->bytes, to);
	*out_buffer = b;
	return NULL;
}

static PJRT_Error *check_array(const struct host_array *a, const struct adp_shape *shape)
{
	if (shape->rank <= SAL_RANK_MAX && a->element != 0 && is_shape(shape) &&
	    adp_host_bytes(shape->type, shape->dims, shape->rank) != UINT64_MAX)
		return NULL;
	return adp_error(SAL_INVALID_ARGUMENT, "salus: not an array: type %d, rank %zu",
			 (int)shape->type, shape->rank);
}

static PJRT_Error *upload(PJRT_Client *client, const struct host_array *a,
			  const struct adp_shape *shape, PJRT_Buffer **out_buffer)
{
	uint64_t size = adp_host_bytes(shape->type, shape->dims, shape->rank);
	struct adp_range range = { .at = NULL };
	struct sal_err err = { 0 };
	PJRT_Error *error = check_array(a, shape);
	PJRT_Buffer *b;

	if (error)
		return error;
	if (adp_late_is_possible(client, shape))
		return upload_late(client, a, shape, out_buffer);
	if (size > SAL_INLINE_MAX) {
		if (adp_range_alloc(client->conn, size, &range, &err) < 0)
			return adp_error_from(&err);
		copy_in(a, size, range.at);
	}
	b = adp_buffer_create(client, adp_next_id(client->conn, 1), shape, NULL);
	if (!b) {
		adp_range_free(client->conn, &range);
		return adp_out_of_memory();
	}
	error = send_upload(b, a, range.at ? &range : NULL);
	if (error) {
		adp_range_free(client->conn, &range);
		drop(b);
		return error;
	}
	adp_buffer_sent(b);
	*out_buffer = b;
	return NULL;
}

/* The memory, else the default one of the device, else that of the first device. */
static PJRT_Memory *choose_memory(PJRT_Client *client, PJRT_Memory *memory, PJRT_Device *device)
{
	return memory ? memory : adp_memory_default(device ? device : client->devices[0]);
}

PJRT_Error *adp_Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args *args)
{
	struct host_array a = {
		.data = args->data,
		.element = sal_type_bytes(args->type),
		.rank = args->num_dims,
		.dims = args->dims,
		.strides = args->num_byte_strides ? args->byte_strides : NULL,
	};
	struct adp_shape shape = { args->type, args->num_dims, args->dims,
				   choose_memory(args->client, args->memory, args->device), NULL };
	struct adp_promise *copied;
	PJRT_Error *error;

	if (args->num_byte_strides != 0 && args->num_byte_strides != args->num_dims)
		return adp_error(SAL_INVALID_ARGUMENT, "salus: %zu strides for %zu dimensions",
				 args->num_byte_strides, args->num_dims);
	copied = adp_promise_create(NULL);
	if (!copied)
		return adp_out_of_memory();
	error = upload(args->client, &a, &shape, &args->buffer);
	if (error) {
		adp_promise_unref(copied);
		return error;
	}
	adp_promise_fulfil(copied, 0, NULL); /* the bytes are copied */
	args->done_with_host_buffer = adp_event_create(copied, false);
	return args->done_with_host_buffer ? NULL : adp_out_of_memory();
}

/*
 * The strides of the caller's array, in bytes. NULL: row-major. A layout that we cannot read is an
 * error, never ignored: the numbers would be in the wrong places.
 */
static PJRT_Error *read_layout(const PJRT_Client_CreateViewOfDeviceBuffer_Args *args,
			       struct host_array *a, int64_t *strides)
{
	const PJRT_Buffer_MemoryLayout *layout = args->layout;
	uint64_t size = adp_host_bytes(args->element_type, a->dims, a->rank);
	bool is_good = false;

	if (!layout || size == 0 || size == UINT64_MAX || a->rank > SAL_RANK_MAX)
		return NULL; /* nothing to reorder; upload() refuses what is no array */
	if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
		is_good = layout->strides.num_byte_strides == a->rank;
		a->strides = layout->strides.byte_strides;
	} else if (layout->tiled.num_tiles == 0 && layout->tiled.minor_to_major_size == a->rank) {
		is_good = adp_dense_strides(a->rank, a->element, a->dims,
					    layout->tiled.minor_to_major, strides);
		a->strides = strides;
	}
	if (is_good)
		return NULL;
	return adp_error(SAL_INVALID_ARGUMENT,
			 "salus: the layout of the view is tiled, or does not fit %zu dimensions",
			 a->rank);
}

/*
 * dlpack hands memory over until it is called back with its argument, and writes no more. Such memory
 * is copied, and its owner has it back at once. Any other caller may write to the memory between
 * two uses of the buffer, as go-xla does: its callback has no argument, or there is none.
 */
static bool is_handed_over(const PJRT_Client_CreateViewOfDeviceBuffer_Args *args)
{
	return args->on_delete_callback && args->on_delete_callback_arg;
}

static bool is_row_major(const struct host_array *a)
{
	int64_t stride = (int64_t)a->element;
	size_t i;

	for (i = a->rank; a->strides && i-- > 0; stride *= a->dims[i])
		if (a->strides[i] != stride && a->dims[i] != 1)
			return false;
	return true;
}

/* Nothing can be written into an empty array: it needs no view. */
static bool is_view(const PJRT_Client_CreateViewOfDeviceBuffer_Args *args)
{
	return !is_handed_over(args) &&
	       adp_host_bytes(args->element_type, args->dims, args->num_dims) > 0;
}

static PJRT_Error *make_view(const PJRT_Client_CreateViewOfDeviceBuffer_Args *args,
			     const struct host_array *a, const struct adp_shape *shape,
			     PJRT_Buffer **out_buffer)
{
	PJRT_Error *error = check_array(a, shape);

	if (error)
		return error;
	if (adp_sub_byte_bits(shape->type) != 0 || !is_row_major(a))
		return adp_error(SAL_UNIMPLEMENTED,
				 "salus: a view of host memory that may be written later, with "
				 "elements smaller than a byte or not in row-major order. Copy it "
				 "with PJRT_Client_BufferFromHostBuffer.");
	return adp_view_create(args, shape, out_buffer);
}

PJRT_Error *adp_Client_CreateViewOfDeviceBuffer(PJRT_Client_CreateViewOfDeviceBuffer_Args *args)
{
	struct host_array a = {
		.data = args->device_buffer_ptr,
		.element = sal_type_bytes(args->element_type),
		.rank = args->num_dims,
		.dims = args->dims,
	};
	struct adp_shape shape = {
		args->element_type,
		args->num_dims,
		args->dims,
		choose_memory(
			args->client,
			args->struct_size >=
					PJRT_STRUCT_SIZE(PJRT_Client_CreateViewOfDeviceBuffer_Args,
							 memory)
				? args->memory
				: NULL,
			args->device),
		NULL,
	};
	int64_t strides[SAL_RANK_MAX];
	PJRT_Error *error;

	if (!adp_is_host_platform(args->client))
		return adp_error(SAL_UNIMPLEMENTED,
				 "salus: a view of device memory, which belongs to salusd");
	error = read_layout(args, &a, strides);
	if (error)
		return error;
	if (is_view(args))
		return make_view(args, &a, &shape, &args->buffer);
	error = upload(args->client, &a, &shape, &args->buffer);
	if (!error && args->on_delete_callback)
		args->on_delete_callback(args->device_buffer_ptr, args->on_delete_callback_arg);
	return error;
}

PJRT_Error *adp_view_copy(const PJRT_Buffer *view, PJRT_Buffer **out_buffer)
{
	struct host_array a = {
		.data = view->host,
		.element = sal_type_bytes(view->type),
		.rank = view->rank,
		.dims = view->dims,
	};
	struct adp_shape shape = { view->type, view->rank, view->dims, view->memory, NULL };

	if (atomic_load(&view->deleted))
		return adp_error(SAL_INVALID_ARGUMENT, "Buffer has been deleted or donated.");
	return upload(view->client, &a, &shape, out_buffer);
}

PJRT_Error *adp_Client_CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args *args)
{
	static const char zero[16];
	static const int64_t zero_strides[SAL_RANK_MAX];
	struct host_array a = {
		.data = zero,
		.element = sal_type_bytes(args->shape_element_type),
		.rank = args->shape_num_dims,
		.dims = args->shape_dims,
		.strides = zero_strides,
	};
	struct adp_shape shape = { args->shape_element_type, args->shape_num_dims, args->shape_dims,
				   choose_memory(args->client, args->memory, args->device), NULL };

	return upload(args->client, &a, &shape, &args->buffer);
}
