/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paging: the saved contents of a buffer, in host memory, dense in the device's order of
 * dimensions.
 *
 * If the device is the host, we can reach the plugin's buffers. Such a buffer keeps its address
 * while its pages go back to the system. The address matters: XLA:CPU caches packed weights by
 * address, so a program may give other results when its arguments move. On other devices the buffer
 * is freed and a new one is made.
 */
#include "device/pjrt/vendor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/wait.h"

#define HUGE_PAGE (UINT64_C(2) << 20)
#define PAGE UINT64_C(4096)

struct sal_saved {
	struct vendor_shape shape;
	uint64_t size;
	struct sal_device *device; /* borrowed */
	struct vendor_block *block; /* owned: the bytes */
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

int sal_vendor_shape(const struct sal_device *d, PJRT_Buffer *buffer, struct vendor_shape *shape,
		     struct sal_err *err)
{
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
	return describe_order(d, buffer, shape, err);
}

int sal_pjrt_save(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err)
{
	struct sal_saved *saved = calloc(1, sizeof(*saved));
	int rc;

	*out_saved = NULL;
	if (saved)
		saved->block = sal_vendor_shelf_take(&b->stream->device->shelf, b->host_bytes);
	if (!saved || !saved->block) {
		free(saved);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no host memory to page out to");
	}
	saved->size = b->host_bytes;
	saved->device = b->stream->device;
	rc = sal_vendor_shape(b->stream->device, b->buffer, &saved->shape, err);
	if (rc >= 0)
		rc = sal_download_and_wait(&sal_device_pjrt, b, saved->block->bytes,
					   (size_t)saved->size, err);
	if (rc < 0) {
		sal_pjrt_free_saved(saved);
		return rc;
	}
	*out_saved = saved;
	return SAL_OK;
}

static void on_released(void *ctx, int code, const char *message)
{
	(void)code;
	(void)message;
	sal_pjrt_free_saved(ctx);
}

/* The strides of the dimensions, for bytes in the device's order. */
static void fill_strides(const struct sal_saved *saved, int64_t *strides)
{
	int64_t step = (int64_t)sal_type_bytes((int32_t)saved->shape.type);
	size_t i;

	for (i = 0; i < saved->shape.rank; i++) {
		strides[saved->shape.minor_to_major[i]] = step;
		step *= saved->shape.dims[saved->shape.minor_to_major[i]];
	}
}

int sal_pjrt_restore(struct sal_stream *s, struct sal_saved *take_saved,
		     struct sal_buffer **out_buffer, struct sal_err *err)
{
	const struct sal_device *d = s->device;
	struct sal_saved *saved = take_saved;
	int64_t strides[VENDOR_RANK_MAX];
	PJRT_Buffer_MemoryLayout layout = {
		.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
		.type = PJRT_Buffer_MemoryLayout_Type_Tiled,
		.tiled = { .struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
			   .minor_to_major = saved->shape.minor_to_major,
			   .minor_to_major_size = saved->shape.rank },
	};
	struct sal_buffer *b = calloc(1, sizeof(*b));
	int rc;

	VENDOR_ARGS(d, PJRT_Client_BufferFromHostBuffer_Args, put, .client = s->client,
		    .data = saved->block->bytes, .type = saved->shape.type,
		    .dims = saved->shape.dims, .num_dims = saved->shape.rank, .device = s->chip,
		    .memory = s->memory,
		    .host_buffer_semantics = PJRT_HostBufferSemantics_kMutableZeroCopy);

	*out_buffer = NULL;
	if (!b)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a buffer");
	if (!saved->shape.row_major) {
		fill_strides(saved, strides);
		put.args.byte_strides = strides;
		put.args.num_byte_strides = saved->shape.rank;
		put.args.device_layout = &layout;
		put.args.host_buffer_semantics =
			PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
	}
	b->stream = s;
	b->host_bytes = saved->size;
	rc = sal_vendor_check(d, d->api->PJRT_Client_BufferFromHostBuffer(&put.args), err);
	if (rc < 0) {
		free(b);
		return rc;
	}
	b->buffer = put.args.buffer;
	*out_buffer = b;
	sal_vendor_when(d, put.args.done_with_host_buffer, on_released, saved);
	return SAL_OK;
}

/* Gives all complete pages of the buffer back to the system. The rest at both ends is small. */
static void drop_pages(void *bytes, size_t size, void *unused)
{
	uintptr_t from = ((uintptr_t)bytes + PAGE - 1) / PAGE * PAGE;
	uintptr_t to = ((uintptr_t)bytes + size) / PAGE * PAGE;

	(void)unused;
	if (from < to)
		(void)madvise((void *)from, to - from, MADV_DONTNEED);
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

	if (to > from && to - from >= HUGE_PAGE)
		(void)madvise((void *)from, to - from, MADV_HUGEPAGE);
	memcpy(bytes, ((struct sal_saved *)saved)->block->bytes, size);
}

int sal_pjrt_refill(struct sal_buffer *b, struct sal_saved *take_saved, struct sal_err *err)
{
	if (b->host_bytes > 0 && !sal_vendor_reach(b, fill, take_saved))
		return sal_err_set(err, SAL_INTERNAL, "the buffer cannot be reached any more");
	sal_pjrt_free_saved(take_saved);
	return SAL_OK;
}

struct sal_text sal_pjrt_saved_bytes(const struct sal_saved *saved)
{
	return (struct sal_text){ saved->block->bytes, (size_t)saved->size };
}

void sal_pjrt_free_saved(struct sal_saved *saved)
{
	if (!saved)
		return;
	sal_vendor_shelf_put(&saved->device->shelf, saved->block);
	free(saved);
}
