/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelf - compiled programs in memory, by key.
 *
 * What somebody uses stays findable. What nobody uses stays while all together are within the bound; those
 * used least recently go first. Leaving is looked at when something is put, so that references may be
 * dropped on any thread.
 *
 * Threads: none, but for the images' references.
 */
#ifndef SAL_COMPILE_SHELF_H
#define SAL_COMPILE_SHELF_H

#include "compile/pool/pool.h"

struct sal_shelf;

struct sal_shelf *sal_shelf_create(uint64_t limit_bytes);
/* Accepts NULL. */
void sal_shelf_destroy(struct sal_shelf *shelf);

/* A reference for the caller, or NULL. */
struct sal_image *sal_shelf_find(struct sal_shelf *shelf, const uint8_t key[SAL_PROGRAM_KEY_BYTES]);

/*
 * Takes the caller's reference and returns one: to the image, or to the one that was there under its key.
 * For lack of memory it is simply not remembered.
 */
struct sal_image *sal_shelf_put(struct sal_shelf *shelf, struct sal_image *take_image);

#endif
