/* SPDX-License-Identifier: Apache-2.0 */
/* Completion records, as the ring delivers them: a valid record can be read to its last byte. */
#include "fuzz/fuzz.h"
#include "wire/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sal_header *h;

	if (size < sizeof(*h))
		return 0;
	h = fuzz_copy(data, size);
	if (h->size <= size && h->size >= sizeof(*h) && h->size % 8 == 0 &&
	    sal_complete_is_valid(h)) {
		const struct sal_msg_reply *reply = (const struct sal_msg_reply *)h;
		const struct sal_msg_done *done = (const struct sal_msg_done *)h;

		if (h->type == SAL_MSG_REPLY)
			fuzz_touch(reply + 1, reply->text_size);
		if (h->type == SAL_MSG_DONE || h->type == SAL_MSG_REFUSED)
			fuzz_touch(done + 1, done->tail_size);
	}
	free(h);
	return 0;
}
