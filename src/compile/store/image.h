/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image - the memory of a struct sal_image (see pool.h): one allocation with a reference count.
 *
 * The creator of an image fills its room with facts, image and optimised module, one after the
 * other, before anyone else sees the image. After that the image does not change.
 */
#ifndef SAL_COMPILE_IMAGE_H
#define SAL_COMPILE_IMAGE_H

#include <stdbool.h>

#include "compile/frame.h"
#include "compile/pool/pool.h"

/* Has one reference, a zero key and undefined contents. NULL: no memory, or too large. */
struct sal_image *sal_image_create(const uint64_t sizes[SAL_FRAME_PARTS]);

char *sal_image_room(struct sal_image *image);
/* The size of facts, image and optimised module together. */
size_t sal_image_bytes(const struct sal_image *image);
/* True if there are other references than the caller's. */
bool sal_image_is_shared(const struct sal_image *image);

#endif
