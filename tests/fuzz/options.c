/* SPDX-License-Identifier: Apache-2.0 */
/* Compile options: cleaned options are no larger, and cleaning them again changes nothing. */
#include "compile/options.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = fuzz_copy(data, size), *clean, *again;
	size_t clean_size, again_size;
	struct sal_err err = { 0 };

	if (sal_options_clean((struct sal_text){ bytes, size }, &clean, &clean_size, &err) >= 0) {
		if (clean_size > size)
			abort();
		if (sal_options_clean((struct sal_text){ clean, clean_size }, &again, &again_size,
				      NULL) != 0)
			abort();
		if (again_size != clean_size || memcmp(again, clean, clean_size) != 0)
			abort();
		free(again);
		free(clean);
	} else if (!err.text[0]) {
		abort();
	}
	free(bytes);
	return 0;
}
