/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of operations. Each operation counts its call and applies the faults, then does its
 * work.
 *
 * An operation that cannot fail does its work first. So if a fault delays it until its stream is
 * closed, it has nothing left to do.
 */
#include "device/fake/impl.h"

static int begin(struct sal_stream *s, enum fake_call call, struct sal_err *err)
{
	return sal_fake_begin_call(s->device, s, call, err);
}

/* A buffer that was donated to an iteration has no stream any more; its call fails anyway. */
static int begin_on(struct sal_buffer *b, enum fake_call call, struct sal_err *err)
{
	return b->cell ? begin(b->cell->stream, call, err) : SAL_OK;
}

static int call_open_stream(struct sal_device *d, uint32_t tier, struct sal_stream **out_stream,
			    struct sal_err *err)
{
	int rc = sal_fake_begin_call(d, NULL, FAKE_CALL_OPEN_STREAM, err);

	*out_stream = NULL;
	return rc < 0 ? rc : sal_fake_stream_open(d, tier, 1, out_stream, err);
}

static int call_open_wide(struct sal_device *d, uint32_t tier, uint32_t chips,
			  struct sal_stream **out_stream, struct sal_err *err)
{
	int rc = sal_fake_begin_call(d, NULL, FAKE_CALL_OPEN_STREAM, err);

	*out_stream = NULL;
	return rc < 0 ? rc : sal_fake_stream_open(d, tier, chips, out_stream, err);
}

static int call_load(struct sal_stream *s, struct sal_text image, struct sal_loaded **out_loaded,
		     struct sal_err *err)
{
	int rc = begin(s, FAKE_CALL_LOAD, err);

	*out_loaded = NULL;
	return rc < 0 ? rc : sal_fake_load(s, image, out_loaded, err);
}

static void call_unload(struct sal_loaded *p)
{
	struct sal_stream *s = p ? p->stream : NULL;

	sal_fake_unload(p);
	if (s)
		(void)begin(s, FAKE_CALL_UNLOAD, NULL);
}

/* NOLINTNEXTLINE(readability-function-size): the parameters are the table\'s. */
static int call_upload(struct sal_stream *s, const struct sal_array *array, const void *data,
		       enum sal_upload_mode mode, sal_done_fn *released, void *ctx,
		       struct sal_buffer **out_buffer, struct sal_err *err)
{
	int rc = begin(s, FAKE_CALL_UPLOAD, err);

	*out_buffer = NULL;
	return rc < 0 ? rc : sal_fake_upload(s, array, data, mode, released, ctx, out_buffer, err);
}

static int call_download(struct sal_buffer *b, void *dst, size_t size, sal_done_fn *done, void *ctx,
			 struct sal_err *err)
{
	int rc = begin_on(b, FAKE_CALL_DOWNLOAD, err);

	return rc < 0 ? rc : sal_fake_download(b, dst, size, done, ctx, err);
}

static int call_copy_to(struct sal_buffer *b, struct sal_stream *chip, uint32_t memory,
			struct sal_buffer **out_buffer, struct sal_err *err)
{
	int rc = begin_on(b, FAKE_CALL_COPY, err);

	*out_buffer = NULL;
	return rc < 0 ? rc : sal_fake_copy_to(b, chip, memory, out_buffer, err);
}

static int call_copy(struct sal_buffer *b, uint32_t memory, struct sal_buffer **out_buffer,
		     struct sal_err *err)
{
	return call_copy_to(b, b->cell ? b->cell->stream : NULL, memory, out_buffer, err);
}

static int call_when_ready(struct sal_buffer *b, sal_done_fn *done, void *ctx, struct sal_err *err)
{
	int rc = begin_on(b, FAKE_CALL_WHEN_READY, err);

	return rc < 0 ? rc : sal_fake_when_ready(b, done, ctx, err);
}

static void call_free_buffer(struct sal_buffer *b)
{
	struct sal_stream *s = b && b->cell ? b->cell->stream : NULL;

	sal_fake_free_buffer(b);
	if (s)
		(void)begin(s, FAKE_CALL_FREE_BUFFER, NULL);
}

static int call_save(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err)
{
	int rc = begin_on(b, FAKE_CALL_SAVE, err);

	*out_saved = NULL;
	return rc < 0 ? rc : sal_fake_save(b, out_saved, err);
}

static int call_restore(struct sal_stream *s, struct sal_saved *take_saved,
			struct sal_buffer **out_buffer, struct sal_err *err)
{
	int rc = begin(s, FAKE_CALL_RESTORE, err);

	*out_buffer = NULL;
	return rc < 0 ? rc : sal_fake_restore(s, take_saved, out_buffer, err);
}

static int call_empty(struct sal_buffer *b)
{
	int rc = begin_on(b, FAKE_CALL_EMPTY, NULL);

	return rc < 0 ? rc : sal_fake_empty(b);
}

static int call_refill(struct sal_buffer *b, struct sal_saved *take_saved, struct sal_err *err)
{
	int rc = begin_on(b, FAKE_CALL_REFILL, err);

	return rc < 0 ? rc : sal_fake_refill(b, take_saved, err);
}

static int call_adopt(struct sal_stream *s, struct sal_buffer *take_buffer,
		      struct sal_buffer **out_buffer, struct sal_err *err)
{
	int rc = begin(s, FAKE_CALL_ADOPT, err);

	*out_buffer = NULL;
	return rc < 0 ? rc : sal_fake_adopt(s, take_buffer, out_buffer, err);
}

static int call_execute(struct sal_loaded *p, const struct sal_execution *x, struct sal_err *err)
{
	int rc = begin(p->stream, FAKE_CALL_EXECUTE, err);

	for (size_t i = 0; i < (x->chip_count ? x->chip_count : 1) * x->output_count; i++)
		x->outputs[i] = NULL;
	return rc < 0 ? rc : sal_fake_execute(p, x, err);
}

static bool can_execute_in_done(const struct sal_device *d)
{
	return d->chained;
}

static bool has_tiers(const struct sal_device *d)
{
	(void)d;
	return true;
}

/* The fake's save copies at once. */
static int await_saved(struct sal_saved *saved, struct sal_err *err)
{
	(void)saved;
	(void)err;
	return SAL_OK;
}

/* The fake counts no memory for each stream. */
static int memory(struct sal_stream *s, struct sal_stream_memory *out_memory)
{
	(void)s;
	*out_memory = (struct sal_stream_memory){ 0 };
	return -SAL_UNIMPLEMENTED;
}

static uint64_t busy_ns(struct sal_stream *s)
{
	return atomic_load(&s->busy_ns);
}

const struct sal_device_ops sal_device_fake = {
	.name = "fake",
	.open = sal_fake_open,
	.close = sal_fake_close,
	.facts = sal_fake_facts,
	.can_execute_in_done = can_execute_in_done,
	.has_tiers = has_tiers,
	.open_stream = call_open_stream,
	.open_wide = call_open_wide,
	.describe = sal_fake_describe,
	.chip = sal_fake_chip,
	.copy_to = call_copy_to,
	.close_stream = sal_fake_stream_close,
	.busy_ns = busy_ns,
	.memory = memory,
	.load = call_load,
	.unload = call_unload,
	.upload = call_upload,
	.download = call_download,
	.copy = call_copy,
	.when_ready = call_when_ready,
	.free_buffer = call_free_buffer,
	.save = call_save,
	.await_saved = await_saved,
	.restore = call_restore,
	.empty = call_empty,
	.refill = call_refill,
	.saved_bytes = sal_fake_saved_bytes,
	.free_saved = sal_fake_free_saved,
	.adopt = call_adopt,
	.execute = call_execute,
};
