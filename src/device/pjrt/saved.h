/* SPDX-License-Identifier: Apache-2.0 */
/*
 * saved - buffers that leave a stream: to host memory and back, or to another stream.
 *
 * Threads: as in device.h.
 */
#ifndef SAL_DEVICE_PJRT_SAVED_H
#define SAL_DEVICE_PJRT_SAVED_H

#include "device/pjrt/vendor.h"

/* saved.c */

struct vendor_shape {
	PJRT_Buffer_Type type;
	size_t rank;
	int64_t dims[VENDOR_RANK_MAX];
	int64_t minor_to_major[VENDOR_RANK_MAX];
	bool row_major;
	uint32_t memory; /* a number as in base/facts.h */
};

/* The memory of the chip with this number; NULL: the plugin knows none. */
PJRT_Memory *sal_vendor_memory(const struct sal_stream *s, uint32_t memory);
int sal_vendor_shape(const struct sal_stream *s, PJRT_Buffer *buffer, struct vendor_shape *shape,
		     struct sal_err *err);

int sal_pjrt_save(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err);
int sal_pjrt_leave(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err);
int sal_pjrt_await_saved(struct sal_saved *saved, struct sal_err *err);
int sal_pjrt_restore(struct sal_stream *s, struct sal_saved *take_saved,
		     struct sal_buffer **out_buffer, struct sal_err *err);
/* The same, but to another memory of the chip. */
int sal_vendor_restore(struct sal_stream *s, uint32_t memory, struct sal_saved *take_saved,
		       struct sal_buffer **out_buffer, struct sal_err *err);
int sal_pjrt_empty(struct sal_buffer *b);
int sal_pjrt_refill(struct sal_buffer *b, struct sal_saved *take_saved, struct sal_err *err);
struct sal_text sal_pjrt_saved_bytes(const struct sal_saved *saved);
void sal_pjrt_free_saved(struct sal_saved *saved);

/* adopt.c */

/* Waits until no memory of the stream is lent. All buffers that use the memory must be freed. */
void sal_vendor_await_loans(const struct sal_stream *s);

int sal_pjrt_adopt(struct sal_stream *s, struct sal_buffer *take_buffer,
		   struct sal_buffer **out_buffer, struct sal_err *err);

#endif
