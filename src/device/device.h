/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device - a vendor's accelerator behind a small table of operations.
 *
 * Two implementations: pjrt (drives a vendor's PJRT plugin) and fake (deterministic, for tests). Both pass
 * the same suite, tests/cts/test_devices.c.
 *
 * A stream is where one lane's iterations run: a vendor client of its own. Buffers and loaded programs
 * belong to the stream they were made on and may only be used there.
 *
 * Threads: all operations may be called from any thread, on distinct objects at the same time. Any operation
 * may take long, or never return: execute may compute the whole program before it returns. So the caller
 * holds no lock during a call, and uses a thread that only this stream needs.
 *
 * A done function is called exactly once if the operation returned >= 0 and never if it failed. The thread is
 * any: one of the vendor's, or the caller's own before the operation returns. The device holds no lock during
 * that call. A done function must not block. What else it may do, the device declares:
 *
 *   - By default, nothing of this table may be called from a done function. It notes the outcome, wakes
 *     another thread and returns. A vendor's callback thread often must not enter the vendor again (CUDA).
 *   - A device whose can_execute_in_done is true (XLA:CPU) allows every operation but close and close_stream,
 *     and those that wait (save, restore, refill). So the next iteration can start without a change of
 *     threads. If a cheap program ends inside execute, done is called inside execute: a done function that
 *     executes again is then called inside itself. The caller bounds this depth, for instance by a flag "in
 *     execute" that lets done note the next iteration instead of starting it.
 *
 * tests/cts/test_devices.c proves both.
 */
#ifndef SAL_DEVICE_DEVICE_H
#define SAL_DEVICE_DEVICE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/facts.h"

struct sal_device; /* an open plugin */
struct sal_stream; /* where a lane's iterations run */
struct sal_buffer; /* device memory with a shape */
struct sal_saved; /* what a buffer held, in host memory */
struct sal_loaded; /* a program ready to run on a stream */

/* code is 0 or a positive enum sal_code; message lives for the call. */
typedef void sal_done_fn(void *ctx, int code, const char *message);

struct sal_device_config {
	const char *plugin_path; /* pjrt only */
	uint64_t memory_bytes; /* fake only: capacity */
	uint64_t fake_ns; /* fake only: device time of an iteration, on its scripted clock */
};

/* A dense row-major array. */
struct sal_array {
	int32_t type; /* PJRT_Buffer_Type */
	uint32_t rank;
	const int64_t *dims;
};

enum sal_upload_mode {
	SAL_UPLOAD_COPY, /* data may be reused when the call returns */
	SAL_UPLOAD_ALIAS, /* data stays valid and unchanged until `released` is called */
};

struct sal_execution {
	struct sal_buffer *const *args;
	size_t arg_count;
	const int64_t *keep; /* arguments that must not be donated */
	size_t keep_count;
	struct sal_buffer **outputs; /* filled in; as many as the program has */
	size_t output_count;
	sal_done_fn *done; /* all outputs are defined, or failed */
	void *done_ctx;
};

struct sal_device_ops {
	const char *name;

	int (*open)(const struct sal_device_config *cfg, struct sal_device **out_device,
		    struct sal_err *err);
	/* All streams must be closed. Accepts NULL. */
	void (*close)(struct sal_device *d);
	/* Valid until close. */
	const struct sal_device_facts *(*facts)(struct sal_device *d);
	/* May operations be called from within a done function? See above. Does not change while d is open. */
	bool (*can_execute_in_done)(const struct sal_device *d);

	int (*open_stream)(struct sal_device *d, struct sal_stream **out_stream,
			   struct sal_err *err);
	/* All its buffers and programs must be gone. Accepts NULL. */
	void (*close_stream)(struct sal_stream *s);

	int (*load)(struct sal_stream *s, struct sal_text image, struct sal_loaded **out_loaded,
		    struct sal_err *err);
	void (*unload)(struct sal_loaded *p);

	/* released may be NULL with SAL_UPLOAD_COPY. data is dense row-major as the host stores it. */
	int (*upload)(struct sal_stream *s, const struct sal_array *array, const void *data,
		      enum sal_upload_mode mode, sal_done_fn *released, void *ctx,
		      struct sal_buffer **out_buffer, struct sal_err *err);
	/* Bytes of the host's form of the buffer must be `size`; they come in the device's order of
	 * dimensions (see sal_output_facts.layout). Waits for the buffer by itself. */
	int (*download)(struct sal_buffer *b, void *dst, size_t size, sal_done_fn *done, void *ctx,
			struct sal_err *err);
	/* Copy within the stream. */
	int (*copy)(struct sal_buffer *b, struct sal_buffer **out_buffer, struct sal_err *err);
	/* Call done when b is defined or failed. */
	int (*when_ready)(struct sal_buffer *b, sal_done_fn *done, void *ctx, struct sal_err *err);
	/* Memory goes when what uses it has ended. Accepts NULL. */
	void (*free_buffer)(struct sal_buffer *b);

	/*
	 * Paging. save waits for the buffer and copies it, with its type, shape and layout; it stays as it
	 * is. restore makes a buffer of the same kind from it, on any stream of the device; on success the
	 * saved one is taken, its memory goes when the vendor is done with it.
	 */
	int (*save)(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err);
	int (*restore)(struct sal_stream *s, struct sal_saved *take_saved,
		       struct sal_buffer **out_buffer, struct sal_err *err);
	/*
	 * Optional to succeed. empty gives the pages of a saved buffer back while it keeps its place; until
	 * refill has brought its contents back, and taken the saved ones, it may only be refilled or freed.
	 */
	int (*empty)(struct sal_buffer *b);
	int (*refill)(struct sal_buffer *b, struct sal_saved *take_saved, struct sal_err *err);
	/* Its bytes, as download gives them. */
	struct sal_text (*saved_bytes)(const struct sal_saved *saved);
	/* Accepts NULL. */
	void (*free_saved)(struct sal_saved *saved);

	int (*execute)(struct sal_loaded *p, const struct sal_execution *x, struct sal_err *err);
};

extern const struct sal_device_ops sal_device_pjrt;
extern const struct sal_device_ops sal_device_fake;

#endif
