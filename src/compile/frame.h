/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame - a message between the pool and salus-compile: a head of fixed size, then up to three
 * parts.
 *
 *     question   format, program, options
 *     answer     facts (packed), image, optimised module; or, if code is not 0, only a message
 */
#ifndef SAL_COMPILE_FRAME_H
#define SAL_COMPILE_FRAME_H

#include <stdint.h>

#include "base/err.h"

#define SAL_FRAME_HEAD_BYTES 44
#define SAL_FRAME_PARTS 3
/* The limit for all parts together. */
#define SAL_FRAME_BYTES_MAX (UINT64_C(1) << 30)

struct sal_frame {
	uint64_t id; /* an answer has the id of its question */
	uint32_t code; /* 0 or a positive enum sal_code */
	uint32_t devices; /* in a question: that the program may use; 0: one */
	uint64_t sizes[SAL_FRAME_PARTS];
};

void sal_frame_encode(const struct sal_frame *frame, uint8_t head[SAL_FRAME_HEAD_BYTES]);

/* -SAL_DATA_LOSS if this is not the head of a frame, or if the frame is too large. */
int sal_frame_decode(const uint8_t head[SAL_FRAME_HEAD_BYTES], struct sal_frame *out_frame);

/* The size of all parts together; UINT64_MAX if the frame is too large. */
uint64_t sal_frame_bytes(const uint64_t sizes[SAL_FRAME_PARTS]);

#endif
