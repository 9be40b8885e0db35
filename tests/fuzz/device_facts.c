/* SPDX-License-Identifier: Apache-2.0 */
/* Device facts: bytes that can be unpacked are packed to the same bytes again. */
#include "fuzz/fuzz.h"
#include "wire/facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sal_device_facts *facts;
	void *bytes = fuzz_copy(data, size), *again;
	size_t again_size;

	if (sal_device_facts_unpack(bytes, size, &facts, NULL) >= 0) {
		again = sal_device_facts_pack(facts, &again_size);
		if (!again || again_size != size || memcmp(again, bytes, size) != 0)
			abort();
		free(again);
		free(facts);
	}
	free(bytes);
	return 0;
}
