/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/buffer/host.h"

#include <stdlib.h>
#include <string.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/buffer/download.h"
#include "adaptor/buffer/exposed.h"
#include "adaptor/buffer/late.h"
#include "adaptor/client/client.h"
#include "adaptor/daemon/blocks.h"
#include "adaptor/daemon/range.h"
#include "adaptor/error.h"
#include "wire/messages.h"

/* The copies that stay take at most so many bytes of the arena. */
#define STAYING_MAX (INT64_C(256) << 20)

void adp_host_free(PJRT_Buffer *b)
{
	if (b->is_view) {
		adp_view_end(b);
		return;
	}
	if (b->block) {
		adp_block_drop(b->client->conn, b->block);
		b->block = 0;
		return;
	}
	if (!b->range.at) {
		free(b->host);
		return;
	}
	(void)atomic_fetch_sub(&b->client->staying_bytes, (int64_t)b->range.place.size);
	adp_range_free(b->client->conn, &b->range);
}

/* Counts the bytes as staying; false if they would be too many. */
static bool may_stay(PJRT_Client *client, uint64_t size)
{
	int64_t n = (int64_t)size;

	if (size > STAYING_MAX)
		return false;
	if (atomic_fetch_add(&client->staying_bytes, n) + n <= STAYING_MAX)
		return true;
	(void)atomic_fetch_sub(&client->staying_bytes, n);
	return false;
}

/*
 * Room for the copy: in the arena; or on the heap, if the copy is small or the arena holds too
 * many.
 */
static PJRT_Error *make_room(PJRT_Buffer *b, uint64_t size)
{
	struct sal_err err = { 0 };

	if (size > SAL_INLINE_MAX && may_stay(b->client, size)) {
		if (adp_range_alloc(b->client->conn, size, &b->range, &err) < 0) {
			(void)atomic_fetch_sub(&b->client->staying_bytes, (int64_t)size);
			return adp_error_from(&err);
		}
		b->host = b->range.at;
	} else {
		b->host = aligned_alloc(64, (size_t)(size + 64) / 64 * 64);
	}
	return b->host ? NULL : adp_out_of_memory();
}

static PJRT_Error *fetch_bytes(PJRT_Buffer *b)
{
	uint64_t size = adp_host_bytes(b->type, b->dims, b->rank);
	PJRT_Error *error;

	if (size != b->bytes)
		return adp_error(
			SAL_UNIMPLEMENTED,
			"salus: the address of a buffer whose elements are smaller than a byte");
	error = adp_exposed_find(b);
	if (error || b->host)
		return error;
	error = make_room(b, size);
	if (!error)
		error = adp_download_into(b, b->host, b->range.at ? &b->range : NULL);
	if (error) {
		adp_host_free(b);
		b->host = NULL;
		b->range.at = NULL;
	}
	return error;
}

/*
 * A buffer that is too large for the device is often too large for this process, too: then the
 * device's reason comes first.
 */
static PJRT_Error *find_reason(PJRT_Buffer *b, PJRT_Error *error)
{
	PJRT_Error *reason = error ? adp_buffer_await(b) : NULL;

	if (!reason)
		return error;
	adp_Error_Destroy(&(PJRT_Error_Destroy_Args){ .error = error });
	return reason;
}

static PJRT_Error *find_bytes(PJRT_Buffer *b, void **out)
{
	PJRT_Error *error = NULL;

	if (!adp_is_host_platform(b->client))
		return adp_error(SAL_UNIMPLEMENTED,
				 "salus: the device's memory has no address here");
	(void)pthread_mutex_lock(&b->host_lock);
	if (!b->host)
		error = fetch_bytes(b);
	if (!error && adp_exposed_is_gone(b))
		error = adp_error(SAL_INVALID_ARGUMENT, "Buffer has been deleted or donated.");
	*out = error ? NULL : b->host;
	(void)pthread_mutex_unlock(&b->host_lock);
	return find_reason(b, error);
}

PJRT_Error *adp_Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args *args)
{
	void *bytes = NULL;
	PJRT_Error *error = find_bytes(args->buffer, &bytes);

	args->buffer_pointer = (uintptr_t)bytes;
	return error;
}

PJRT_Error *
adp_Buffer_OpaqueDeviceMemoryDataPointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args *args)
{
	return find_bytes(args->buffer, &args->device_memory_ptr);
}

/* False: nobody has pinned it. */
static bool unpin(PJRT_Buffer *b)
{
	int before = atomic_load(&b->pins);

	while (before > 0)
		if (atomic_compare_exchange_weak(&b->pins, &before, before - 1)) {
			if (before == 1)
				adp_exposed_unpinned(b);
			return true;
		}
	return false;
}

PJRT_Error *
adp_Buffer_IncreaseExternalReferenceCount(PJRT_Buffer_IncreaseExternalReferenceCount_Args *args)
{
	PJRT_Buffer *b = args->buffer;

	/* The pin first: see exposed.h. */
	(void)atomic_fetch_add(&b->pins, 1);
	if (atomic_load(&b->deleted) && (!b->host || adp_exposed_is_gone(b))) {
		unpin(b);
		return adp_error(SAL_INVALID_ARGUMENT, "Buffer has been deleted or donated.");
	}
	return NULL;
}

PJRT_Error *
adp_Buffer_DecreaseExternalReferenceCount(PJRT_Buffer_DecreaseExternalReferenceCount_Args *args)
{
	return unpin(args->buffer)
		       ? NULL
		       : adp_error(SAL_INVALID_ARGUMENT, "salus: nobody refers to the buffer");
}
