/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image - a compiled program: one allocation with a reference count.
 *
 * The creator of an image fills its room with facts, image and optimised module, one after the
 * other, before anyone else sees the image. After that the image does not change.
 *
 * Threads: any thread takes and drops references.
 */
#ifndef SAL_COMPILE_IMAGE_H
#define SAL_COMPILE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/facts.h"
#include "compile/frame.h"

#define SAL_PROGRAM_KEY_BYTES 32

struct sal_image {
	uint8_t key[SAL_PROGRAM_KEY_BYTES]; /* see key.h */
	struct sal_text facts; /* packed, see wire/facts.h */
	struct sal_text image; /* for the device's load operation */
	struct sal_text optimized; /* HloModuleProtoWithConfig */
};

/* Has one reference, a zero key and undefined contents. NULL: no memory, or too large. */
struct sal_image *sal_image_create(const uint64_t sizes[SAL_FRAME_PARTS]);
struct sal_image *sal_image_ref(struct sal_image *image);
/* Accepts NULL. */
void sal_image_unref(struct sal_image *image);

char *sal_image_room(struct sal_image *image);
/* The size of facts, image and optimised module together. */
size_t sal_image_bytes(const struct sal_image *image);
/* True if there are other references than the caller's. */
bool sal_image_is_shared(const struct sal_image *image);

#endif
