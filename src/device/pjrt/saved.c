/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paging: the saved contents of a buffer, in host memory, dense in the device's order of
 * dimensions.
 *
 * If the device is the host, we can reach the plugin's buffers. Such a buffer keeps its address
 * while its pages go back to the system. The address matters: XLA:CPU caches packed weights by
 * address, so a program may give other results when its arguments move. On other devices the buffer
 * is freed and a new one is made.
 *
 * Memory that is not the heap's, as the memory that a job shares with us, cannot be given back: to
 * copy it would only take more. Such contents stay where they are.
 */
#include "device/pjrt/saved.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "heap/heap.h"
#include "heap/meter.h"

#define HUGE_PAGE (UINT64_C(2) << 20)
#define PAGE UINT64_C(4096)
#define REASON_BYTES 256

struct sal_saved {
	struct vendor_shape shape;
	uint64_t size;
	struct sal_device *device; /* borrowed */
	struct vendor_block *block; /* owned: the bytes; NULL: they stay at `kept` */
	const void *kept; /* borrowed from the buffer */
	sem_t copied; /* code and reason are set */
	int code; /* 0, or why the copy failed */
	char reason[REASON_BYTES];
};

static int describe_order(const struct sal_device *d, PJRT_Buffer *buffer,
			  struct vendor_shape *shape, struct sal_err *err)
{
	size_t i;
	int rc;

	VENDOR_ARGS(d, PJRT_Buffer_GetMemoryLayout_Args, get, .buffer = buffer);

	shape->row_major = true;
	for (i = 0; i < shape->rank; i++)
		shape->minor_to_major[i] = (int64_t)(shape->rank - 1 - i);
	if (!VENDOR_HAS(d, PJRT_Buffer_GetMemoryLayout))
		return SAL_OK;
	rc = sal_vendor_check(d, d->api->PJRT_Buffer_GetMemoryLayout(&get.args), err);
	if (rc < 0)
		return rc;
	if (get.args.layout.type != PJRT_Buffer_MemoryLayout_Type_Tiled ||
	    get.args.layout.tiled.minor_to_major_size != shape->rank)
		return SAL_OK;
	for (i = 0; i < shape->rank; i++) {
		int64_t dim = get.args.layout.tiled.minor_to_major[i];

		shape->row_major &= dim == shape->minor_to_major[i];
		shape->minor_to_major[i] = dim;
	}
	return SAL_OK;
}

/* The memories of the chip; none if the plugin does not list them. */
static size_t list_memories(const struct sal_stream *s, PJRT_Memory *const **out_list)
{
	const struct sal_device *d = s->device;

	VENDOR_ARGS(d, PJRT_Device_AddressableMemories_Args, list, .device = s->chip);

	if (!VENDOR_HAS(d, PJRT_Device_AddressableMemories) ||
	    sal_vendor_check(d, d->api->PJRT_Device_AddressableMemories(&list.args), NULL) < 0)
		return 0;
	*out_list = list.args.memories;
	return list.args.num_memories;
}

PJRT_Memory *sal_vendor_memory(const struct sal_stream *s, uint32_t memory)
{
	PJRT_Memory *const *list;

	if (memory == 0 || list_memories(s, &list) < memory)
		return s->memory;
	return list[memory - 1];
}

/* In which memory of its chip the buffer is. */
static uint32_t find_memory(const struct sal_stream *s, PJRT_Buffer *buffer)
{
	const struct sal_device *d = s->device;
	PJRT_Memory *const *list;
	size_t i, count;

	VENDOR_ARGS(d, PJRT_Buffer_Memory_Args, get, .buffer = buffer);

	if (!VENDOR_HAS(d, PJRT_Buffer_Memory) ||
	    sal_vendor_check(d, d->api->PJRT_Buffer_Memory(&get.args), NULL) < 0 ||
	    get.args.memory == s->memory)
		return 0;
	count = list_memories(s, &list);
	for (i = 0; i < count; i++)
		if (list[i] == get.args.memory)
			return (uint32_t)i + 1;
	return 0;
}

int sal_vendor_shape(const struct sal_stream *s, PJRT_Buffer *buffer, struct vendor_shape *shape,
		     struct sal_err *err)
{
	const struct sal_device *d = s->device;
	int rc;

	VENDOR_ARGS(d, PJRT_Buffer_ElementType_Args, type, .buffer = buffer);
	VENDOR_ARGS(d, PJRT_Buffer_Dimensions_Args, dims, .buffer = buffer);

	rc = sal_vendor_check(d, d->api->PJRT_Buffer_ElementType(&type.args), err);
	if (rc >= 0)
		rc = sal_vendor_check(d, d->api->PJRT_Buffer_Dimensions(&dims.args), err);
	if (rc < 0)
		return rc;
	if (dims.args.num_dims > VENDOR_RANK_MAX)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "the array has too many dimensions: %zu", dims.args.num_dims);
	shape->type = type.args.type;
	shape->rank = dims.args.num_dims;
	if (shape->rank > 0)
		memcpy(shape->dims, dims.args.dims, shape->rank * sizeof(*shape->dims));
	shape->memory = find_memory(s, buffer);
	return describe_order(d, buffer, shape, err);
}

static void on_copied(void *ctx, int code, const char *message)
{
	struct sal_saved *saved = ctx;

	saved->code = code;
	(void)snprintf(saved->reason, sizeof(saved->reason), "%s", message ? message : "");
	(void)sem_post(&saved->copied);
}

static int take_block(struct sal_saved *saved, struct sal_err *err)
{
	saved->block = sal_vendor_shelf_take(&saved->device->shelf, saved->size);
	if (!saved->block)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no host memory to page out to");
	return SAL_OK;
}

static int describe(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err)
{
	struct sal_saved *saved = calloc(1, sizeof(*saved));
	int rc;

	*out_saved = NULL;
	if (!saved)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no host memory to page out to");
	(void)sem_init(&saved->copied, 0, 0);
	saved->size = b->host_bytes;
	saved->device = b->stream->device;
	rc = sal_vendor_shape(b->stream, b->buffer, &saved->shape, err);
	if (rc < 0) {
		sal_pjrt_free_saved(saved);
		return rc;
	}
	*out_saved = saved;
	return SAL_OK;
}

int sal_pjrt_save(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err)
{
	struct sal_saved *saved;
	int rc = describe(b, &saved, err);

	*out_saved = NULL;
	if (!saved)
		return rc;
	rc = take_block(saved, err);
	if (rc >= 0)
		rc = sal_pjrt_download(b, saved->block->bytes, (size_t)saved->size, on_copied,
				       saved, err);
	if (rc < 0) {
		sal_pjrt_free_saved(saved);
		return rc;
	}
	*out_saved = saved;
	return SAL_OK;
}

static bool is_foreign(const void *bytes)
{
	return sal_heap_is_on() && !sal_heap_owns(bytes);
}

static void find_foreign(void *bytes, size_t size, void *out)
{
	(void)size;
	*(const void **)out = is_foreign(bytes) ? bytes : NULL;
}

int sal_pjrt_leave(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err)
{
	struct sal_saved *saved;
	const void *at = NULL;
	int rc;

	*out_saved = NULL;
	if (b->host_bytes == 0 || !sal_vendor_reach(b, find_foreign, &at) || !at)
		return sal_err_set(err, SAL_UNIMPLEMENTED, "the memory can be given back");
	rc = describe(b, &saved, err);
	if (!saved)
		return rc;
	saved->kept = at;
	on_copied(saved, SAL_OK, NULL);
	*out_saved = saved;
	return SAL_OK;
}

/* Contents that have stayed where they are go elsewhere, so they are copied now. */
static int detach(struct sal_saved *saved, struct sal_err *err)
{
	int rc;

	if (!saved->kept)
		return SAL_OK;
	rc = take_block(saved, err);
	if (rc < 0)
		return rc; /* they stay */
	memcpy(saved->block->bytes, saved->kept, (size_t)saved->size);
	saved->kept = NULL;
	return SAL_OK;
}

int sal_pjrt_await_saved(struct sal_saved *saved, struct sal_err *err)
{
	while (sem_wait(&saved->copied) < 0)
		; /* interrupted by a signal */
	if (saved->code)
		return sal_err_set(err, (enum sal_code)saved->code, "%s", saved->reason);
	return SAL_OK;
}

static void on_released(void *ctx, int code, const char *message)
{
	(void)code;
	(void)message;
	sal_pjrt_free_saved(ctx);
}

static bool has_shape(const struct sal_buffer *b, const struct vendor_shape *shape)
{
	struct vendor_shape actual = { 0 };

	return sal_vendor_shape(b->stream, b->buffer, &actual, NULL) >= 0 &&
	       actual.rank == shape->rank &&
	       memcmp(actual.minor_to_major, shape->minor_to_major,
		      shape->rank * sizeof(*shape->minor_to_major)) == 0;
}

static int restore_rows(struct sal_buffer *b, struct sal_saved *saved, struct sal_err *err)
{
	const struct sal_stream *s = b->stream;
	const struct sal_device *d = s->device;
	int rc;

	VENDOR_ARGS(d, PJRT_Client_BufferFromHostBuffer_Args, put, .client = s->client,
		    .data = saved->block->bytes, .type = saved->shape.type,
		    .dims = saved->shape.dims, .num_dims = saved->shape.rank, .device = s->chip,
		    .memory = sal_vendor_memory(s, saved->shape.memory),
		    .host_buffer_semantics = PJRT_HostBufferSemantics_kMutableZeroCopy);

	rc = sal_vendor_check(d, d->api->PJRT_Client_BufferFromHostBuffer(&put.args), err);
	if (rc < 0)
		return rc;
	b->buffer = put.args.buffer;
	sal_heap_pay(saved->block->bytes, sal_payer_find()); /* it is the session's memory now */
	sal_vendor_when(d, put.args.done_with_host_buffer, on_released, saved);
	return SAL_OK;
}

/* Sends the bytes as they are, and waits: the vendor's object must outlive the transfer. */
static int send_raw(struct sal_buffer *b, const struct sal_saved *saved,
		    PJRT_AsyncHostToDeviceTransferManager *manager, struct sal_err *err)
{
	const struct sal_device *d = b->stream->device;
	int rc;

	VENDOR_ARGS(d, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args, get,
		    .transfer_manager = manager);
	VENDOR_ARGS(d, PJRT_AsyncHostToDeviceTransferManager_TransferData_Args, send,
		    .transfer_manager = manager, .data = saved->block->bytes,
		    .transfer_size = (int64_t)saved->size, .is_last_transfer = true);

	rc = sal_vendor_check(
		d, d->api->PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(&get.args), err);
	if (rc < 0)
		return rc;
	b->buffer = get.args.buffer_out;
	rc = sal_vendor_check(
		d, d->api->PJRT_AsyncHostToDeviceTransferManager_TransferData(&send.args), err);
	return rc < 0 ? rc : sal_vendor_await(d, send.args.done_with_h2d_transfer, err);
}

/*
 * Restores an array whose dimensions are in another order. Some plugins ignore the order when they
 * make a buffer from the host's memory. So the bytes go as they are, into a buffer of that order.
 */
static int restore_ordered(struct sal_buffer *b, struct sal_saved *saved, struct sal_err *err)
{
	const struct sal_stream *s = b->stream;
	const struct sal_device *d = s->device;
	PJRT_Buffer_MemoryLayout layout = {
		.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
		.type = PJRT_Buffer_MemoryLayout_Type_Tiled,
		.tiled = { .struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
			   .minor_to_major = saved->shape.minor_to_major,
			   .minor_to_major_size = saved->shape.rank },
	};
	PJRT_Buffer_MemoryLayout *layouts[1] = { &layout };
	PJRT_ShapeSpec spec = { .struct_size = PJRT_ShapeSpec_STRUCT_SIZE,
				.dims = saved->shape.dims,
				.num_dims = saved->shape.rank,
				.element_type = saved->shape.type };
	int rc;

	VENDOR_ARGS(d, PJRT_Client_CreateBuffersForAsyncHostToDevice_Args, create,
		    .client = s->client, .shape_specs = &spec, .num_shape_specs = 1,
		    .device_layouts = layouts, .num_device_layouts = 1,
		    .memory = sal_vendor_memory(s, saved->shape.memory));
	VENDOR_ARGS(d, PJRT_AsyncHostToDeviceTransferManager_Destroy_Args, end,
		    .extension_start = NULL);

	if (!VENDOR_HAS(d, PJRT_Client_CreateBuffersForAsyncHostToDevice))
		return sal_err_set(err, SAL_UNIMPLEMENTED, "the plugin cannot restore the order");
	rc = sal_vendor_check(
		d, d->api->PJRT_Client_CreateBuffersForAsyncHostToDevice(&create.args), err);
	if (rc < 0)
		return rc;
	end.args.transfer_manager = create.args.transfer_manager;
	rc = send_raw(b, saved, create.args.transfer_manager, err);
	sal_vendor_drop(d, d->api->PJRT_AsyncHostToDeviceTransferManager_Destroy(&end.args));
	if (rc >= 0 && !has_shape(b, &saved->shape))
		rc = sal_err_set(err, SAL_UNIMPLEMENTED,
				 "the plugin does not restore the order of an array's dimensions");
	if (rc >= 0)
		sal_pjrt_free_saved(saved);
	return rc;
}

int sal_pjrt_restore(struct sal_stream *s, struct sal_saved *take_saved,
		     struct sal_buffer **out_buffer, struct sal_err *err)
{
	struct sal_saved *saved = take_saved;
	struct sal_buffer *b;
	int rc = detach(saved, err);

	*out_buffer = NULL;
	if (rc < 0)
		return rc;
	b = calloc(1, sizeof(*b));
	if (!b)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a buffer");
	b->stream = s;
	b->host_bytes = saved->size;
	rc = saved->shape.row_major ? restore_rows(b, saved, err) : restore_ordered(b, saved, err);
	if (rc < 0) {
		sal_pjrt_free_buffer(b);
		return rc;
	}
	*out_buffer = b;
	return SAL_OK;
}

int sal_vendor_restore(struct sal_stream *s, uint32_t memory, struct sal_saved *take_saved,
		       struct sal_buffer **out_buffer, struct sal_err *err)
{
	take_saved->shape.memory = memory;
	return sal_pjrt_restore(s, take_saved, out_buffer, err);
}

/* Gives all complete pages of the buffer back to the system. The rest at both ends is small. */
static void drop_pages(void *bytes, size_t size, void *unused)
{
	(void)unused;
	if (!is_foreign(bytes))
		sal_heap_empty(bytes, size);
}

int sal_pjrt_empty(struct sal_buffer *b)
{
	if (b->host_bytes == 0 || sal_vendor_reach(b, drop_pages, NULL))
		return SAL_OK;
	return -SAL_UNIMPLEMENTED;
}

static void fill(void *bytes, size_t size, void *saved)
{
	uintptr_t from = ((uintptr_t)bytes + PAGE - 1) / PAGE * PAGE;
	uintptr_t to = ((uintptr_t)bytes + size) / PAGE * PAGE;

	sal_heap_fill(bytes, size);
	if (to > from && to - from >= HUGE_PAGE)
		(void)madvise((void *)from, to - from, MADV_HUGEPAGE);
	memcpy(bytes, ((struct sal_saved *)saved)->block->bytes, size);
}

int sal_pjrt_refill(struct sal_buffer *b, struct sal_saved *take_saved, struct sal_err *err)
{
	if (b->host_bytes > 0 && !take_saved->kept && !sal_vendor_reach(b, fill, take_saved))
		return sal_err_set(err, SAL_INTERNAL, "the buffer cannot be reached any more");
	sal_pjrt_free_saved(take_saved);
	return SAL_OK;
}

struct sal_text sal_pjrt_saved_bytes(const struct sal_saved *saved)
{
	return (struct sal_text){ saved->block ? saved->block->bytes : saved->kept,
				  (size_t)saved->size };
}

void sal_pjrt_free_saved(struct sal_saved *saved)
{
	if (!saved)
		return;
	sal_vendor_shelf_put(&saved->device->shelf, saved->block);
	(void)sem_destroy(&saved->copied);
	free(saved);
}
