/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelf - compiled programs in memory, by key.
 *
 * The shelf keeps every image that somebody uses. It keeps unused images while all images together
 * are within the size limit; the least recently used go first. Images are removed only when another
 * is added, so that references may be dropped on any thread.
 *
 * Threads: none, except for the images' references.
 */
#ifndef SAL_COMPILE_SHELF_H
#define SAL_COMPILE_SHELF_H

#include "compile/store/image.h"

struct sal_shelf;

struct sal_shelf *sal_shelf_create(uint64_t limit_bytes);
/* Accepts NULL. */
void sal_shelf_destroy(struct sal_shelf *shelf);

/* The caller owns the returned reference. NULL: not found. */
struct sal_image *sal_shelf_find(struct sal_shelf *shelf, const uint8_t key[SAL_PROGRAM_KEY_BYTES]);

/*
 * Takes the caller's reference and returns one: to this image, or to the shelf's image with the
 * same key. Without memory, the shelf does not keep the image.
 */
struct sal_image *sal_shelf_put(struct sal_shelf *shelf, struct sal_image *take_image);

#endif
