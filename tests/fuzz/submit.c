/* SPDX-License-Identifier: Apache-2.0 */
/* Submission records, as the ring delivers them: a valid record can be read to its last byte. */
#include "fuzz/fuzz.h"
#include "wire/messages.h"

/* Reads all bytes that the counts of a valid record announce. */
static void read_tail(const struct sal_header *h)
{
	const struct sal_msg_upload *upload = (const struct sal_msg_upload *)h;
	const struct sal_msg_execute *execute = (const struct sal_msg_execute *)h;
	const struct sal_msg_delete *forget = (const struct sal_msg_delete *)h;

	switch (h->type) {
	case SAL_MSG_COMPILE:
		(void)strlen(((const struct sal_msg_compile *)h)->format);
		break;
	case SAL_MSG_UPLOAD:
		fuzz_touch(upload + 1, upload->rank * sizeof(int64_t) +
					       (upload->from.size ? 0 : (size_t)upload->size));
		break;
	case SAL_MSG_EXECUTE:
		fuzz_touch(execute + 1, execute->arg_count * sizeof(uint64_t) +
						execute->retained_count * sizeof(uint32_t));
		break;
	case SAL_MSG_DELETE:
		fuzz_touch(forget + 1, forget->count * sizeof(uint64_t));
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sal_header *h;

	if (size < sizeof(*h))
		return 0;
	h = fuzz_copy(data, size);
	/* The ring has checked this. */
	if (h->size <= size && h->size >= sizeof(*h) && h->size % 8 == 0 && sal_submit_is_valid(h))
		read_tail(h);
	free(h);
	return 0;
}
