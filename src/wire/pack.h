/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack - numbers and texts to little-endian bytes and back, within bounds.
 *
 * Errors stick: after a value that did not fit or was missing, all later calls do nothing (reads
 * give zeros), and one check at the end is enough. A writer without memory only counts: so the same
 * code first computes how much memory it needs and then fills it.
 */
#ifndef SAL_WIRE_PACK_H
#define SAL_WIRE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/facts.h"

struct sal_pack {
	unsigned char *at; /* borrowed; NULL: only count */
	size_t size;
	size_t used;
	bool failed; /* a value did not fit */
};

struct sal_unpack {
	const unsigned char *at; /* borrowed */
	size_t left;
	bool failed; /* a value was missing */
};

/* at may be NULL, then size does not matter. */
void sal_pack_init(struct sal_pack *p, void *at, size_t size);
void sal_pack_u32(struct sal_pack *p, uint32_t value);
void sal_pack_u64(struct sal_pack *p, uint64_t value);
void sal_pack_i64(struct sal_pack *p, int64_t value);
void sal_pack_f32(struct sal_pack *p, float value);
/* The bytes alone. */
void sal_pack_bytes(struct sal_pack *p, const void *bytes, size_t size);
/* The length, then the bytes. */
void sal_pack_text(struct sal_pack *p, struct sal_text text);

void sal_unpack_init(struct sal_unpack *u, const void *at, size_t size);
uint32_t sal_unpack_u32(struct sal_unpack *u);
uint64_t sal_unpack_u64(struct sal_unpack *u);
int64_t sal_unpack_i64(struct sal_unpack *u);
float sal_unpack_f32(struct sal_unpack *u);
/* NULL if fewer are left. */
const void *sal_unpack_bytes(struct sal_unpack *u, size_t size);
/* Points into the bytes that are read. */
struct sal_text sal_unpack_text(struct sal_unpack *u);
/* A count of items of at least item_bytes each; fails if the bytes left are too few for them. */
size_t sal_unpack_count(struct sal_unpack *u, size_t item_bytes);

#endif
