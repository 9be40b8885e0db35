/* SPDX-License-Identifier: Apache-2.0 */
/* The check of compiled programs: any bytes get an answer, and a refusal has a text. */
#include "compile/check.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = fuzz_copy(data, size);
	struct sal_err err = { 0 };
	struct sal_check check = { .platform = { "cpu", 3 },
				   .format = { "mlir", 4 },
				   .optimized = { bytes, size } };

	if (sal_check_program(&check, &err) < 0 && !err.text[0])
		abort();
	check.format = (struct sal_text){ "hlo", 3 };
	check.program = check.optimized;
	check.optimized.size = 0;
	(void)sal_check_program(&check, &err);
	free(bytes);
	return 0;
}
