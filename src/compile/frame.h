/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame - what the pool and salus-compile send each other: a head of fixed size, then up to three parts.
 *
 *     question   format, program, options
 *     answer     facts (packed), image, optimised module; or, if code is not 0, a message alone
 */
#ifndef SAL_COMPILE_FRAME_H
#define SAL_COMPILE_FRAME_H

#include <stdint.h>

#include "base/err.h"

#define SAL_FRAME_HEAD_BYTES 40
#define SAL_FRAME_PARTS 3
/* Of all parts together. */
#define SAL_FRAME_MOST_BYTES (UINT64_C(1) << 30)

struct sal_frame {
	uint64_t id; /* an answer has its question's */
	uint32_t code; /* 0 or a positive enum sal_code */
	uint64_t sizes[SAL_FRAME_PARTS];
};

void sal_frame_encode(const struct sal_frame *frame, uint8_t head[SAL_FRAME_HEAD_BYTES]);

/* -SAL_DATA_LOSS if this is not the head of a frame, or of too large a one. */
int sal_frame_decode(const uint8_t head[SAL_FRAME_HEAD_BYTES], struct sal_frame *out_frame);

/* Of all parts together; UINT64_MAX if that is too large. */
uint64_t sal_frame_bytes(const uint64_t sizes[SAL_FRAME_PARTS]);

#endif
