/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of aliases: parameters come in ascending order, each once. */
#include "device/pjrt/alias.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = fuzz_copy(data, size);
	uint32_t *parameters;
	size_t count, i;

	if (sal_alias_read((struct sal_text){ bytes, size }, &parameters, &count, NULL) >= 0) {
		for (i = 1; i < count; i++)
			if (parameters[i] <= parameters[i - 1])
				abort();
		free(parameters);
	}
	free(bytes);
	return 0;
}
