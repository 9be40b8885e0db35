/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz - a harness is a file with this one function. The function returns 0, keeps no state, and
 * aborts on an error.
 *
 * Each harness is built twice: with replay.c, by every compiler, to run over corpus/<name>/ as a
 * test; and with libFuzzer (preset fuzz) to search for new inputs.
 */
#ifndef SAL_TESTS_FUZZ_FUZZ_H
#define SAL_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer requires this name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A heap copy of the exact size, so that the sanitizer sees an overrun. The caller frees it. */
static inline void *fuzz_copy(const uint8_t *data, size_t size)
{
	void *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	if (size > 0)
		memcpy(copy, data, size);
	return copy;
}

/* Reads the bytes, so that the sanitizer sees an overrun. */
static inline void fuzz_touch(const void *at, size_t size)
{
	const volatile unsigned char *bytes = at;

	for (size_t i = 0; i < size; i++)
		(void)bytes[i];
}

#endif
