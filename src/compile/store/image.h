/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image - the memory of a struct sal_image (see pool.h): one allocation, counted references.
 *
 * Whoever makes an image fills its room, facts, image and optimised module one after the other, before
 * anyone else sees it. From then on it does not change.
 */
#ifndef SAL_COMPILE_IMAGE_H
#define SAL_COMPILE_IMAGE_H

#include <stdbool.h>

#include "compile/frame.h"
#include "compile/pool/pool.h"

/* One reference; the key is zero, the room undefined. NULL for lack of memory or if it is too large. */
struct sal_image *sal_image_create(const uint64_t sizes[SAL_FRAME_PARTS]);

char *sal_image_room(struct sal_image *image);
/* Facts, image and optimised module together. */
size_t sal_image_bytes(const struct sal_image *image);
/* Is there another reference than the caller's? */
bool sal_image_is_shared(const struct sal_image *image);

#endif
