/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal - an image as bytes that only this user's daemon can make.
 *
 *     head (magic, version, key, identity, sizes) | facts, image, optimised module | MAC of these
 *
 * A device loads images as machine code. So bytes from a disk or from a client are accepted only
 * with a MAC under the user's secret, and only if the same plugin made them for the same kind of
 * device (identity.h). Cache files and the blobs of sal_image_seal have the same format.
 *
 * Threads: any; a seal does not change after sal_seal_init.
 */
#ifndef SAL_COMPILE_SEAL_H
#define SAL_COMPILE_SEAL_H

#include "compile/store/identity.h"
#include "compile/store/image.h"

#define SAL_SEAL_SECRET_BYTES 32
#define SAL_SEAL_HEAD_BYTES 104
#define SAL_SEAL_MAC_BYTES 32

struct sal_seal {
	uint8_t secret[SAL_SEAL_SECRET_BYTES];
	uint8_t identity[SAL_IDENTITY_BYTES]; /* of the compiler and the device */
};

void sal_seal_init(struct sal_seal *seal, const uint8_t secret[SAL_SEAL_SECRET_BYTES],
		   const uint8_t identity[SAL_IDENTITY_BYTES]);

/* The size of the sealed image. */
size_t sal_seal_bytes(const struct sal_image *image);

/* Makes the head and the MAC, to be written before and after the image's contents. */
void sal_seal_make(const struct sal_seal *seal, struct sal_image *image,
		   uint8_t head[SAL_SEAL_HEAD_BYTES], uint8_t mac[SAL_SEAL_MAC_BYTES]);

/*
 * Opening has two steps. sal_seal_begin creates an image with the sizes from the head, if they
 * match total_bytes. The caller fills the image's room. Then sal_seal_check verifies all bytes. If
 * the check fails, the caller must unref the image.
 */
int sal_seal_begin(const uint8_t head[SAL_SEAL_HEAD_BYTES], uint64_t total_bytes,
		   struct sal_image **out_image, struct sal_err *err);
int sal_seal_check(const struct sal_seal *seal, struct sal_image *image,
		   const uint8_t head[SAL_SEAL_HEAD_BYTES], const uint8_t mac[SAL_SEAL_MAC_BYTES],
		   struct sal_err *err);

#endif
