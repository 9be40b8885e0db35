/* SPDX-License-Identifier: Apache-2.0 */
/* Paging: the saved contents of a buffer, in host memory; and buffers that change streams. */
#include "device/fake/impl.h"

#include <stdlib.h>
#include <string.h>

#include "device/wait.h"

struct sal_saved {
	int32_t type;
	uint32_t memory;
	uint64_t size;
	unsigned char bytes[];
};

/* Not the device's own table: this download is part of save and must not count as a call. */
static const struct sal_device_ops uncounted = { .download = sal_fake_download };

int sal_fake_save(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err)
{
	struct sal_saved *saved;
	int rc;

	*out_saved = NULL;
	if (!b->cell)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "this buffer was donated to an iteration");
	saved = malloc(sizeof(*saved) + b->cell->size);
	if (!saved)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no host memory to page out to");
	saved->type = b->cell->type;
	saved->memory = b->cell->memory;
	saved->size = b->cell->size;
	rc = sal_download_and_wait(&uncounted, b, saved->bytes, saved->size, err);
	if (rc < 0) {
		free(saved);
		return rc;
	}
	*out_saved = saved;
	return SAL_OK;
}

int sal_fake_restore(struct sal_stream *s, struct sal_saved *take_saved,
		     struct sal_buffer **out_buffer, struct sal_err *err)
{
	const int64_t dim = (int64_t)(take_saved->size / sal_type_bytes(take_saved->type));
	struct sal_array array = {
		.type = take_saved->type, .rank = 1, .dims = &dim, .memory = take_saved->memory
	};
	int rc = sal_fake_upload(s, &array, take_saved->bytes, SAL_UPLOAD_COPY, NULL, NULL,
				 out_buffer, err);

	if (rc >= 0)
		free(take_saved);
	return rc;
}

/* The memory is not the host's, so a buffer cannot keep its address while it is paged out. */
int sal_fake_empty(struct sal_buffer *b)
{
	(void)b;
	return -SAL_UNIMPLEMENTED;
}

int sal_fake_refill(struct sal_buffer *b, struct sal_saved *take_saved, struct sal_err *err)
{
	(void)b;
	(void)take_saved;
	return sal_err_set(err, SAL_UNIMPLEMENTED, "the fake device cannot empty buffers");
}

struct sal_text sal_fake_saved_bytes(const struct sal_saved *saved)
{
	return (struct sal_text){ (const char *)saved->bytes, saved->size };
}

void sal_fake_free_saved(struct sal_saved *saved)
{
	free(saved);
}

/* Only a buffer that no queued work uses changes streams. */
int sal_fake_adopt(struct sal_stream *s, struct sal_buffer *take_buffer,
		   struct sal_buffer **out_buffer, struct sal_err *err)
{
	struct fake_cell *cell = take_buffer->cell;

	*out_buffer = NULL;
	if (!cell || atomic_load(&cell->refs) > 1)
		return sal_err_set(err, SAL_UNIMPLEMENTED, "the buffer needs a copy");
	cell->stream = s;
	*out_buffer = take_buffer;
	return SAL_OK;
}
