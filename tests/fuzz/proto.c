/* SPDX-License-Identifier: Apache-2.0 */
/* The walker over protocol buffers: the fields together are the message, without gaps. */
#include "compile/proto.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = fuzz_copy(data, size);
	struct sal_text rest = { bytes, size };
	const char *at = bytes;
	struct sal_proto_field f;
	int rc;

	while ((rc = sal_proto_next(&rest, &f)) > 0) {
		if (f.whole.at != at || f.number == 0)
			abort();
		at += f.whole.size;
		fuzz_touch(f.whole.at, f.whole.size);
		fuzz_touch(f.bytes.at, f.bytes.size);
		if (rest.at != at)
			abort();
	}
	if (rc == 0 && at != bytes + size)
		abort();
	free(bytes);
	return 0;
}
