/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: upload, download, copy. */
#include "device/pjrt/saved.h"

#include <stdlib.h>
#include <string.h>

/* The caller's thread copies downloads up to this size. */
#define SMALL_DOWNLOAD_BYTES 65536

int sal_vendor_host_bytes(const struct sal_array *array, uint64_t *out_bytes, struct sal_err *err)
{
	uint64_t bytes = sal_type_bytes(array->type);
	bool is_empty = false;

	*out_bytes = 0;
	if (bytes == 0)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "unknown element type %d",
				   (int)array->type);
	if (array->rank > VENDOR_RANK_MAX)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "the array has too many dimensions: %u",
				   (unsigned int)array->rank);
	for (uint32_t i = 0; i < array->rank; i++) {
		int64_t dim = array->dims[i];

		if (dim < 0)
			return sal_err_set(err, SAL_INVALID_ARGUMENT,
					   "the array has a dimension of size %lld",
					   (long long)dim);
		is_empty |= dim == 0;
		if (dim > 0 && __builtin_mul_overflow(bytes, (uint64_t)dim, &bytes))
			return sal_err_set(err, SAL_INVALID_ARGUMENT, "the array is too large");
	}
	if (bytes > INT64_MAX)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "the array is too large");
	*out_bytes = is_empty ? 0 : bytes;
	return SAL_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the parameters are the table\'s. */
int sal_pjrt_upload(struct sal_stream *s, const struct sal_array *array, const void *data,
		    enum sal_upload_mode mode, sal_done_fn *released, void *ctx,
		    struct sal_buffer **out_buffer, struct sal_err *err)
{
	static const char nothing;
	const struct sal_device *d = s->device;
	struct sal_buffer *b;
	int rc;

	VENDOR_ARGS(d, PJRT_Client_BufferFromHostBuffer_Args, put, .client = s->client,
		    .type = (PJRT_Buffer_Type)array->type, .dims = array->dims,
		    .num_dims = array->rank);

	*out_buffer = NULL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a buffer");
	b->stream = s;
	b->is_immutable = mode == SAL_UPLOAD_ALIAS;
	rc = sal_vendor_host_bytes(array, &b->host_bytes, err);
	if (rc < 0)
		goto fail;
	/* An empty array may have no address, but plugins refuse NULL. */
	put.args.data = data ? data : &nothing;
	put.args.host_buffer_semantics =
		mode == SAL_UPLOAD_ALIAS ? PJRT_HostBufferSemantics_kImmutableZeroCopy
					 : PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
	put.args.device = s->chip;
	put.args.memory = sal_vendor_memory(s, array->memory);
	rc = sal_vendor_check(d, d->api->PJRT_Client_BufferFromHostBuffer(&put.args), err);
	if (rc < 0)
		goto fail;
	b->buffer = put.args.buffer;
	*out_buffer = b;
	sal_vendor_when(d, put.args.done_with_host_buffer, released, ctx);
	return SAL_OK;
fail:
	sal_pjrt_free_buffer(b);
	return rc;
}

/* The buffer's bytes, if they are defined and this process can read them; otherwise NULL. */
static void *peek(const struct sal_device *d, PJRT_Buffer *buffer)
{
	bool is_ready = false;

	VENDOR_ARGS(d, PJRT_Buffer_IsOnCpu_Args, where, .buffer = buffer);
	VENDOR_ARGS(d, PJRT_Buffer_ReadyEvent_Args, get, .buffer = buffer);
	VENDOR_ARGS(d, PJRT_Event_IsReady_Args, ask, .event = NULL);
	VENDOR_ARGS(d, PJRT_Event_Error_Args, failed, .event = NULL);
	VENDOR_ARGS(d, PJRT_Event_Destroy_Args, end, .event = NULL);
	VENDOR_ARGS(d, PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, pointer, .buffer = buffer);

	if (sal_vendor_check(d, d->api->PJRT_Buffer_IsOnCpu(&where.args), NULL) < 0 ||
	    !where.args.is_on_cpu ||
	    sal_vendor_check(d, d->api->PJRT_Buffer_ReadyEvent(&get.args), NULL) < 0)
		return NULL;
	ask.args.event = failed.args.event = end.args.event = get.args.event;
	if (sal_vendor_check(d, d->api->PJRT_Event_IsReady(&ask.args), NULL) >= 0 &&
	    ask.args.is_ready)
		is_ready = sal_vendor_check(d, d->api->PJRT_Event_Error(&failed.args), NULL) >= 0;
	sal_vendor_drop(d, d->api->PJRT_Event_Destroy(&end.args));
	if (!is_ready ||
	    sal_vendor_check(d, d->api->PJRT_Buffer_OpaqueDeviceMemoryDataPointer(&pointer.args),
			     NULL) < 0)
		return NULL;
	return pointer.args.device_memory_ptr;
}

bool sal_vendor_reach(struct sal_buffer *b, sal_use_fn *use, void *ctx)
{
	const struct sal_device *d = b->stream->device;
	size_t size = (size_t)b->host_bytes;
	void *bytes;

	VENDOR_ARGS(d, PJRT_Buffer_IncreaseExternalReferenceCount_Args, ref, .buffer = b->buffer);
	VENDOR_ARGS(d, PJRT_Buffer_DecreaseExternalReferenceCount_Args, unref, .buffer = b->buffer);
	VENDOR_ARGS(d, PJRT_Buffer_OnDeviceSizeInBytes_Args, on_device, .buffer = b->buffer);

	if (size == 0 || !VENDOR_HAS(d, PJRT_Buffer_IsOnCpu) ||
	    sal_vendor_check(d, d->api->PJRT_Buffer_OnDeviceSizeInBytes(&on_device.args), NULL) <
		    0 ||
	    on_device.args.on_device_size_in_bytes !=
		    size || /* types smaller than a byte are packed */
	    sal_vendor_check(d, d->api->PJRT_Buffer_IncreaseExternalReferenceCount(&ref.args),
			     NULL) < 0)
		return false;
	bytes = peek(d, b->buffer);
	if (bytes)
		use(bytes, size, ctx);
	sal_vendor_drop(d, d->api->PJRT_Buffer_DecreaseExternalReferenceCount(&unref.args));
	return bytes != NULL;
}

static void copy_out(void *bytes, size_t size, void *dst)
{
	memcpy(dst, bytes, size);
}

/*
 * Executions that wait for Python may keep all threads of the vendor's client, and Python may wait
 * for the copy. So the vendor must not copy.
 */
static bool lacks_threads(const struct sal_buffer *b)
{
	return atomic_load(&b->stream->whole->callers) > 0;
}

/* Waking a thread of the vendor costs ten times the copy of a few bytes. */
static bool copy_at_once(struct sal_buffer *b, void *dst, size_t size)
{
	return (size <= SMALL_DOWNLOAD_BYTES || lacks_threads(b)) &&
	       sal_vendor_reach(b, copy_out, dst);
}

int sal_pjrt_download(struct sal_buffer *b, void *dst, size_t size, sal_done_fn *done, void *ctx,
		      struct sal_err *err)
{
	const struct sal_device *d = b->stream->device;
	char nothing;
	int rc;

	/*
	 * Without a host layout, every plugin returns the bytes in the device's order of
	 * dimensions.
	 */
	VENDOR_ARGS(d, PJRT_Buffer_ToHostBuffer_Args, get, .src = b->buffer, .dst_size = size);

	if (size != b->host_bytes)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "the buffer has %llu bytes, not %zu",
				   (unsigned long long)b->host_bytes, size);
	if (copy_at_once(b, dst, size)) {
		done(ctx, 0, NULL);
		return SAL_OK;
	}
	/* Without an address the call would only return the size. */
	get.args.dst = dst ? dst : &nothing;
	rc = sal_vendor_check(d, d->api->PJRT_Buffer_ToHostBuffer(&get.args), err);
	if (rc < 0)
		return rc;
	sal_vendor_when(d, get.args.event, done, ctx);
	return SAL_OK;
}

static int copy_on_device(struct sal_buffer *from, const struct sal_stream *s, PJRT_Memory *memory,
			  PJRT_Buffer **out_buffer, struct sal_err *err)
{
	const struct sal_device *d = s->device;
	int rc;

	VENDOR_ARGS(d, PJRT_Buffer_CopyToMemory_Args, to_memory, .buffer = from->buffer,
		    .dst_memory = memory);
	VENDOR_ARGS(d, PJRT_Buffer_CopyToDevice_Args, to_device, .buffer = from->buffer,
		    .dst_device = s->chip);

	*out_buffer = NULL;
	if (memory && VENDOR_HAS(d, PJRT_Buffer_CopyToMemory)) {
		rc = sal_vendor_check(d, d->api->PJRT_Buffer_CopyToMemory(&to_memory.args), err);
		*out_buffer = to_memory.args.dst_buffer;
	} else if (VENDOR_HAS(d, PJRT_Buffer_CopyToDevice)) {
		rc = sal_vendor_check(d, d->api->PJRT_Buffer_CopyToDevice(&to_device.args), err);
		*out_buffer = to_device.args.dst_buffer;
	} else {
		rc = sal_err_set(err, SAL_UNIMPLEMENTED, "the plugin cannot copy buffers");
	}
	return rc;
}

static int copy_by_vendor(struct sal_buffer *b, struct sal_stream *chip, uint32_t memory,
			  struct sal_buffer **out_buffer, struct sal_err *err)
{
	struct sal_buffer *copy = calloc(1, sizeof(*copy));
	int rc;

	if (!copy)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a buffer");
	copy->stream = chip;
	copy->host_bytes = b->host_bytes;
	rc = copy_on_device(b, chip, sal_vendor_memory(chip, memory), &copy->buffer, err);
	if (rc < 0) {
		copy->buffer = NULL;
		sal_pjrt_free_buffer(copy);
		return rc;
	}
	*out_buffer = copy;
	return SAL_OK;
}

static void ignore(void *bytes, size_t size, void *ctx)
{
	(void)bytes;
	(void)size;
	(void)ctx;
}

/* The contents must be there. */
static int copy_by_host(struct sal_buffer *b, struct sal_stream *chip, uint32_t memory,
			struct sal_buffer **out_buffer, struct sal_err *err)
{
	struct sal_saved *saved;
	int rc = sal_pjrt_save(b, &saved, err);

	if (rc < 0)
		return rc;
	rc = sal_pjrt_await_saved(saved, err);
	if (rc >= 0)
		rc = sal_vendor_restore(chip, memory, saved, out_buffer, err);
	if (rc < 0)
		sal_pjrt_free_saved(saved);
	return rc;
}

int sal_pjrt_copy_to(struct sal_buffer *b, struct sal_stream *chip, uint32_t memory,
		     struct sal_buffer **out_buffer, struct sal_err *err)
{
	bool by_host = lacks_threads(b) && sal_vendor_reach(b, ignore, NULL);

	*out_buffer = NULL;
	return (by_host ? copy_by_host : copy_by_vendor)(b, chip, memory, out_buffer, err);
}

int sal_pjrt_copy(struct sal_buffer *b, uint32_t memory, struct sal_buffer **out_buffer,
		  struct sal_err *err)
{
	return sal_pjrt_copy_to(b, b->stream, memory, out_buffer, err);
}

int sal_pjrt_when_ready(struct sal_buffer *b, sal_done_fn *done, void *ctx, struct sal_err *err)
{
	const struct sal_device *d = b->stream->device;
	int rc;

	VENDOR_ARGS(d, PJRT_Buffer_ReadyEvent_Args, get, .buffer = b->buffer);

	rc = sal_vendor_check(d, d->api->PJRT_Buffer_ReadyEvent(&get.args), err);
	if (rc < 0)
		return rc;
	sal_vendor_when(d, get.args.event, done, ctx);
	return SAL_OK;
}

void sal_pjrt_free_buffer(struct sal_buffer *b)
{
	if (!b)
		return;
	if (b->buffer) {
		const struct sal_device *d = b->stream->device;

		VENDOR_ARGS(d, PJRT_Buffer_Destroy_Args, destroy, .buffer = b->buffer);
		sal_vendor_drop(d, d->api->PJRT_Buffer_Destroy(&destroy.args));
	}
	free(b);
}
