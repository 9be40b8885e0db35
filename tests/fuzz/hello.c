/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting: the name in a valid one is terminated. */
#include "fuzz/fuzz.h"
#include "wire/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sal_hello *hello;

	if (size != sizeof(*hello))
		return 0;
	hello = fuzz_copy(data, size);
	if (sal_hello_is_valid(hello) && strlen(hello->name) >= sizeof(hello->name))
		abort();
	free(hello);
	return 0;
}
