/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and the cells behind them. */
#include "device/fake/impl.h"

#include <stdlib.h>
#include <string.h>

struct fake_cell *sal_fake_cell_create(struct sal_stream *s, int32_t type, uint64_t size,
				       uint64_t charged)
{
	struct fake_cell *cell = calloc(1, sizeof(*cell));

	if (!cell)
		return NULL;
	cell->bytes = calloc(1, size + 1);
	if (!cell->bytes) {
		free(cell);
		return NULL;
	}
	atomic_init(&cell->refs, 1);
	cell->stream = s;
	cell->type = type;
	cell->size = size;
	cell->charged = charged;
	return cell;
}

struct fake_cell *sal_fake_cell_ref(struct fake_cell *cell)
{
	atomic_fetch_add(&cell->refs, 1);
	return cell;
}

void sal_fake_cell_unref(struct fake_cell *cell)
{
	if (!cell || atomic_fetch_sub(&cell->refs, 1) > 1)
		return;
	sal_fake_release(cell->stream->device, cell->charged);
	if (cell->released)
		sal_fake_push_done(cell->stream, cell->released, cell->released_ctx);
	else
		free(cell->bytes);
	free(cell);
}

static int no_memory(struct sal_err *err)
{
	sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a buffer");
	return -SAL_RESOURCE_EXHAUSTED;
}

static int array_bytes(const struct sal_array *array, uint64_t *out_bytes, struct sal_err *err)
{
	uint64_t bytes = sal_type_bytes(array->type);

	*out_bytes = 0;
	if (bytes == 0)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "unknown element type %d",
				   (int)array->type);
	for (uint32_t i = 0; i < array->rank; i++) {
		if (array->dims[i] < 0 ||
		    __builtin_mul_overflow(bytes, (uint64_t)array->dims[i], &bytes) ||
		    bytes > INT64_MAX)
			return sal_err_set(err, SAL_INVALID_ARGUMENT,
					   "dimension %lld is not a size",
					   (long long)array->dims[i]);
	}
	*out_bytes = bytes;
	return SAL_OK;
}

/* Makes a handle to a new cell with room for an array, in a memory of the chip. */
static int make_buffer(struct sal_stream *s, const struct sal_array *array, uint64_t size,
		       struct sal_buffer **out_buffer, struct sal_err *err)
{
	uint64_t charged = array->memory == FAKE_HOST ? 0 : size;
	struct sal_buffer *b;
	int rc;

	*out_buffer = NULL;
	rc = sal_fake_reserve(s->device, charged, err);
	if (rc < 0)
		return rc;
	b = calloc(1, sizeof(*b));
	if (b)
		b->cell = sal_fake_cell_create(s, array->type, size, charged);
	if (!b || !b->cell) {
		free(b);
		sal_fake_release(s->device, charged);
		return no_memory(err);
	}
	b->cell->memory = array->memory;
	*out_buffer = b;
	return SAL_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the parameters are the table\'s. */
int sal_fake_upload(struct sal_stream *s, const struct sal_array *array, const void *data,
		    enum sal_upload_mode mode, sal_done_fn *released, void *ctx,
		    struct sal_buffer **out_buffer, struct sal_err *err)
{
	struct fake_cell *cell;
	uint64_t size;
	int rc;

	*out_buffer = NULL;
	rc = array_bytes(array, &size, err);
	if (rc < 0)
		return rc;
	rc = make_buffer(s, array, size, out_buffer, err);
	if (rc < 0)
		return rc;
	cell = (*out_buffer)->cell;
	if (mode == SAL_UPLOAD_ALIAS && released) {
		free(cell->bytes);
		cell->bytes = (unsigned char *)data;
		cell->released = released;
		cell->released_ctx = ctx;
		return SAL_OK;
	}
	if (size > 0)
		memcpy(cell->bytes, data, size);
	sal_fake_push_done(s, released, ctx);
	return SAL_OK;
}

/* What happens to a cell, in turn */

struct cell_work {
	struct fake_work work;
	struct fake_cell *from; /* a reference */
	struct fake_cell *to; /* a reference; NULL: to dst */
	void *dst; /* borrowed; may be NULL */
};

static void run_cell(struct fake_work *work, bool cancelled)
{
	struct cell_work *c = (struct cell_work *)work;
	struct fake_failure failure = c->from->failure;

	if (!failure.code && cancelled) {
		failure.code = SAL_CANCELLED;
		strcpy(failure.text, "the stream was closed");
	}
	if (c->to)
		c->to->failure = failure;
	if (!failure.code && c->from->size > 0) {
		if (c->to)
			memcpy(c->to->bytes, c->from->bytes, c->from->size);
		if (c->dst)
			memcpy(c->dst, c->from->bytes, c->from->size);
	}
	/* The done function may free everything, so drop all references first. */
	sal_fake_cell_unref(c->from);
	sal_fake_cell_unref(c->to);
	if (work->done)
		work->done(work->done_ctx, failure.code, failure.text);
	free(c);
}

static int push_cell(struct sal_buffer *b, struct fake_cell *to, void *dst, sal_done_fn *done,
		     void *ctx)
{
	struct cell_work *c = calloc(1, sizeof(*c));

	if (!c)
		return -SAL_RESOURCE_EXHAUSTED;
	c->work.run = run_cell;
	c->work.done = done;
	c->work.done_ctx = ctx;
	c->from = sal_fake_cell_ref(b->cell);
	c->to = to ? sal_fake_cell_ref(to) : NULL;
	c->dst = dst;
	sal_fake_push(b->cell->stream, &c->work);
	return SAL_OK;
}

static int check_there(const struct sal_buffer *b, struct sal_err *err)
{
	if (b->cell)
		return SAL_OK;
	return sal_err_set(err, SAL_INVALID_ARGUMENT, "this buffer was donated to an iteration");
}

int sal_fake_download(struct sal_buffer *b, void *dst, size_t size, sal_done_fn *done, void *ctx,
		      struct sal_err *err)
{
	int rc;

	rc = check_there(b, err);
	if (rc < 0)
		return rc;
	if (size != b->cell->size)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "the buffer has %llu bytes, not %zu",
				   (unsigned long long)b->cell->size, size);
	return push_cell(b, NULL, dst, done, ctx) < 0 ? no_memory(err) : SAL_OK;
}

int sal_fake_copy_to(struct sal_buffer *b, struct sal_stream *chip, uint32_t memory,
		     struct sal_buffer **out_buffer, struct sal_err *err)
{
	int rc;

	*out_buffer = NULL;
	rc = check_there(b, err);
	if (rc < 0)
		return rc;
	rc = make_buffer(chip, &(struct sal_array){ .type = b->cell->type, .memory = memory },
			 b->cell->size, out_buffer, err);
	if (rc < 0)
		return rc;
	if (push_cell(b, (*out_buffer)->cell, NULL, NULL, NULL) < 0) {
		sal_fake_free_buffer(*out_buffer);
		*out_buffer = NULL;
		return no_memory(err);
	}
	return SAL_OK;
}

int sal_fake_when_ready(struct sal_buffer *b, sal_done_fn *done, void *ctx, struct sal_err *err)
{
	int rc = check_there(b, err);

	if (rc < 0)
		return rc;
	return push_cell(b, NULL, NULL, done, ctx) < 0 ? no_memory(err) : SAL_OK;
}

void sal_fake_free_buffer(struct sal_buffer *b)
{
	if (!b)
		return;
	sal_fake_cell_unref(b->cell);
	free(b);
}
