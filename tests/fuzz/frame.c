/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of frames between the pool and salus-compile: a decoded head is within bounds, and is
 * encoded to the same bytes again.
 */
#include "compile/frame.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t again[SAL_FRAME_HEAD_BYTES];
	struct sal_frame frame;
	uint8_t *head;

	if (size != SAL_FRAME_HEAD_BYTES)
		return 0;
	head = fuzz_copy(data, size);
	if (sal_frame_decode(head, &frame) >= 0) {
		if (sal_frame_bytes(frame.sizes) > SAL_FRAME_BYTES_MAX)
			abort();
		sal_frame_encode(&frame, again);
		if (memcmp(again, head, size) != 0)
			abort();
	}
	free(head);
	return 0;
}
