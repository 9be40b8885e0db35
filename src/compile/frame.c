/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/frame.h"

#include <string.h>

#include "wire/pack.h"

#define FRAME_MAGIC UINT32_C(0x31434c53) /* "SLC1" */

void sal_frame_encode(const struct sal_frame *frame, uint8_t head[SAL_FRAME_HEAD_BYTES])
{
	struct sal_pack p;

	sal_pack_init(&p, head, SAL_FRAME_HEAD_BYTES);
	sal_pack_u32(&p, FRAME_MAGIC);
	sal_pack_u32(&p, frame->code);
	sal_pack_u32(&p, frame->devices);
	sal_pack_u64(&p, frame->id);
	for (int i = 0; i < SAL_FRAME_PARTS; i++)
		sal_pack_u64(&p, frame->sizes[i]);
	SAL_ASSERT(!p.failed && p.used == SAL_FRAME_HEAD_BYTES);
}

int sal_frame_decode(const uint8_t head[SAL_FRAME_HEAD_BYTES], struct sal_frame *out_frame)
{
	struct sal_unpack u;
	uint32_t magic;

	memset(out_frame, 0, sizeof(*out_frame));
	sal_unpack_init(&u, head, SAL_FRAME_HEAD_BYTES);
	magic = sal_unpack_u32(&u);
	out_frame->code = sal_unpack_u32(&u);
	out_frame->devices = sal_unpack_u32(&u);
	out_frame->id = sal_unpack_u64(&u);
	for (int i = 0; i < SAL_FRAME_PARTS; i++)
		out_frame->sizes[i] = sal_unpack_u64(&u);
	if (u.failed || magic != FRAME_MAGIC || sal_frame_bytes(out_frame->sizes) == UINT64_MAX)
		return -SAL_DATA_LOSS;
	return SAL_OK;
}

uint64_t sal_frame_bytes(const uint64_t sizes[SAL_FRAME_PARTS])
{
	uint64_t total = 0;

	for (int i = 0; i < SAL_FRAME_PARTS; i++) {
		if (sizes[i] > SAL_FRAME_BYTES_MAX)
			return UINT64_MAX;
		total += sizes[i];
	}
	return total > SAL_FRAME_BYTES_MAX ? UINT64_MAX : total;
}
