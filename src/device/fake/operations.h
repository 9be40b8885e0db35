/* SPDX-License-Identifier: Apache-2.0 */
/* operations - what the table does once the faults have had their say. Include device/fake/impl.h. */
#ifndef SAL_DEVICE_FAKE_OPERATIONS_H
#define SAL_DEVICE_FAKE_OPERATIONS_H

#include "device/device.h"

int sal_fake_open(const struct sal_device_config *cfg, struct sal_device **out_device,
		  struct sal_err *err);
void sal_fake_close(struct sal_device *d);
const struct sal_device_facts *sal_fake_facts(struct sal_device *d);

int sal_fake_load(struct sal_stream *s, struct sal_text image, struct sal_loaded **out_loaded,
		  struct sal_err *err);
void sal_fake_unload(struct sal_loaded *p);
int sal_fake_upload(struct sal_stream *s, const struct sal_array *array, const void *data,
		    enum sal_upload_mode mode, sal_done_fn *released, void *ctx,
		    struct sal_buffer **out_buffer, struct sal_err *err);
int sal_fake_download(struct sal_buffer *b, void *dst, size_t size, sal_done_fn *done, void *ctx,
		      struct sal_err *err);
int sal_fake_copy_to(struct sal_buffer *b, struct sal_stream *chip, uint32_t memory,
		     struct sal_buffer **out_buffer, struct sal_err *err);
int sal_fake_when_ready(struct sal_buffer *b, sal_done_fn *done, void *ctx, struct sal_err *err);
void sal_fake_free_buffer(struct sal_buffer *b);
int sal_fake_save(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err);
int sal_fake_restore(struct sal_stream *s, struct sal_saved *take_saved,
		     struct sal_buffer **out_buffer, struct sal_err *err);
int sal_fake_empty(struct sal_buffer *b);
int sal_fake_refill(struct sal_buffer *b, struct sal_saved *take_saved, struct sal_err *err);
struct sal_text sal_fake_saved_bytes(const struct sal_saved *saved);
void sal_fake_free_saved(struct sal_saved *saved);
int sal_fake_adopt(struct sal_stream *s, struct sal_buffer *take_buffer,
		   struct sal_buffer **out_buffer, struct sal_err *err);
int sal_fake_execute(struct sal_loaded *p, const struct sal_execution *x, struct sal_err *err);

#endif
