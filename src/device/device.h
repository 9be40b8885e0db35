/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device - a vendor's accelerator behind a small table of operations.
 *
 * There are two implementations: pjrt (drives a vendor's PJRT plugin) and fake (deterministic, for
 * tests). Both pass the same suite, tests/cts/test_devices.c.
 *
 * A stream runs the iterations of one lane. It is a vendor client of its own. Buffers and loaded
 * programs belong to the stream on which they were made, and may be used only there.
 *
 * A stream has one device of the vendor's client, or several: a wide stream. These are its chips.
 * They share one memory, and a program may run on several of them together. Each chip is a stream
 * of its own for buffers: upload, restore and adopt take it, and a buffer belongs to one chip.
 * Programs belong to the whole stream.
 *
 * A stream has a tier. Where the device has tiers, iterations of tier 1 get what iterations of tier
 * 0 leave over. On a host device (XLA:CPU) all that computes for a stream of tier 1 has a lower
 * priority (SAL_TIER_NICE), whichever thread calls execute.
 *
 * Threads: any thread may call any operation, on distinct objects at the same time. Any operation
 * may take long, or never return: execute may compute the whole program before it returns. So the
 * caller holds no lock during a call, and calls from a thread that only this stream needs.
 *
 * A done function is called exactly once if the operation returned >= 0, and never if it failed.
 * The call comes on any thread: one of the vendor's, or the caller's own before the operation
 * returns. The device holds no lock during the call. A done function must not block. The device
 * declares what else a done function may do:
 *
 *   - By default, a done function may call no operation of this table. It records the outcome,
 *     wakes another thread and returns. A vendor's callback thread often must not enter the vendor
 *     again (CUDA).
 *   - A device whose can_execute_in_done is true (XLA:CPU) allows every operation except close and
 *     close_stream, and those that wait (await_saved, restore, refill). So the next iteration can start
 *     without a change of threads. If a cheap program ends inside execute, done is called inside
 *     execute: a done function that executes again is then called inside itself. The caller must
 *     limit this depth, for instance with a flag "in execute": while it is set, done records the
 *     next iteration instead of starting it.
 *
 * tests/cts/test_devices.c tests both.
 */
#ifndef SAL_DEVICE_DEVICE_H
#define SAL_DEVICE_DEVICE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/facts.h"
#include "device/execution.h"

struct sal_device; /* an open plugin */
struct sal_stream; /* runs a lane's iterations */
struct sal_buffer; /* device memory with a shape */
struct sal_saved; /* the contents of a buffer, in host memory */
struct sal_loaded; /* a program ready to run on a stream */

struct sal_device_config {
	const char *plugin_path; /* pjrt only */
	const char *const *plugin_options; /* pjrt only; see option.h; ends with NULL; or NULL */
	uint64_t memory_bytes; /* fake only: capacity */
	uint64_t fake_ns; /* fake only: device time of an iteration */
};

/* A dense row-major array. */
struct sal_array {
	int32_t type; /* PJRT_Buffer_Type */
	uint32_t rank;
	const int64_t *dims;
	uint32_t memory; /* of the chip, where it goes; a number as in base/facts.h */
};

enum sal_upload_mode {
	SAL_UPLOAD_COPY, /* data may be reused when the call returns */
	SAL_UPLOAD_ALIAS, /* data stays valid and unchanged until `released` is called */
};

struct sal_device_ops {
	const char *name;

	int (*open)(const struct sal_device_config *cfg, struct sal_device **out_device,
		    struct sal_err *err);
	/* All streams must be closed. Accepts NULL. */
	void (*close)(struct sal_device *d);
	/* Valid until close. */
	const struct sal_device_facts *(*facts)(struct sal_device *d);
	/*
	 * True if a done function may call operations: see above. Does not change while d is open.
	 */
	bool (*can_execute_in_done)(const struct sal_device *d);

	/* True if a stream of tier 1 runs behind those of tier 0. Does not change. */
	bool (*has_tiers)(const struct sal_device *d);

	/* tier is less than SAL_TIERS. A device without tiers ignores it. */
	int (*open_stream)(struct sal_device *d, uint32_t tier, struct sal_stream **out_stream,
			   struct sal_err *err);
	/*
	 * Optional: NULL if no stream can change its tier. -SAL_UNIMPLEMENTED: not here. The iterations
	 * that start from now on have this tier, of one that runs some part. Costs some microseconds.
	 */
	int (*set_tier)(struct sal_stream *s, uint32_t tier);
	/*
	 * Optional: NULL if a stream of the device has one chip. Opens a stream with so many chips,
	 * more than one. describe gives the facts of the stream, valid until it is closed.
	 */
	int (*open_wide)(struct sal_device *d, uint32_t tier, uint32_t chips,
			 struct sal_stream **out_stream, struct sal_err *err);
	int (*describe)(struct sal_stream *s, const struct sal_device_facts **out_facts,
			struct sal_err *err);
	/* The chip with this number as a stream; chip 0 is the stream itself. Optional likewise. */
	struct sal_stream *(*chip)(struct sal_stream *s, uint32_t chip);
	/* Copies to a memory of a chip of the same stream. Optional likewise. */
	int (*copy_to)(struct sal_buffer *b, struct sal_stream *chip, uint32_t memory,
		       struct sal_buffer **out_buffer, struct sal_err *err);
	/*
	 * All buffers and programs of the stream must be freed, and buffers that other streams
	 * adopted from it. Accepts NULL.
	 */
	void (*close_stream)(struct sal_stream *s);
	/*
	 * CPU time that the stream has used so far, in all its threads and in measured calls; 0:
	 * the device cannot tell. Costs a system call for each thread. Done functions of all
	 * devices may call this.
	 */
	uint64_t (*busy_ns)(struct sal_stream *s);
	/*
	 * The device memory that the stream uses now, and the most it has used, in the device's own
	 * words. -SAL_UNIMPLEMENTED: the device does not say.
	 */
	int (*memory)(struct sal_stream *s, struct sal_stream_memory *out_memory);

	int (*load)(struct sal_stream *s, struct sal_text image, struct sal_loaded **out_loaded,
		    struct sal_err *err);
	void (*unload)(struct sal_loaded *p);

	/*
	 * released may be NULL with SAL_UPLOAD_COPY. data is dense and row-major, in the host's
	 * element format.
	 */
	int (*upload)(struct sal_stream *s, const struct sal_array *array, const void *data,
		      enum sal_upload_mode mode, sal_done_fn *released, void *ctx,
		      struct sal_buffer **out_buffer, struct sal_err *err);
	/*
	 * `size` must be the size of the buffer in the host's element format. The bytes come in the
	 * device's order of dimensions (see sal_output_facts.layout). The device waits until the
	 * buffer is defined.
	 */
	int (*download)(struct sal_buffer *b, void *dst, size_t size, sal_done_fn *done, void *ctx,
			struct sal_err *err);
	/* Copies to a memory of the buffer's chip. */
	int (*copy)(struct sal_buffer *b, uint32_t memory, struct sal_buffer **out_buffer,
		    struct sal_err *err);
	/* Optional: NULL if the memory has no addresses in this process. False: not defined yet. */
	bool (*reach)(struct sal_buffer *b, sal_use_fn *use, void *ctx);
	/* Calls done when b is defined or failed. */
	int (*when_ready)(struct sal_buffer *b, sal_done_fn *done, void *ctx, struct sal_err *err);
	/* The memory is freed when no operation uses it any more. Accepts NULL. */
	void (*free_buffer)(struct sal_buffer *b);

	/*
	 * Paging. save copies the contents of the buffer, its type, shape, layout and kind of
	 * memory. The contents are there when await_saved has returned without an error; until then
	 * do not free or donate the buffer. So a caller starts many copies, then waits. restore
	 * makes an equal buffer from the saved contents, on any stream of the device. On success it
	 * takes the saved contents, and frees them when the vendor has read them.
	 */
	int (*save)(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err);
	/*
	 * Optional, may fail: then save. The same without a copy, for a buffer whose memory cannot
	 * be given back. The contents stay there, until the buffer is freed.
	 */
	int (*leave)(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err);
	/* Call this once, before all other operations on saved. After a failure, free saved. */
	int (*await_saved)(struct sal_saved *saved, struct sal_err *err);
	int (*restore)(struct sal_stream *s, struct sal_saved *take_saved,
		       struct sal_buffer **out_buffer, struct sal_err *err);
	/*
	 * May fail on any device. empty gives the pages of a saved buffer back to the system; the
	 * buffer keeps its address, and may only be refilled or freed. refill takes the contents.
	 */
	int (*empty)(struct sal_buffer *b);
	int (*refill)(struct sal_buffer *b, struct sal_saved *take_saved, struct sal_err *err);
	/* The saved contents, in the format of download. */
	struct sal_text (*saved_bytes)(const struct sal_saved *saved);
	void (*free_saved)(struct sal_saved *saved); /* accepts NULL */

	/*
	 * May fail on any device: then save and restore. Makes the buffer one of this stream,
	 * without a copy. On success adopt takes the buffer. No operation may be using the buffer,
	 * because the next iteration may overwrite it.
	 */
	int (*adopt)(struct sal_stream *s, struct sal_buffer *take_buffer,
		     struct sal_buffer **out_buffer, struct sal_err *err);

	int (*execute)(struct sal_loaded *p, const struct sal_execution *x, struct sal_err *err);
};

extern const struct sal_device_ops sal_device_pjrt;
extern const struct sal_device_ops sal_device_fake;

#endif
